#!/bin/bash
# check_seeds.sh PROGRAM CORPUS: the seeds in CORPUS are those that PROGRAM writes, all of them and
# no others.
set -euo pipefail
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
"$1" "$made"
for name in $(ls "$made"); do
  mkdir -p "$made/committed/$name"
  cp "$2/$name"/seed-* "$made/committed/$name/"
  diff -r "$made/$name" "$made/committed/$name" || {
    echo "the seeds of $name differ from what lamella_fuzz_seeds writes; run it on fuzz/corpus and commit the result" >&2
    exit 1
  }
done
