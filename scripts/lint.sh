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

cmake --preset clang >/dev/null
mapfile -t units < <(printf '%s\n' "${sources[@]}" | grep '\.cc$' | grep -v '^tests/consumer/')
echo "lint: clang-tidy, ${#units[@]} files"
printf '%s\0' "${units[@]}" | xargs -0 -P "$(nproc)" -n 4 clang-tidy-19 -p build/clang --quiet
echo "lint: clean"
