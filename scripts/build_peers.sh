#!/bin/bash
# build_peers.sh: builds RocksDB and LevelDB as their authors release them, from Debian's source of
# the very packages that setup.sh installs, into build/peers, where lamella_bench looks for them
# first. The packages themselves are built with assertions, RocksDB's also with the hooks of its
# tests and without the processor's CRC32C: that costs it a third of its puts. (LevelDB has that
# only from a library that Debian 12 has not; it is without here, too.) A quarter of an hour on two
# cores; what is built stays until this file or the package is another. `rm -rf build/peers` goes
# back to the packages. The benchmark says which of the two it measures.
set -euo pipefail
cd "$(dirname "$0")/.."

peers=$PWD/build/peers
recipe=$(sha256sum scripts/build_peers.sh | cut -c1-12)
mkdir -p "$peers"

say() { echo "build_peers: $*"; }
fail() {
  echo "build_peers: $*" >&2
  echo "build_peers: 'make bench PEERS=package' measures the packages instead, which are slower" >&2
  exit 1
}

# Where the packages come from, their sources are, too.
apt_options=(-q -o "Dir::Etc::sourcelist=$peers/sources.list" -o Dir::Etc::sourceparts=/dev/null
             -o "Dir::State::lists=$peers/lists" -o APT::Sandbox::User= -o APT::Update::Error-Mode=any)
are_listed=no
list_sources() {
  [[ $are_listed == no ]] || return 0
  local keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' 'Origin: Debian' | sort -u |
    awk -v key="$keyring" '{ print "deb-src [signed-by=" key "] " $1 " " $2 " main" }' >"$peers/sources.list"
  [[ -s "$peers/sources.list" ]] || fail "apt knows no mirror of Debian here: run 'apt-get update' as root first"
  mkdir -p "$peers/lists/partial"
  apt-get "${apt_options[@]}" update </dev/null >/dev/null || fail "the lists of sources cannot be fetched"
  are_listed=yes
}

# build_peer NAME TARGET CMAKE_OPTION...: the library of libNAME-dev, under the name that programs
# which were linked with the package's ask the loader for.
build_peer() {
  local name=$1 target=$2 version package_library soname work marker
  shift 2
  version=$(dpkg-query -W -f='${source:Version}' "lib$name-dev" 2>/dev/null) ||
    fail "expected the package lib$name-dev; run scripts/setup.sh first"
  package_library=$(dpkg-query -L "lib$name-dev" | grep "/lib$name\.so\$") ||
    fail "lib$name-dev has no lib$name.so: install it again"
  soname=$(objdump -p "$package_library" | awk '$1 == "SONAME" { print $2 }')
  marker=$peers/$name-$version-$recipe.built
  if [[ -f "$marker" && -f "$peers/$soname" ]]; then
    say "$name $version is built"
    return 0
  fi
  work=$peers/$name
  rm -rf "$work" "$peers/$name"-*.built "$peers/$soname"
  mkdir -p "$work/source"
  list_sources
  (cd "$work" && apt-get "${apt_options[@]}" source --download-only "$name=$version" </dev/null >/dev/null) ||
    fail "the source of $name $version cannot be fetched"
  tar xf "$work/${name}_${version%-*}".orig.tar.[gx]z -C "$work/source" --strip-components=1
  say "building $name $version"
  { cmake -G Ninja -S "$work/source" -B "$work/build" -DCMAKE_BUILD_TYPE=Release "$@" &&
    ninja -C "$work/build" "$target"; } >"$work/log" 2>&1 || fail "$name $version does not build: see $work/log"
  # Whole or not at all, and never under a program that runs.
  cp -L "$work/build/lib$name.so" "$peers/$soname.new"
  mv "$peers/$soname.new" "$peers/$soname"
  rm -rf "$work"
  touch "$marker"
  say "$name $version is in build/peers"
}

# With run-time types, as the packages: an Env of its own has them.
build_peer leveldb leveldb -DBUILD_SHARED_LIBS=ON -DLEVELDB_BUILD_TESTS=OFF -DLEVELDB_BUILD_BENCHMARKS=OFF \
  '-DCMAKE_CXX_FLAGS_RELEASE=-O3 -DNDEBUG -frtti'
has_sse42=$([[ $(uname -m) == x86_64 ]] && echo ON || echo OFF)
build_peer rocksdb rocksdb-shared -DPORTABLE=ON -DFORCE_SSE42="$has_sse42" -DUSE_RTTI=ON -DFAIL_ON_WARNINGS=OFF \
  -DROCKSDB_BUILD_SHARED=ON -DWITH_TESTS=OFF -DWITH_TOOLS=OFF -DWITH_CORE_TOOLS=OFF -DWITH_BENCHMARK_TOOLS=OFF -DWITH_GFLAGS=OFF
