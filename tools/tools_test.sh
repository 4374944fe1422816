#!/bin/bash
# End-to-end test of the lamella program: exit codes, messages, formats, and what a killed load
# leaves. Usage: tools_test.sh PROGRAM. Prints one line a claim; exits 1 at the first that does not
# hold.
set -u
[ $# -eq 1 ] || { echo "usage: $0 PROGRAM" >&2; exit 2; }
program=$(realpath "$1")
work=$(mktemp -d "${TMPDIR:-/tmp}/lamella_tools_test.XXXXXX")
background=
cleanup() {
  [ -n "$background" ] && kill -9 "$background" 2>/dev/null
  rm -rf "$work"
}
trap cleanup EXIT
cd "$work" || exit 1
unset LAMELLA_DB

claim() { printf '%s\n' "- $1"; }
fail() {
  echo "FAILED: $1" >&2
  [ -s err ] && sed 's/^/  stderr: /' err >&2
  exit 1
}
# expect CODE ARGUMENT...: runs lamella; output in the files out and err.
expect() {
  local code=$1
  shift
  "$program" "$@" >out 2>err
  local got=$?
  [ "$got" -eq "$code" ] || fail "lamella $*: expected exit code $code, found $got"
}
says() { grep -qF -- "$1" err || fail "expected standard error to say: $1"; }
prints() { grep -qF -- "$1" out || fail "expected standard output to hold: $1"; }
is() { [ "$(cat out)" = "$1" ] || fail "expected standard output \"$1\", found \"$(cat out)\""; }
quiet() { [ ! -s err ] || fail "expected nothing on standard error"; }

claim "put, get, delete and scan do what they say"
expect 0 --db s put colour green; quiet
expect 0 --db s get colour; is green; quiet
expect 0 put colour blue --db s
expect 0 --db s get colour --json; is '{"key":"colour","value":"blue"}'
expect 0 --db s put -e 'a\tb' 'line\none'
expect 0 --db s get -e 'a\tb'; is 'line\none'
printf 'from standard input' | "$program" --db s put piped || fail "put from standard input"
expect 0 --db s get --raw piped; is 'from standard input'
expect 0 --db s put -- -dash -value
expect 0 --db s get -- -dash; is -value
expect 0 --db s scan --keys-only; is "$(printf '%s\n' -dash 'a\tb' colour piped)"
expect 0 --db s scan --keys-only --reverse --limit 2; is "$(printf '%s\n' piped colour)"
expect 0 --db s scan --prefix co; is "$(printf 'colour\tblue')"
expect 0 --db s scan --from b --to p --keys-only; is colour
for word in a b c d e f g h i; do expect 0 --db nine put $word v; done
expect 0 --db nine scan --limit 09 --keys-only; is "$(printf '%s\n' a b c d e f g h i)"
expect 0 --db nine scan --limit 010 --reverse --keys-only; is "$(printf '%s\n' i h g f e d c b a)"
expect 0 --db s scan --from zz; is ""
expect 0 --db s delete colour never-there
expect 1 --db s get colour; says 'no such key: "colour"'
LAMELLA_DB=s expect 0 get piped

claim "an option without its value takes no other word for it"
for option in --ack-file= --prefix= --sync=; do
  expect 2 --db s load $option --sync in.tsv; says "expected a word after \"$option\", found none"
done
expect 0 --db s put -- --key= value
expect 0 --db s get -- --key=; is value
expect 0 --db s delete -- --key=

claim "each word is a key, whatever it looks like"
for key in '[a,b]' '[]' '{}' '%%' '[[a]]' '"a,b"' a b get; do expect 0 --db words put "$key" v; done
expect 0 --db words delete '[a,b]' '[]' '{}' '%%' '[[a]]'
expect 0 --db words scan --keys-only; is "$(printf '%s\n' '"a,b"' a b get)"
expect 0 --db words put '[k]' '[v]'
expect 0 --db words scan --from '[k]' --to '[k]z'; is "$(printf '[k]\t[v]')"
expect 0 --db words delete '"a,b"' get
expect 0 --db words scan --keys-only; is "$(printf '%s\n' '[k]' a b)"

claim "what cannot be meant is exit code 2, with what is known"
expect 2; says "subcommand is required"
expect 2 --db s frob; says 'unknown command "frob"; known: put, get'
expect 2 --db s get k --bogus; says 'unknown option "--bogus"; known here:'; says "--escaped"; says "--memory-budget"
expect 2 --db s --engine nosuch get k; says "expected one of listdb"; says 'found "nosuch"'
for option in --engine --medium --memory-budget --pool-max --pmem; do
  expect 2 --db s $option "" get k; says "$option: expected"; says 'found'
done
expect 2 --db fresh --engine "" put k v
[ ! -e fresh ] || fail "an engine without a name made a store"
for command in "load one.tsv" dump "check --against one.tsv"; do
  # shellcheck disable=SC2086
  expect 2 --db s $command --format ""; says "expected --format tsv or jsonl"
done
expect 2 --db s --medium tape get k; says "expected one of auto, byte, cacheline, page, volatile"
expect 2 --db s --memory-budget 12X get k; says "--memory-budget: expected a size"; says '"12X"'
expect 2 --db s scan --limit -1; says "--limit"
expect 2 --db s scan --from b --to a; says "expected --from at or before --to"
expect 0 --db s scan --from a --to a; is ""; quiet
expect 2 --db s dump --from z --to a; says "expected --from at or before --to"; is ""
expect 2 --db s dump ranged.tsv -e --from 'a\x01' --to a; says 'found "a\x01" after "a"'
[ ! -e ranged.tsv ] || fail "a dump of no range wrote a file"
expect 0 --db s dump --from a --to a; is ""; quiet
expect 2 --db s put k v w; says 'found "w"'
expect 2 --db s put; says "KEY is required"
expect 2 --db s put "" v
expect 2 --db s get -e 'k\q'; says 'found "\\q"'
expect 2 get k; says "say --db DIRECTORY"
head -c 65536 /dev/zero | tr '\0' k >longkey
expect 2 --db s put "$(cat longkey)" v; says "65"
printf '%s\tv\n' "$(head -c 65535 longkey)" >limit.tsv
expect 0 --db s2 load limit.tsv

expect 2 --db s --pool-max 1 get k; says "pool_bytes_max is 1"; says "at least 1048576"
expect 2 --db s dump --format tsv ""; says "expected the name of a file"
[ ! -e .part ] || fail "a dump to no name wrote a file"
expect 2 --db s load --format tsv ""; says "expected the name of a file"
expect 2 --db s load bytes.tsv --ack-file ""; says "expected the name of a file"
expect 2 --db s check --against ""; says "--against: expected the name of a file"

claim "the directories of the pool's parts may stand before a command's own words, too"
expect 0 --db parts put --pmem part-a,part-b k v
expect 0 --db parts get --pmem part-a --pmem part-b k; is v
expect 0 --pmem part-a,part-b --db parts get k; is v
expect 0 --db parts get k --pmem part-a,part-b; is v
for words in "" part-a, ,part-a part-a,,part-b; do
  expect 2 --db parts get k --pmem "$words"; says "--pmem: expected directories with commas between them"
  expect 2 --db other put k v --pmem "$words"
done
[ ! -e other ] || fail "a pool with a part that has no name was made"

claim "a store that is not there is exit code 2, and reading does not make one"
for command in "get k" "delete k" "scan" "dump" "stats" "check" "repair"; do
  # shellcheck disable=SC2086
  expect 2 --db nosuch $command; says "nosuch"
  [ ! -e nosuch ] || fail "lamella $command made a store"
done
echo "not a directory" >afile
expect_not_ok() {
  "$program" "$@" >out 2>err
  local got=$?
  [ "$got" -ge 1 ] && [ "$got" -le 6 ] || fail "lamella $*: expected an exit code from 1 to 6, found $got"
  [ -s err ] || fail "lamella $*: expected a message"
}
expect_not_ok --db afile put k v
ln -s nowhere dangling
expect 4 --db dangling put k v; says "cannot make a store in dangling"
expect 4 --db /proc/nosuch load --format tsv afile; says "cannot make a store in /proc/nosuch"
expect 2 --db dangling get k; says "expected a store in dangling, found none"
expect_not_ok --db afile get k
mkdir noise && head -c 100000 /dev/urandom >noise/pool.0
expect_not_ok --db noise get k
expect_not_ok --db noise put k v
mkdir hollow && : >hollow/pool.0
expect_not_ok --db hollow get k
mkdir blank && head -c 4194304 /dev/zero >blank/pool.0
expect_not_ok --db blank get k

claim "load names the malformed line; what is before it stays and nothing after it is loaded"
printf 'a\t1\nb\t2\nno tab\nd\t4\n' >bad.tsv
expect 2 --db bad load bad.tsv; says "line 3 of bad.tsv: expected key<TAB>value, found no TAB"; says "The 2 records before it"
expect 0 --db bad scan; is "$(printf 'a\t1\nb\t2')"
claim "--skip-bad goes on and counts"
expect 0 --db bad load bad.tsv --skip-bad --json; prints '"records":3,"bad_lines":1,"lines":4'; says "line 3"
expect 0 --db bad get d; is 4
printf '{"key":"j","value":"1"}\n{"key":"j"}\n' >bad.jsonl
expect 2 --db bad load bad.jsonl; says "line 2 of bad.jsonl"; says "found no value"
printf '{"key":"n","value":"1"}\0{"key":"o","value":"2"}\0' >nul.jsonl
expect 2 --db bad load nul.jsonl; says "line 1 of nul.jsonl"; says "found a NUL"
expect 1 --db bad get n
printf 'x\t1\ny\t2' >cut.tsv
expect 0 --db bad load cut.tsv; says "may have been cut"
expect 2 --db bad load bad.txt; says "say --format tsv or jsonl"
expect 4 --db bad load nosuch.tsv; says "nosuch.tsv"
expect 4 --db bad load --format tsv /; says "directory"
expect 2 --db bad load bad.tsv --batch 0; says "--batch"
cp cut.tsv twin.tsv && ln twin.tsv same.acks
expect 2 --db bad load twin.tsv --ack-file same.acks; says "--ack-file: expected another file than the input"
"$program" --db bad load --ack-file twin.tsv <twin.tsv >out 2>err; [ $? -eq 2 ] || fail "an input that is the ack file"
cmp -s twin.tsv cut.tsv || fail "a load wrote to its input"

claim "every byte goes through both formats unchanged"
for high in 0 1 2 3 4 5 6 7 8 9 a b c d e f; do
  for low in 0 1 2 3 4 5 6 7 8 9 a b c d e f; do
    printf 'k\\x%s%s\t\\x%s%s\\x%s%sv\n' $high $low $low $high $high $low
  done
done >bytes.tsv
expect 0 --db bytes load bytes.tsv --batch 7; prints "loaded 256 records"
expect 0 --db bytes dump one.tsv; prints "dumped 256 records"
expect 0 --db bytes dump one.jsonl
expect 0 --db bytes dump --json; cmp -s out one.jsonl || fail "with --json, standard output is JSON"
expect 0 --db bytes dump --json --format tsv; cmp -s out one.tsv || fail "a format that is named is taken"
expect 0 --db bytes2 load one.jsonl
expect 0 --db bytes2 dump --format tsv; cmp -s out one.tsv || fail "TSV -> JSON lines -> TSV changed something"
"$program" --db bytes dump --format jsonl | "$program" --db bytes3 load --format jsonl >/dev/null || fail "a pipe of JSON lines"
"$program" --db bytes3 dump - >two.tsv && cmp -s two.tsv one.tsv || fail "a pipe changed something"
[ "$(wc -l <one.tsv)" -eq 256 ] || fail "expected 256 lines"
expect 0 --db bytes check --against one.jsonl --exact; prints "256 records must be there, 256 of them are, 0 are not"

claim "check --against fails for a record that is lost, changed or strange"
expect 0 --db bytes2 delete -e 'k\x00'
expect 3 --db bytes2 check --against one.tsv; prints '"k\x00" is not in the store'
expect 0 --db bytes2 put -e 'k\x00' other
expect 3 --db bytes2 check --against one.tsv; prints "a value that the file does not give it"
expect 0 --db bytes3 put stranger v
expect 0 --db bytes3 check --against one.tsv
expect 3 --db bytes3 check --against one.tsv --exact; prints '"stranger" is in the store and on no line'
printf 'k\t1\nk\t2\nl\t3\n' >twice.tsv
expect 0 --db twice load twice.tsv
expect 0 --db twice check --against twice.tsv; prints "3 records must be there, 3 of them are, 0 are not"
expect 0 --db twice delete k
expect 3 --db twice check --against twice.tsv; prints "3 records must be there, 1 of them are, 2 are not"
expect 0 --db twice put k 1
expect 3 --db twice check --against twice.tsv; prints "3 records must be there, 2 of them are, 1 are not"

claim "output that cannot be written is exit code 4, and a cut dump takes no name"
if [ -e /dev/full ]; then
  "$program" --db bytes scan >/dev/full 2>err
  [ $? -eq 4 ] || fail "scan to a full device: expected exit code 4"
  says "No space left"
  for word in --help --version; do "$program" $word >/dev/full 2>err; [ $? -eq 4 ] || fail "$word to a full device: expected exit code 4"; done
  expect 4 --db bytes dump --format tsv /dev/full
fi
expect 4 --db bytes dump nosuchdir/x.tsv; says "nosuchdir"
ln -s bytes/pool.0 to-pool
for into in bytes/pool.0 "$PWD/bytes/new.tsv" to-pool; do
  expect 2 --db bytes dump --format tsv "$into"; says "expected a file elsewhere than in bytes"
done
expect 2 --db bytes load one.tsv --ack-file bytes/LOCK; says "--ack-file: expected a file elsewhere"
ln -s bytes/pool.9 into
expect 2 --db bytes dump --format tsv into; says "FILE: expected a file elsewhere"
[ ! -e bytes/pool.9 ] || fail "a link whose end was not there led into the store"
printf 12 >cut.acks  # of 123, say, on a disk that was full
expect 0 --db bytes3 load one.tsv --ack-file cut.acks --batch 100
[ "$(head -n 2 cut.acks)" = "$(printf '12\n100')" ] || fail "expected 12 and 100 on lines of their own"
expect 0 --db bytes check
expect 2 --db bytes dump x.txt; says "say --format"
[ ! -e x.txt ] && [ ! -e nosuchdir ] || fail "a failed dump left a file"

claim "a dump to /dev/stdout goes there, alone; one through a link leaves the link"
cat one.tsv one.tsv >twice.tsv
cp one.tsv again.tsv
"$program" --db bytes dump --format tsv /dev/stdout >>again.tsv 2>err || fail "a dump to /dev/stdout"
cmp -s again.tsv twice.tsv || fail "expected the records after what was there, and nothing else"
[ ! -e /dev/stdout.part ] || fail "expected nothing new in /dev"
mkdir there && echo old >there/real.tsv && ln -s there/real.tsv linked.tsv
expect 0 --db bytes dump linked.tsv
[ -L linked.tsv ] && cmp -s there/real.tsv one.tsv || fail "expected the records where the link leads"
ln -s there/new.tsv fresh.tsv
expect 0 --db bytes dump fresh.tsv
[ -L fresh.tsv ] && cmp -s there/new.tsv one.tsv || fail "expected the records where the link leads, though nothing was there"
claim "a dump grows under a name that nobody has"
echo mine >kept.tsv.part && ln -s private.tsv linked.tsv.part && echo mine >private.tsv
expect 0 --db bytes dump kept.tsv; cmp -s kept.tsv one.tsv || fail "expected the records"
expect 0 --db bytes dump linked.tsv
[ "$(cat kept.tsv.part private.tsv)" = "$(printf 'mine\nmine')" ] || fail "a dump wrote to somebody's file"
[ "$(ls -d -- *.part)" = "$(printf 'kept.tsv.part\nlinked.tsv.part')" ] || fail "a dump left a part of itself"
claim "a dump over a file that others may not read leaves it so"
: >private.tsv && chmod 600 private.tsv
expect 0 --db bytes dump private.tsv
[ "$(stat -c %a private.tsv)" = 600 ] || fail "expected mode 600, found $(stat -c %a private.tsv)"
if chgrp 1 private.tsv 2>err && chmod 640 private.tsv; then  # who may: root, say
  expect 0 --db bytes dump private.tsv
  [ "$(stat -c %a:%g private.tsv)" = 640:1 ] || fail "expected its group to read it, found $(stat -c %a:%g private.tsv)"
fi

claim "a standard stream that is closed is no file of the store, and one that cannot be written ends nothing"
awk 'BEGIN { for (i = 0; i < 3000; i++) printf "key%08d\t%0100d\n", i, i }' >lines.tsv
expect 0 --db closed load lines.tsv
refused() { [ "$1" -eq "$2" ] || fail "with closed streams: expected exit code $2, found $1"; }
"$program" --db closed dump >&- 2>err; refused $? 4; says "standard output"
"$program" --db closed dump <&- >&- 2>err; refused $? 4
"$program" --db closed dump >&- 2>&-; refused $? 4
"$program" --db closed dump <&- >&- 2>&-; refused $? 4
"$program" --db closed stats <&- >&- 2>&-; refused $? 4
"$program" --db closed put k <&- 2>err; refused $? 4; says "standard input"
"$program" --db closed load <&- >out 2>err; refused $? 4; says "standard input"
"$program" --db closed get nosuch 2>&-; refused $? 1
"$program" --db closed load bad.tsv --skip-bad --json >out 2>&-; refused $? 0
[ -e /dev/full ] && { "$program" --db closed get nosuch 2>/dev/full; refused $? 1; }
expect 0 --db closed delete a b d
expect 0 --db closed check --against lines.tsv --exact; prints "no problem"

claim "a second process is told that the store is open: exit code 5"
mkfifo pipe
"$program" --db held load --format tsv --batch 1 --ack-file held.acks pipe >/dev/null 2>&1 &
background=$!
exec 9>pipe
printf 'k\tv\n' >&9
for _ in $(seq 500); do [ -s held.acks ] && break; sleep 0.02; done
expect 5 --db held get k; says "Busy"
exec 9>&-
wait $background || fail "the load that held the store failed"
background=
expect 0 --db held get k; is v

claim "a full pool is exit code 4; what was acknowledged stays, and deletes still work"
awk 'BEGIN { for (i = 0; i < 200000; i++) printf "key%08d\t%0400d\n", i, i }' >big.tsv
expect 4 --db small --pool-max 32M load big.tsv --ack-file small.acks; says "NoSpace"
expect 0 --db small --pool-max 32M check --against big.tsv --lines "$(tail -n 1 small.acks)"
expect 0 --db small --pool-max 32M delete key00000000
expect 1 --db small get key00000000

claim "a load that is killed keeps every acknowledged record, and nothing that was not in its input"
"$program" --db killed load big.tsv --batch 4 --ack-file killed.acks >/dev/null 2>&1 &
background=$!
while kill -0 $background 2>/dev/null; do
  acked=$(tail -n 1 killed.acks 2>/dev/null)
  [ "${acked:-0}" -ge 20000 ] && break
done
kill -9 $background 2>/dev/null
wait $background 2>/dev/null
[ $? -eq 137 ] || fail "the load was over before it could be killed"
background=
acked=$(tail -n 1 killed.acks)
expect 0 --db killed check --against big.tsv --exact --lines "$acked"; prints "0 are not"
claim "... and the comparison can fail: for more lines than were acknowledged, and for one record deleted"
expect 3 --db killed check --against big.tsv; prints "is not in the store"
expect 0 --db killed delete key00000005
expect 3 --db killed check --against big.tsv --lines "$acked"; prints '"key00000005" is not in the store'

claim "a store that has no room to be closed in order is read all the same"
expect 0 --db tight --engine lightkv put k v
(ulimit -f 1; "$program" --db tight load lines.tsv --ack-file tight.acks >out 2>err); refused $? 4; says "ulimit -f"
(ulimit -f 1; "$program" --db tight get key00000005 >out 2>err) || fail "get where nothing can be flushed"
[ "$(wc -c <out)" -eq 101 ] || fail "expected the value"
(ulimit -f 1; "$program" --db tight dump --format tsv 2>err) | head -n 3001 >out
head -n 1 lines.tsv >expected; sed -n 2p out | cmp -s - expected || fail "expected the records"
(ulimit -f 1; "$program" --db tight put k w >out 2>err); refused $? 4
expect 0 --db tight check --against lines.tsv --lines "$(tail -n 1 tight.acks)"

claim "stats speaks to people and to machines"
expect 0 --db killed stats; prints "write stalls"; prints "bytes stored"
expect 0 --db killed stats --json; prints '"stall_ns_max"'; prints '"persist"'
expect 0 --db more load bytes.tsv --stats; prints "bytes stored per user byte"

claim "check finds damage (exit code 3), and repair saves what validates and invents nothing"
expect 0 --db bytes check; prints "no problem"
expect 0 --db damaged put needle the-value-that-will-rot
offsets=$(grep -obUaF the-value-that-will-rot damaged/pool.0 | cut -d: -f1)
[ -n "$offsets" ] || fail "the record is not in the pool"
for at in $offsets; do
  printf 'T' | dd of=damaged/pool.0 bs=1 seek="$at" conv=notrunc status=none
done
expect 3 --db damaged check
expect 3 --db damaged get needle; says "Corruption"
expect 0 --db damaged repair
expect 0 --db damaged check
expect 1 --db damaged get needle
expect 0 --db bytes repair; prints "kept 256 records"
expect 0 --db bytes check --against one.tsv --exact

claim "each engine that is built keeps what it was loaded with, through a kill, check, dump and repair"
expect 2 --db s --engine nosuch get k
built=0
files_in=
for engine in $(sed -n 's/.*expected one of \([^;]*\);.*/\1/p' err | tr -d ','); do
  expect 0 --db "of-$engine" --engine "$engine" load bytes.tsv
  built=$((built + 1))
  expect 0 --db "of-$engine" stats --json; prints "\"engine\": \"$engine\""
  expect 0 --db "of-$engine" check --against one.tsv --exact
  expect 0 --db "of-$engine" dump --format tsv; cmp -s out one.tsv || fail "$engine: a dump is not what was loaded"
  "$program" --db "of-$engine" load big.tsv --batch 4 --ack-file "$engine.acks" >/dev/null 2>&1 &
  background=$!
  while kill -0 $background 2>/dev/null; do
    acked=$(tail -n 1 "$engine.acks" 2>/dev/null)
    [ "${acked:-0}" -ge 5000 ] && break
  done
  kill -9 $background 2>/dev/null
  wait $background 2>/dev/null
  background=
  expect 0 --db "of-$engine" check --against big.tsv --lines "$(tail -n 1 "$engine.acks")"; prints "0 are not"
  expect 0 --db "of-$engine" repair
  expect 0 --db "of-$engine" check --against one.tsv
  if [ "$engine" = lightkv ] || [ "$engine" = labdb ]; then files_in="$files_in $engine"; fi
done
[ $built -ge 1 ] || fail "no engine is built"

awk 'BEGIN { for (i = 0; i < 120000; i++) printf "key%06d\tvalue %d of some more bytes\n", i, i }' >long.tsv
claim "where the pool is gone, repair saves what tables in files hold, and names no number for the rest"
for engine in $files_in; do
  for json in "" --json; do
    expect 0 --db "gone$json-$engine" --engine "$engine" --pool-max 8M load long.tsv
    rm "gone$json-$engine/pool.0"
    expect 3 --db "gone$json-$engine" get k; says "found no pool"; says "lamella repair"
    # shellcheck disable=SC2086
    expect 0 --db "gone$json-$engine" --engine "$engine" $json repair
    if [ -z "$json" ]; then
      prints "the pool is gone"; prints "how many are lost is not known"
    else
      prints '"loss_unknown": true'; prints '"records_lost": null'
    fi
    expect 0 --db "gone$json-$engine" check; prints "no problem"
  done
done

claim "help and version are exit code 0"
expect 0 --help; prints "Exit codes"
expect 0 load --help; prints "--skip-bad"
expect 0 --version
expect 2 --json bench; says "bench as the first word"
echo "all claims hold"
