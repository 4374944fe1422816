#!/bin/bash
# fuzz.sh SECONDS [NAME...]: builds the fuzzers with clang's libFuzzer, ASan and UBSan, and runs
# each (or those named) for so long. What they learn is kept in build/fuzz/corpus/NAME; an input
# that crashes, in build/fuzz/found/NAME-*: add it to fuzz/corpus/NAME together with the fix. The
# exit status is 0 if nothing was found.
set -uo pipefail
cd "$(dirname "$0")/.."
build=${LAMELLA_FUZZ_BUILD:-build/fuzz}
seconds=${1:-60}
[[ "$seconds" =~ ^[1-9][0-9]*$ ]] || { echo "fuzz: SECONDS: expected a whole number from 1, found \"$seconds\"" >&2; exit 2; }
shift
names=("$@")
if [[ ${#names[@]} -eq 0 ]]; then
  for file in fuzz/*_fuzz.cc; do
    name=${file#fuzz/}
    names+=("${name%_fuzz.cc}")
  done
fi

cmake --preset fuzz -B "$build" && cmake --build "$build" -j "$(nproc)" --target "${names[@]/#/lamella_fuzz_}" || exit 1
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
mkdir -p "$build/found"
found=0
for name in "${names[@]}"; do
  echo "== $name: $seconds s"
  mkdir -p "$build/corpus/$name"
  log="$build/$name.log"
  "$build/fuzz/lamella_fuzz_$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 -max_len=4096 -print_final_stats=1 \
    -artifact_prefix="$build/found/$name-" "$build/corpus/$name" "fuzz/corpus/$name" >"$log" 2>&1
  status=$?
  if [[ $status -ne 0 ]]; then
    tail -60 "$log" >&2
    found=$((found + 1))
  fi
  awk '/stat::number_of_executed_units/ { runs = $2 } /cov: / { for (i = 1; i < NF; i++) if ($i == "cov:") cov = $(i + 1) }
       END { print "fuzz: '"$name"' " runs + 0 " inputs, " cov + 0 " edges" }' "$log"
done
echo "$found of ${#names[@]} fuzzers found something"
[[ $found -eq 0 ]]
