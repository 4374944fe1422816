#!/bin/bash
# test.sh: every test in the release build, again under ASan and UBSan all where they may see more,
# the concurrent ones under TSan, and the Java part's.
# test.sh STAGE... runs only those stages (release, asan, tsan, hadoop; and two that are run only
# where they are named: aarch64, the tests of what is built for AArch64, under qemu; schedules, the
# release build's concurrent ones with threads held up at their locks, tests/schedules/hold_up.cc).
# The last line is "N passed, N failed", over all stages; the exit status is 0 only if some ran and
# none failed. Before that line stand the tests that failed, each with the first of what it said;
# before those the figures of the proof, one a line: `proof: NAME VALUE`, those of the release stage
# added up over its programs, and a table of them, a row an engine.
# Each run draws from another seed, which is printed; LAMELLA_TEST_SEED=N draws as that run did.
# LAMELLA_PROOF_SCALE=N has each engine explore for N times as long as it takes all of them together
# here (`make test-long BUDGET=N`), under the sanitizers in all of its layouts, and then the release
# stage writes its figures into the table of docs/DURABILITY.md.
set -uo pipefail
cd "$(dirname "$0")/.."

jobs=$(nproc)
ulimit -f $((4 << 20))  # KiB: a test gone wrong is ended at a 4 GiB file, before it fills the machine's memory
passed=0
failed=0
broken=0  # builds that failed, or test runs that left no report

# The tests whose point is threads: these folders', and any named so elsewhere.
concurrent_labels='^(log|memtable|engine(_[a-z]+)?|db)$'
concurrent_names='Concurren'
# Of those folders, what asks one thread's work of a store and takes long, or is done there in
# another layout, too; and the bugs planted to show that a check catches them. NVLSM's foils differ
# from it in what is merged: for a sanitizer one layout of them is enough, and what faults and
# damage do to the parts that they share with it is asked of that one alone.
foil_names='^All/[A-Za-z]+Conformance/nvlsm(Leveled|Fragmented).*(TwoParts|Components)$|^All/(StoreFaults|EngineMemory|MemoryFaults|ResourcesTest|ChunkTableDamage)/nvlsm(Leveled|Fragmented)'
sequential_names='^Media/KillTest|^All/(CutRepair|HiddenDamage|StoreCrash|StoreFaults|DeletionCrash|Corruption|ChunkTableDamage|BadInputOfEngines|Rebuilding|ReadOnlyDirectory|LostPool)|^Shares/FlippedBit|^Tlsm(TableDamage|Salvage)$|^(CompactionPicker|PartitionLevels|FlushPace|ValueLogCrash|Shapes/RhTreeKeysTest)|^[A-Za-z]+State$|^StoreCrashControl|^MetamorphicControl|^(KeyPrefixes|EvacuationCutTest|LevelSweepTest)$|'"$foil_names"'|^All/(Life|Point|Read)Conformance/.*TwoParts$'

# What explores for so many seconds: in the release and ASan builds with a core for itself, so that
# it gets as far as it can.
timed_names='^All/(StoreCrash|ConcurrentHistories|DeletionCrash)'

# count_tests REPORT: how many passed, and how many failed. What is one to ctest may be many to
# GoogleTest, or have ended before it could say how many; what is no GoogleTest counts as one.
count_tests() {
  awk '
    /<testcase name=/ { status = $0; sub(/^.* status="/, "", status); sub(/".*$/, "", status); ok = bad = skipped = 0 }
    /^\[       OK \] /   { ok++ }
    /^\[  FAILED  \] .* \([0-9]+ ms\)$/ { bad++ }
    /^\[  SKIPPED \] .* \([0-9]+ ms\)$/ { skipped++ }
    /<\/testcase>/ { if (status == "fail") failed += bad ? bad : 1
                     passed += ok ? ok : (status == "run" && !skipped) }
    END { print passed + 0, failed + 0 }' "$1"
}

build() {
  local preset=$1
  if ! { cmake --preset "$preset" && cmake --build --preset "$preset" -j "$jobs"; }; then
    echo "== $preset: the build failed" >&2
    broken=$((broken + 1))
    return 1
  fi
}

# name_failed PRESET REPORT: each failed test, how long it ran, and the first lines of what it said
# of its failure.
name_failed() {
  awk -v preset="$1" '
    /<testcase name=/ { split($0, part, "\""); bad = /status="fail"/; shown = 0; from = 0; begun = ""
                        if (bad) print "failed: " preset ": " part[2] " (" part[6] " s)" }
    /<\/system-out>/ { bad = 0 }
    bad && /^\[ RUN      \]/ { begun = $0 }
    bad && !from && begun != "" && /: Failure$|Sanitizer|error:/ { print "    " begun }
    bad && /: Failure$|Sanitizer|error:/ { from = 1 }
    bad && from && !/^[[:space:]]*$/ && shown < 8 { sub(/^.*<system-out>/, ""); print "    " substr($0, 1, 300); shown++ }' "$2"
}

# run_tests PRESET REPORT [ctest arguments...]; adds to passed and failed what ctest reports. Three
# tests a core, unless they say otherwise: a store's clients and its background wait for each other,
# and with two a quarter of the time was left over. ctest knows nine groups in a pattern, and leaves
# nothing out by one that has more.
run_tests() {
  local preset=$1 report=$PWD/build/$1/$2.xml argument groups
  shift 2
  for argument in "$@"; do
    groups=${argument//[^(]/}
    [[ ${#groups} -le 9 ]] && continue
    echo "== $preset: expected a pattern of at most 9 groups, found ${#groups}: $argument" >&2
    broken=$((broken + 1))
    return
  done
  rm -f "$report"
  "${launcher[@]}" ctest --preset "$preset" -j "$((3 * jobs))" --output-junit "$report" \
    --test-output-size-passed $((1 << 20)) --test-output-size-failed $((1 << 20)) "$@"
  local status=$?
  if [[ ! -s "$report" ]]; then
    echo "== $preset: ctest ended with $status and left no report" >&2
    broken=$((broken + 1))
    return
  fi
  local passes failures
  read -r passes failures < <(count_tests "$report")
  failed=$((failed + failures))
  passed=$((passed + passes))
  [[ $failures -eq 0 ]] || name_failed "$preset" "$report" >>"$failed_file"
  if [[ $status -ne 0 && $failures -eq 0 ]]; then
    echo "== $preset: ctest ended with $status though it reports no failed test" >&2
    broken=$((broken + 1))
  fi
}

# Under qemu all takes ten times as long and more. Left out is what explores crashes, histories and
# damage, which asks nothing of a processor that each part's own tests do not; bugs planted to be
# caught; and what has a shell run a program that was built, which needs qemu. Of the engines'
# layouts the one is asked in which a few hundred records fill every structure; NVLSM's foils differ
# from it in what is merged.
emulated_left_out='^(Planted|PoolShrink$|SstCorruption$)|Crash|Damage|^ValueLogControls$|^tools_end_to_end|^Fuzz\.SeedsAre'
emulated_foils='nvlsm(Leveled|Fragmented)'
emulated_designs='^All/[A-Za-z]+Conformance/.*CacheLineTiny$|^(BadInput|BadPlace|Engines|ExecutorTest|LabDbValueFiles|LightKvTest|Properties|ToyEngineTest|WriteBatch)$'

# What ASan has nothing to see in: that checks catch planted bugs, a growth that is cut a thousand
# times, processes that are killed, and states that other media leave, too. Each of their steps is
# in other tests.
control_names='^All/DeletionCrash|^All/StoreCrash.*_(eadr|kill)$|^Planted|^StoreCrashControl|^MetamorphicControl|^PoolCrash\.GrowthCut|^Media/KillTest|'"$foil_names"

# A slice: of the layouts in which a suite asks a design, one in so many, drawn by the seed. They
# share nearly all of their code, so a run looks into all of it, and a few runs at all of them. The
# whole is to end within 45 minutes: so the release stage has all layouts, but fewer where its build
# alone took long, on a slow machine; what has seconds of its own to explore in, of each design as
# it is by default and of the deletions, it has whole. The sanitizers have a quarter; where all
# before them took long they draw from the layouts of all designs together, and fewer the longer.
slice_share=1
slice_of='(CacheLine|Page|Byte|_).*'
never_left='^All/(DeletionCrash|ConcurrentHistories)|^All/StoreCrash.*/[A-Za-z]+_[a-z]+$'
draw_slice() {
  local usual_build=330 usual=1500
  if [[ $1 == release ]]; then
    [[ $SECONDS -le $usual_build ]] || slice_share=$((1 + SECONDS / usual_build))
  else
    never_left='^$'
    slice_share=4
    if [[ $SECONDS -gt $usual ]]; then
      slice_share=$((4 + (SECONDS - usual) / 100))
      slice_of='/[^/]*$'
    fi
  fi
  echo "== of each suite's layouts one in $slice_share, after $SECONDS s"
}

# left_out PRESET PATTERN: a pattern of the pattern's and of those that were not drawn.
left_out() {
  if [[ -n "${LAMELLA_PROOF_SCALE:-}" || $slice_share -eq 1 ]]; then
    echo "$2"
    return
  fi
  ctest --preset "$1" -N -E "$2" | awk -v seed="$LAMELLA_TEST_SEED" -v pattern="$2" \
    -v share="$slice_share" -v slice_of="$slice_of" -v never_left="$never_left" '
    $1 == "Test" && $NF ~ /^All\// && $NF !~ never_left {
      of = $NF
      sub(slice_of, "", of)
      if (!(of in count)) ofs[++all] = of
      name[of, ++count[of]] = $NF
    }
    END {
      srand(seed)
      for (i = 1; i <= all; i++)
        for (n = count[of = ofs[i]]; n > int((count[of] + share - 1) / share); n--) {  # one of those left
          drawn = 1 + int(n * rand())
          pattern = pattern "|^" name[of, drawn] "$"
          name[of, drawn] = name[of, n]
        }
      print pattern
    }'
}

# TSan needs the address space laid out as it expects; where the kernel randomizes more than it can
# take, run without.
tsan_launcher() {
  local probe
  probe=$(find build/tsan -name 'lamella_*_test' -type f -perm -u+x | head -1)
  if [[ -n "$probe" ]] && ! "$probe" --gtest_list_tests >/dev/null 2>&1 &&
     setarch "$(uname -m)" -R "$probe" --gtest_list_tests >/dev/null 2>&1; then
    launcher=(setarch "$(uname -m)" -R)
  fi
}

# The Java part counts its own; its last line says how many.
hadoop_log=$PWD/build/hadoop/tests.log
start_hadoop() {
  mkdir -p "${hadoop_log%/*}"
  bash scripts/test_hadoop.sh >"$hadoop_log" 2>&1 </dev/null &
  hadoop_job=$!
}
finish_hadoop() {
  wait "$hadoop_job"
  local status=$?
  cat "$hadoop_log"
  if [[ ! "$(tail -1 "$hadoop_log")" =~ ^hadoop:\ ([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
    echo "== hadoop: test_hadoop.sh ended with $status and no count" >&2
    broken=$((broken + 1))
    return
  fi
  passed=$((passed + BASH_REMATCH[1]))
  failed=$((failed + BASH_REMATCH[2]))
  [[ ${BASH_REMATCH[2]} -eq 0 ]] || grep -hE '^\[ERROR\] .*(<<<|:[0-9]+ )' "$hadoop_log" | head -20 | sed 's/^/failed: hadoop: /' >>"$failed_file"
  if [[ $status -ne 0 && ${BASH_REMATCH[2]} -eq 0 ]]; then
    echo "== hadoop: test_hadoop.sh ended with $status though it reports no failed test" >&2
    broken=$((broken + 1))
  fi
}

# Adds up the lines that the test programs appended: counts by name, and both sides of shares. A
# name with a dot in it is ENGINE.FIGURE; some figures are text.
add_proof() {
  [[ -s "$proof_file" ]] || return 0
  awk '$1 == "proof:" && $3 ~ /[a-zA-Z]/ { text[$2] = $3; next }
       $1 == "proof:" && split($3, side, "/") { have[$2] += side[1]; if (2 in side) all[$2] += side[2] }
       END { for (name in have) print "proof: " name " " have[name] (name in all ? "/" all[name] : "")
             for (name in text) print "proof: " name " " text[name] }' "$proof_file" | sort
}

# The figures of all engines together, and of what no engine has part in.
print_proof() { add_proof | grep -v '^proof: [^ ]*\.' || true; }

# A markdown table, a row an engine; short names of the columns, and the figure each shows.
print_engines() {
  add_proof | awk '
    BEGIN { n = split("adr states_adr,strict states_strict,eadr states_eadr,page states_page,kill states_kill," \
                      "in recovery states_within_recovery,sites cut sites_cut,deletion lines deletion_score_lines," \
                      "deletion pages deletion_score_pages,wrong/bits flipped bits_flipped_wrong,faults faults_injected,kills kills," \
                      "histories histories_linearizable,operations operations_compared", columns, ",") }
    split($2, part, ".") == 2 { if (!(part[1] in seen)) { seen[part[1]] = 1; engines[++count] = part[1] }; value[part[1], part[2]] = $3 }
    END {
      if (!count) exit
      head = "| engine |"; rule = "|---|"
      for (i = 1; i <= n; i++) { figure[i] = columns[i]; sub(/^.* /, "", figure[i]); sub(/ [^ ]*$/, "", columns[i])
                                 head = head " " columns[i] " |"; rule = rule "---|" }
      print head; print rule
      for (e = 1; e <= count; e++) { row = "| " engines[e] " |"
        for (i = 1; i <= n; i++) row = row " " value[engines[e], figure[i]] " |"
        print row } }'
}

# What stands between the marks of docs/DURABILITY.md: both.
write_table() {
  [[ -s "$proof_file" ]] || return 0
  {
    sed '/^<!-- proof -->/q' docs/DURABILITY.md
    printf '`make test%s` on %s, %s cores:\n\n' "${LAMELLA_PROOF_SCALE:+-long BUDGET=$LAMELLA_PROOF_SCALE}" "$(date -u +%F)" "$jobs"
    print_engines
    printf '\n| figure | value |\n|---|---|\n'
    print_proof | awk '{ print "| " $2 " | " $3 " |" }'
    echo
    sed -n '/^<!-- \/proof -->/,$p' docs/DURABILITY.md
  } >build/durability.md && cp build/durability.md docs/DURABILITY.md
}

# The tests of a stage that was built.
run_stage() {
  local undrawn
  launcher=()
  unset LAMELLA_PROOF_FILE
  case $1 in
    release)
      export LAMELLA_PROOF_FILE=$proof_file
      undrawn=$(left_out release '^$')
      run_tests release timed -R "$timed_names" -E "$undrawn" -j "$jobs"
      run_tests release tests -E "$timed_names|$undrawn"
      [[ -z "${LAMELLA_PROOF_SCALE:-}" || $failed -gt 0 || $broken -gt 0 ]] || write_table
      ;;
    asan)
      # To look into frames of functions that have returned costs as much as all else that ASan
      # does: that is asked of each part in its own tests.
      undrawn=$(left_out asan "$control_names")
      local -x ASAN_OPTIONS=$ASAN_OPTIONS:detect_stack_use_after_return=0
      run_tests asan timed -R "$timed_names" -E "$undrawn" -j "$jobs"
      run_tests asan designs -R '^All/' -E "$timed_names|$undrawn"
      ASAN_OPTIONS+=:detect_stack_use_after_return=1
      run_tests asan tests -E "^All/|$undrawn"
      ;;
    schedules)
      launcher=(env LD_PRELOAD="$PWD/build/release/tests/liblamella_hold_up.so")
      if [[ ! -e "${launcher[1]#*=}" ]]; then
        echo "== schedules: expected ${launcher[1]#*=}, which holds threads up; found none" >&2
        broken=$((broken + 1))
        return
      fi
      run_tests release schedules -L "$concurrent_labels" -E "$(left_out release "$sequential_names")"
      ;;
    tsan)
      tsan_launcher
      run_tests tsan folders -L "$concurrent_labels" -E "$(left_out tsan "$sequential_names")"
      run_tests tsan named -LE "$concurrent_labels" -R "$concurrent_names" --no-tests=ignore
      ;;
    aarch64)
      run_tests aarch64 parts -LE '^(db|tree)$' -E "$emulated_left_out"
      run_tests aarch64 designs -L '^db$' -R "$emulated_designs" -E "$emulated_foils"
      run_tests aarch64 gate -L '^tree$' -R '^Gate$'
      QEMU_CPU=cortex-a72 run_tests aarch64 older -L '^(base|pmem)$'
      ;;
  esac
}

# timed WHAT COMMAND...
timed() {
  local what=$1 started=$SECONDS
  shift
  "$@"
  local status=$?
  echo "== $what: $((SECONDS - started)) s"
  return "$status"
}

# Of where memory came from the ten innermost frames: each one more is paid for at each allocation.
export ASAN_OPTIONS=${ASAN_OPTIONS:-malloc_context_size=10}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1:second_deadlock_stack=1}

export LAMELLA_TEST_SEED=${LAMELLA_TEST_SEED:-$(date +%s)}
echo "seed: LAMELLA_TEST_SEED=$LAMELLA_TEST_SEED"

proof_file=$(mktemp)
failed_file=$(mktemp)
trap 'rm -f "$proof_file" "$failed_file"' EXIT
trap '[[ -z "${hadoop_job:-}" ]] || kill "$hadoop_job" 2>/dev/null; exit 130' INT TERM
[[ $# -gt 0 ]] || set -- release asan tsan hadoop
hadoop_job=
rest=()
for name in "$@"; do
  case $name in
    release)
      timed "release: build" build release && draw_slice release && timed "release: tests" run_stage release
      ;;
    schedules)
      timed "schedules: build" build release && timed "schedules: tests" run_stage schedules
      ;;
    asan | tsan | aarch64 | hadoop)
      rest+=("$name")
      ;;
    *)
      echo "test.sh: unknown stage '$name'; the stages are release, asan, tsan, schedules, aarch64 and hadoop" >&2
      exit 2
      ;;
  esac
done
# A job on the small cluster spends half of its time waiting: the sanitizers' builds have that.
[[ " ${rest[*]} " != *" hadoop "* ]] || start_hadoop
built=()
for name in "${rest[@]}"; do
  [[ $name == hadoop ]] || { timed "$name: build" build "$name" && built+=("$name"); }
done
[[ -z "$hadoop_job" ]] || timed "hadoop: the rest of it" finish_hadoop
[[ ${#built[@]} -eq 0 ]] || draw_slice sanitizers
for name in "${built[@]}"; do timed "$name: tests" run_stage "$name"; done

if [[ $broken -gt 0 ]]; then
  echo "$broken stage(s) could not be built or run; see above" >&2
fi
print_engines
print_proof
[[ ! -s "$failed_file" ]] || echo "seed: LAMELLA_TEST_SEED=$LAMELLA_TEST_SEED"
cat "$failed_file"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 && $broken -eq 0 && $passed -gt 0 ]]
