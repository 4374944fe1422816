#!/bin/bash
# run.sh BUILD_DIR CXX LIBDIR: installs BUILD_DIR into a scratch prefix, moves it (an installed tree
# is relocatable), builds main.cc against it through CMake and through pkg-config, and runs both.
set -euo pipefail
build=$1 cxx=$2 libdir=$3
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
stores=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d)
trap 'rm -rf "$scratch" "$stores"' EXIT

cmake --install "$build" --prefix "$scratch/staged" >"$scratch/install.log"
mv "$scratch/staged" "$scratch/installed"
prefix=$scratch/installed

echo "consumer: find_package(Lamella)"
cmake -S "$here" -B "$scratch/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$cxx" >"$scratch/configure.log" ||
  { cat "$scratch/configure.log"; exit 1; }
cmake --build "$scratch/build"
"$scratch/build/consumer" "$stores/by_cmake"

echo "consumer: pkg-config lamella"
export PKG_CONFIG_PATH=$prefix/$libdir/pkgconfig
read -ra flags <<<"$(pkg-config --cflags --libs lamella)"
"$cxx" -std=c++20 "$here/main.cc" "${flags[@]}" -o "$scratch/by_pkg_config"
"$scratch/by_pkg_config" "$stores/by_pkg_config"

if [ -x "$prefix/bin/lamella_bench" ]; then
  echo "consumer: the scenarios are installed, and found where the tree was moved to"
  scenarios=$(echo "$prefix"/*/lamella/scenarios)
  cp "$scenarios/listdb-fig30.json" "$scenarios/only-here.json"
  "$prefix/bin/lamella" bench --list | grep -q only-here
fi
