#!/bin/bash
# setup.sh [lint|demo|aarch64]: installs the Debian packages that Lamella is built, tested and
# compared with; only those missing. With `lint`, also clang, clang-format and clang-tidy 19, and
# clang's sanitizers and libFuzzer; with `demo`, only what the demo builds and compares with; with
# `aarch64`, only what building for AArch64 and running that under qemu takes: that tells dpkg of
# arm64, whose libraries then stand beside this machine's own, at the same version, and removes
# nothing; and where this Debian's qemu is too old, Debian 13's is unpacked into build/qemu, and not
# installed. Safe to run again: with nothing missing it changes nothing.
set -euo pipefail

build_packages=(g++ cmake ninja-build pkg-config libpmem2-dev libxxhash-dev liblz4-dev libzstd-dev)
program_packages=(libcli11-dev libfmt-dev nlohmann-json3-dev)
test_packages=(libgtest-dev libbenchmark-dev)
demo_peer_packages=(librocksdb-dev libleveldb-dev)  # what the demo compares with
peer_packages=("${demo_peer_packages[@]}" liblmdb-dev)  # what the benchmark does
lint_packages=(clang-19 clang-format-19 clang-tidy-19 libclang-rt-19-dev)  # the last: sanitizers and libFuzzer
aarch64_packages=(cmake ninja-build pkg-config libcli11-dev nlohmann-json3-dev g++-aarch64-linux-gnu
                  libpmem2-dev:arm64 libxxhash-dev:arm64 liblz4-dev:arm64 libzstd-dev:arm64 libfmt-dev:arm64 libgtest-dev:arm64)

wanted=("${build_packages[@]}" "${program_packages[@]}")
case "${1:-}" in
  demo) wanted+=("${demo_peer_packages[@]}") ;;
  lint) wanted+=("${test_packages[@]}" "${peer_packages[@]}" "${lint_packages[@]}") ;;
  aarch64) wanted=("${aarch64_packages[@]}") ;;
  *) wanted+=("${test_packages[@]}" "${peer_packages[@]}") ;;
esac

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "setup: this is not Debian (no dpkg-query or apt-get here). Install the equivalents of these yourself, then run" >&2
  echo "  'make build': ${wanted[*]}" >&2
  exit 1
fi

native=$(dpkg --print-architecture)
if [[ "${1:-}" == aarch64 && "$native" == arm64 ]]; then
  echo "setup: this machine is an AArch64 one: run 'make test' instead" >&2
  exit 1
fi

# Asked for a package without an architecture, dpkg-query answers for each that has it.
is_installed() {
  local architecture=$native
  [[ "$1" != *:* ]] || architecture=${1#*:}
  dpkg-query -W -f='${Architecture} ${db:Status-Status}\n' "$1" 2>/dev/null |
    grep -E "^($architecture|all) installed\$" >/dev/null
}

# qemu before 8.1 refuses programs the `dc cvap` that it offers them, takes MAP_SYNC for granted,
# and notes each page that is reserved: the TiB that a pool reserves takes it a minute and 6 GiB.
qemu_dir=$(dirname "$0")/../build/qemu
is_qemu_new() {
  local version
  version=$("$1" --version 2>/dev/null | sed -n '1s/.*version \([0-9.]*\).*/\1/p')
  [[ -n "$version" ]] && dpkg --compare-versions "$version" ge 8.1
}
has_qemu() { is_qemu_new qemu-aarch64 || is_qemu_new "$qemu_dir/usr/bin/qemu-aarch64"; }

# Its program is linked statically, so that it runs on Debian 12, too.
fetch_qemu() {
  local work mirror keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  echo "setup: fetching qemu-user of Debian 13 into build/qemu"
  mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' | awk '$2 !~ /-/ { print $1; exit }')
  [[ -n "$mirror" ]] || { echo "setup: apt knows no mirror of Debian here: install a qemu-user of 8.1 or later yourself" >&2; exit 1; }
  work=$(mktemp -d)
  mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
  echo "deb [signed-by=$keyring arch=$native] $mirror trixie main" >"$work/trixie.list"
  (
    cd "$work"
    apt_options=(-q -o "Dir::Etc::sourcelist=$work/trixie.list" -o Dir::Etc::sourceparts=/dev/null -o "APT::Architectures=$native"
                 -o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=)
    apt-get "${apt_options[@]}" update </dev/null
    apt-get "${apt_options[@]}" download qemu-user </dev/null
    dpkg -x qemu-user_*.deb unpacked
  )
  rm -rf "$qemu_dir"
  mkdir -p "$qemu_dir/usr/bin"
  cp "$work/unpacked/usr/bin/qemu-aarch64" "$qemu_dir/usr/bin/"
  rm -rf "$work"
  has_qemu || { echo "setup: the qemu-aarch64 that was fetched does not run here, or is older than 8.1" >&2; exit 1; }
}
[[ "${1:-}" != aarch64 ]] || has_qemu || fetch_qemu

missing=()
for package in "${wanted[@]}"; do
  is_installed "$package" || missing+=("$package")
done
if [[ ${#missing[@]} -eq 0 ]]; then
  echo "setup: all ${#wanted[@]} Debian packages are installed"
  exit 0
fi

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  if ! command -v sudo >/dev/null; then
    echo "setup: missing packages, and neither root nor sudo here to install them. As root, run:" >&2
    [[ "${1:-}" != aarch64 ]] || echo "  dpkg --add-architecture arm64" >&2
    echo "  apt-get update && apt-get install -y ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
  [[ -t 0 ]] || as_root=(sudo -n)  # never wait for a password that nobody can type
fi

echo "setup: installing ${#missing[@]} Debian packages: ${missing[*]}"
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@" </dev/null; }
install_options=(-y --no-install-recommends)
if [[ "${1:-}" == aarch64 ]]; then
  install_options+=(--no-remove)  # rather fail than take a package of this machine away
  dpkg --print-foreign-architectures | grep -x arm64 >/dev/null || "${as_root[@]}" dpkg --add-architecture arm64
fi
apt update
apt install "${install_options[@]}" "${missing[@]}"
echo "setup: done"
