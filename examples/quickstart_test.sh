#!/bin/bash
# The README's example is quickstart.cc, letter by letter, and prints what the README says; twice,
# on the same store. Usage: quickstart_test.sh PROGRAM SOURCE README
set -euo pipefail
program=$1 source=$2 readme=$3
store=$(mktemp -d "${TMPDIR:-/tmp}/lamella_quickstart.XXXXXX")
trap 'rm -rf "$store"' EXIT

# block LANGUAGE: the first fenced block of that language in the README.
block() { awk -v open="\`\`\`$1" '$0 == open && !done { inside = 1; next } $0 == "```" { if (inside) done = 1; inside = 0 } inside' "$readme"; }

diff <(block cpp) "$source" || { echo "expected the README's C++ example to be $source, found another" >&2; exit 1; }
for run in first second; do
  diff <(block text) <("$program" "$store/fruit") || { echo "the $run run prints something else than the README says" >&2; exit 1; }
done
