#!/bin/bash
# lint.sh: clang-format and clang-tidy 19 over every source of ours, as .clang-format and
# .clang-tidy say. Changes nothing; `lint.sh --fix` formats in place instead.
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t sources < <(git ls-files --cached --others --exclude-standard \
  'include/*.h' 'src/*.h' 'src/*.cc' 'tools/*.h' 'tools/*.cc' 'bench/*.h' 'bench/*.cc' 'tests/*.h' 'tests/*.cc' 'fuzz/*.h' 'fuzz/*.cc')
if [[ "${1:-}" == --fix ]]; then
  clang-format-19 -i "${sources[@]}"
  exit 0
fi
echo "lint: clang-format, ${#sources[@]} files"
clang-format-19 --dry-run -Werror "${sources[@]}"

# Most of what a file takes is its headers, so that files are looked at in the batches in which they
# are compiled, with the files of a batch taken for headers (HeaderFilterRegex).
cmake --preset clang -B build/lint -DLAMELLA_BATCH=8 >/dev/null
mapfile -t units < <(sed -n 's/^ *"file": "\(.*\)",\{0,1\}$/\1/p' build/lint/compile_commands.json | sort -u)
mapfile -t missed < <(comm -23 \
  <(printf '%s\n' "${sources[@]}" | grep '\.cc$' | grep -v '^tests/consumer/' | sed "s|^|$PWD/|" | sort) \
  <({ printf '%s\n' "${units[@]}"; cat build/lint/*/CMakeFiles/*.dir/Unity/*.cxx | sed -n 's/^#include "\(.*\)"$/\1/p'; } | sort -u))
if [[ ${#missed[@]} -gt 0 ]]; then
  printf 'lint: no target compiles %s\n' "${missed[@]}" >&2
  exit 1
fi
echo "lint: clang-tidy, ${#units[@]} batches"
printf '%s\0' "${units[@]}" | xargs -0 -P "$(nproc)" -n 1 clang-tidy-19 -p build/lint --quiet
echo "lint: clean"
