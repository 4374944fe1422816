#!/bin/bash
# demo.sh: the main job, on real input. `make demo` builds and calls it; it may be run again and
# leaves nothing behind.
#
#   1 takes the machine's Debian package index (or DATA=file: TSV or JSON lines, as `lamella load`
#     reads them)
#   2 loads it into a store, and compares the whole store with the input
#   3 answers point and range queries, each compared with what the input says
#   4 kills a second load with SIGKILL about midway, while it writes
#   5 reopens that store: every acknowledged record must be there, and nothing that was not in the
#     input
#   6 shows that this comparison can fail: for one record deleted, and for more lines than were
#     acknowledged
#   7 runs the same data through Lamella, RocksDB and LevelDB in the same memory, and prints one
#     table
#
# Variables: DATA; ENGINE (the stores' design, such as tlsm; default listdb); DEMO_DIR (where the
# stores are made; default the shared-memory file system where it has room, else TMPDIR); BUILD
# (default build/release). Exit status: 0 only if every check held.
set -uo pipefail
export LC_ALL=C

root=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD:-$root/build/release}
lamella=$build/tools/lamella
bench=$build/bench/lamella_bench
engine=(${ENGINE:+--engine "$ENGINE"})
run=("$lamella" "${engine[@]}")
small_input_records=50000  # fewer would be loaded before a shell can kill the load: they are written several times over
small_input_bytes=$((256 << 20))  # as many copies as come to this, at most, of few large records
unset LAMELLA_DB

loader=
work=
cleanup() {
  [[ -n "$loader" ]] && kill -9 "$loader" 2>/dev/null
  [[ -n "$work" ]] && rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

step() { printf '\n== %s\n' "$*"; }
say() { printf '   %s\n' "$*"; }
fail() {
  printf 'demo: FAILED: %s\n' "$*" >&2
  exit 1
}
count() { wc -l <"$1" | tr -d ' '; }

# The directory for the stores: as asked, else the first with a gibibyte and a half to spare.
pick_directory() {
  local candidate free_kib
  for candidate in ${DEMO_DIR:+"$DEMO_DIR"} /dev/shm "${TMPDIR:-/tmp}"; do
    [[ -d "$candidate" && -w "$candidate" ]] || continue
    free_kib=$(df -Pk "$candidate" | awk 'NR == 2 { print $4 }')
    if [[ "$candidate" == "${DEMO_DIR:-}" || "$free_kib" -gt 1572864 ]]; then
      printf '%s\n' "$candidate"
      return
    fi
  done
  return 1
}

# The package index as TSV: key "PACKAGE VERSION" (with the architecture too where that is not
# unique), value the stanza.
package_index() {
  apt-cache dumpavail | awk '
    BEGIN { RS = ""; FS = "\n" }
    {
      package = version = architecture = ""
      for (i = 1; i <= NF; i++) {
        if (index($i, "Package: ") == 1) package = substr($i, 10)
        else if (index($i, "Version: ") == 1) version = substr($i, 10)
        else if (index($i, "Architecture: ") == 1) architecture = substr($i, 15)
      }
      if (package == "") next
      key = package " " version
      if (key in seen) key = key " " architecture
      if (key in seen) next
      seen[key] = 1
      stanza = $0
      gsub(/\\/, "\\\\&", stanza)
      gsub(/\t/, "\\t", stanza)
      gsub(/\r/, "\\r", stanza)
      gsub(/\n/, "\\n", stanza)
      print key "\t" stanza
    }'
}

take_input() {
  if [[ -n "${DATA:-}" ]]; then
    [[ -f "$DATA" && -r "$DATA" ]] || { echo "demo: DATA: expected a readable file, found \"$DATA\"" >&2; exit 2; }
    say "input: $DATA"
    # By way of a store, so that both formats become TSV and each key stands once; a malformed line
    # ends the demo here.
    "${run[@]}" --db "$work/taken" load "$DATA" >/dev/null || exit 2
    "${run[@]}" --db "$work/taken" dump --format tsv >"$input" || fail "the input could not be dumped"
    rm -rf "$work/taken"
  else
    command -v apt-cache >/dev/null || { echo "demo: no apt-cache on this machine: say DATA=file" >&2; exit 2; }
    package_index >"$input"
    if [[ $(count "$input") -lt 1000 ]]; then
      say "the machine has no package index yet: apt-get update"
      if [[ $(id -u) -eq 0 ]]; then apt-get -q update; else sudo -n apt-get -q update; fi >/dev/null ||
        { echo "demo: no package index, and apt-get update failed: say DATA=file" >&2; exit 2; }
      package_index >"$input"
    fi
    say "input: the Debian package index of this machine (apt-cache dumpavail); key: name and version, value: the stanza"
  fi
  records=$(count "$input")
  [[ "$records" -ge 1 ]] || { echo "demo: the input holds no record" >&2; exit 2; }
  say "$records records, $(stat -c %s "$input") bytes of TSV"
}

load_all() {
  local store=$work/store
  "${run[@]}" --db "$store" load "$input" >"$work/out" || fail "the load"
  sed 's/^/   /' "$work/out"
  "${run[@]}" --db "$store" check --against "$input" --exact >"$work/out" || { cat "$work/out"; fail "the store differs from the input"; }
  sed 's/^/   /' "$work/out"
  "${run[@]}" --db "$store" dump --format tsv >"$work/sorted.tsv" || fail "the dump"
  cmp -s <(sort "$input") <(sort "$work/sorted.tsv") || fail "dump: expected the input's lines, found others"
  say "dumped again: the same $(count "$work/sorted.tsv") lines as the input"
}

# Prints a key and the start of its value, and compares the value with the input's.
point_query() {
  local line=$1 key value expected
  key=$(sed -n "${line}p" "$work/sorted.tsv" | cut -f1)
  expected=$(sed -n "${line}p" "$work/sorted.tsv" | cut -f2)
  value=$("${run[@]}" --db "$work/store" get -e -- "$key") || fail "get: expected a value of \"$key\", found none"
  [[ "$value" == "$expected" ]] || fail "get: \"$key\" has another value than in the input"
  say "get \"$key\": ${#value} characters, as in the input: ${value:0:48}..."
}

# range_query NAME ARGUMENT...: compares the keys that a scan prints with those in the file
# expected.
range_query() {
  local name=$1
  shift
  "${run[@]}" --db "$work/store" scan -e --keys-only "$@" >"$work/out" || fail "scan $name"
  cmp -s "$work/out" "$work/expected" ||
    fail "scan $name: expected $(count "$work/expected") keys of the input, found $(count "$work/out"), or others"
  say "scan $name: $(count "$work/out") keys, as in the input"
  head -5 "$work/out" | cut -c1-100 | sed 's/^/     /'
}

query() {
  local line middle=$(((records + 1) / 2)) absent="no such key, surely"
  local to=$((middle + 4 < records ? middle + 4 : records))
  for line in $(((records + 3) / 4)) "$middle" "$(((records * 3 + 3) / 4))"; do point_query "$line"; done
  "${run[@]}" --db "$work/store" get "$absent" >/dev/null 2>&1
  [[ $? -eq 1 ]] || fail "get: expected exit code 1 for a key that is not there"
  say "get \"$absent\": not found, exit code 1"

  cut -f1 "$work/sorted.tsv" >"$work/keys"
  if ! grep -qF '\' "$work/keys"; then
    sort -c "$work/keys" || fail "dump: expected keys in bytewise order"
  fi
  local first last
  first=$(sed -n "${middle}p" "$work/keys")
  last=$(sed -n "${to}p" "$work/keys")
  sed -n "${middle},${to}p" "$work/keys" >"$work/expected"
  range_query "of $((to - middle + 1)) records from \"$first\"" --from "$first" --limit $((to - middle + 1))
  if [[ $to -gt $middle ]]; then
    sed -n "${middle},$((to - 1))p" "$work/keys" | tac >"$work/expected"
    range_query "backwards from before \"$last\" to \"$first\"" --reverse --from "$first" --to "$last"
  fi
  local prefix=${first:0:4}
  if [[ "$prefix" != *\\* ]]; then
    awk -v prefix="$prefix" 'index($0, prefix) == 1' "$work/keys" >"$work/expected"
    range_query "of all that begins with \"$prefix\"" --prefix "$prefix"
  fi
}

# Loads into a second store and kills the load once half of its lines are acknowledged. Sets acked
# and kill_input.
kill_midway() {
  local copies bytes most total attempt status
  kill_input=$input
  if [[ $records -lt $small_input_records ]]; then
    kill_input=$work/copies.tsv
    copies=$(((small_input_records + records - 1) / records))
    bytes=$(stat -L -c %s "$input")
    most=$(((small_input_bytes + bytes - 1) / bytes))
    [[ "$copies" -le "$most" ]] || copies=$most
    awk -v copies="$copies" '
      { line[NR] = $0 }
      END { for (copy = 0; copy < copies; copy++) for (i = 1; i <= NR; i++) print copy ":" line[i] }' "$input" >"$kill_input" ||
      fail "the copies of $input could not be written to $kill_input"
    say "the input is small: it is written $copies times over, under other keys"
  fi
  total=$(count "$kill_input")
  for attempt in 1 2 3 4 5; do
    rm -rf "$work/killed" "$work/acks"
    : >"$work/acks"
    "${run[@]}" --db "$work/killed" load --batch 4 --ack-file "$work/acks" "$kill_input" >/dev/null 2>"$work/err" &
    loader=$!
    acked=0
    while kill -0 "$loader" 2>/dev/null && [[ "$acked" -lt $((total / 2)) ]]; do
      acked=$(tail -n 1 "$work/acks")
      acked=${acked:-0}
    done
    kill -9 "$loader" 2>/dev/null
    { wait "$loader"; } 2>/dev/null
    status=$?
    loader=
    acked=$(tail -n 1 "$work/acks")
    acked=${acked:-0}
    if [[ $status -eq 137 && "$acked" -lt "$total" ]]; then
      say "the loading process is dead (SIGKILL): $acked of $total lines acknowledged, in batches of 4"
      return
    fi
    [[ $status -eq 0 || $status -eq 137 ]] || { cat "$work/err" >&2; fail "the load that was to be killed ended with $status"; }
    say "attempt $attempt: the load was over before the kill; again"
  done
  fail "the load could not be killed midway in 5 attempts: give a larger DATA"
}

json_number() { sed -n "s/^ *\"$1\": \([0-9]*\),*$/\1/p" "$2"; }

verify_killed() {
  "${run[@]}" --db "$work/killed" stats --json >"$work/out" || fail "the killed store does not open"
  say "reopened in $(json_number recovery_us "$work/out") us; $(json_number recovered_records "$work/out") log records sorted anew"
  "${run[@]}" --db "$work/killed" check --against "$kill_input" --lines "$acked" --exact >"$work/out" ||
    { cat "$work/out"; fail "the killed store does not hold what it acknowledged"; }
  sed 's/^/   /' "$work/out"
}

# Runs the comparison where it must find something.
must_find() {
  local what=$1
  shift
  "${run[@]}" --db "$work/killed" check --against "$kill_input" "$@" >"$work/out" 2>&1
  [[ $? -eq 3 ]] || { cat "$work/out"; fail "the comparison did not notice $what: it proves nothing"; }
  say "$what: noticed ($(grep -m 1 '^problem:' "$work/out" | cut -c1-100))"
}

show_control() {
  must_find "an acknowledgement of lines that were never written"
  local line=$(((acked + 1) / 2)) key
  key=$(sed -n "${line}p" "$kill_input" | cut -f1)
  "${run[@]}" --db "$work/killed" delete -e -- "$key" || fail "delete"
  must_find "one acknowledged record of $acked deleted" --lines "$acked"
}

for program in "$lamella" "$bench"; do
  [[ -x "$program" ]] || { echo "demo: expected $program, found none: run \`make demo\`, which builds it" >&2; exit 2; }
done
directory=$(pick_directory) || { echo "demo: no directory with 1.5 GiB to spare: say DEMO_DIR=directory" >&2; exit 2; }
work=$(mktemp -d "$directory/lamella_demo.XXXXXX") || exit 2
input=$work/input.tsv
"${run[@]}" --db "$work/empty" load --format tsv /dev/null >/dev/null || exit 2  # says which engines there are
rm -rf "$work/empty"

step "1. the input"
say "stores go to $directory ($(df -PT "$directory" | awk 'NR == 2 { print $2 }')), in a directory that is removed at the end${ENGINE:+; engine $ENGINE}"
take_input
step "2. load it into a store, and compare the store with the input"
load_all
step "3. point and range queries"
query
step "4. load it into a second store, and kill the loading process midway"
kill_midway
step "5. reopen: every acknowledged record must be there, and nothing that was not in the input"
verify_killed
step "6. the same comparison where it must fail"
show_control
step "7. the same data through Lamella, RocksDB and LevelDB, in the same memory"
rm -rf "$work/store" "$work/killed" "$work/copies.tsv"
"$bench" "${engine[@]}" --demo "$input" --dir "$work" || fail "the comparison with RocksDB and LevelDB"
step "done: every check held"
