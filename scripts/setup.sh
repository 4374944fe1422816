#!/bin/bash
# setup.sh [lint|demo]: installs the Debian packages that Lamella is built, tested and compared
# with; only those missing. With `lint`, also clang, clang-format and clang-tidy 19, and clang's
# sanitizers and libFuzzer; with `demo`, only what the demo builds and compares with. Safe to run
# again: with nothing missing it changes nothing.
set -euo pipefail

build_packages=(g++ cmake ninja-build pkg-config libpmem2-dev libxxhash-dev liblz4-dev libzstd-dev)
program_packages=(libcli11-dev libfmt-dev nlohmann-json3-dev)
test_packages=(libgtest-dev libbenchmark-dev)
demo_peer_packages=(librocksdb-dev libleveldb-dev)  # what the demo compares with
peer_packages=("${demo_peer_packages[@]}" liblmdb-dev)  # what the benchmark does
lint_packages=(clang-19 clang-format-19 clang-tidy-19 libclang-rt-19-dev)  # the last: sanitizers and libFuzzer

wanted=("${build_packages[@]}" "${program_packages[@]}")
case "${1:-}" in
  demo) wanted+=("${demo_peer_packages[@]}") ;;
  lint) wanted+=("${test_packages[@]}" "${peer_packages[@]}" "${lint_packages[@]}") ;;
  *) wanted+=("${test_packages[@]}" "${peer_packages[@]}") ;;
esac

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "setup: this is not Debian (no dpkg-query or apt-get here). Install the equivalents of these yourself, then run" >&2
  echo "  'make build': ${wanted[*]}" >&2
  exit 1
fi

missing=()
for package in "${wanted[@]}"; do
  state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ "$state" == installed ]] || missing+=("$package")
done
if [[ ${#missing[@]} -eq 0 ]]; then
  echo "setup: all ${#wanted[@]} Debian packages are installed"
  exit 0
fi

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  if ! command -v sudo >/dev/null; then
    echo "setup: missing packages, and neither root nor sudo here to install them. As root, run:" >&2
    echo "  apt-get update && apt-get install -y ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
  [[ -t 0 ]] || as_root=(sudo -n)  # never wait for a password that nobody can type
fi

echo "setup: installing ${#missing[@]} Debian packages: ${missing[*]}"
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@" </dev/null; }
apt update
apt install -y --no-install-recommends "${missing[@]}"
echo "setup: done"
