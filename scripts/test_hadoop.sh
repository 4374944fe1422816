#!/bin/bash
# test_hadoop.sh: the Java part's unit and property tests, then real jobs on a small cluster and
# through Spark. Before that, the jar is built by the command that docs/COALESCING.md gives, word
# for word.
# test_hadoop.sh long: after that, some of them again with an older Hadoop, which is a hundred
# megabytes more to fetch, and the jars that a repository wants. The last line is "hadoop: N passed,
# N failed"; the exit status is 0 only if some ran and none failed.
# test_hadoop.sh setup only gets what is missing: a JDK 17 and Maven, as Debian 12 packages them,
# and what Maven fetches; and compiles.
set -uo pipefail
cd "$(dirname "$0")/.."

install_missing() {
  local missing=()
  # A JDK, not only a JRE: javac of 17 or later.
  javac --release 17 -version >/dev/null 2>&1 || missing+=(openjdk-17-jdk-headless)
  command -v mvn >/dev/null || missing+=(maven)
  [[ ${#missing[@]} -gt 0 ]] || return 0
  if ! command -v apt-get >/dev/null; then
    echo "test_hadoop: this is not Debian (no apt-get here). Install the equivalents of these yourself: ${missing[*]}" >&2
    return 1
  fi
  local as_root=()
  if [[ $(id -u) -ne 0 ]]; then
    if ! command -v sudo >/dev/null; then
      echo "test_hadoop: missing packages, and neither root nor sudo here to install them. As root, run:" >&2
      echo "  apt-get update && apt-get install -y ${missing[*]}" >&2
      return 1
    fi
    as_root=(sudo)
    [[ -t 0 ]] || as_root=(sudo -n)  # never wait for a password that nobody can type
  fi
  echo "test_hadoop: installing ${#missing[@]} Debian packages: ${missing[*]}"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 update </dev/null &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 \
      install -y --no-install-recommends "${missing[@]}" </dev/null
}

# Maven lives for seconds, and its second compiler never pays.
export MAVEN_OPTS="${MAVEN_OPTS:-} -XX:TieredStopAtLevel=1"

# Nothing waits for ever: a read from the repository a minute, one call of Maven fifteen.
run_maven() {
  (cd hadoop && timeout -k 10 900 mvn -B -ntp -q -Dmaven.wagon.rto=60000 -Dmaven.wagon.http.retryHandler.count=3 "$@" </dev/null)
}

# What was fetched stays, so a try that the network ended is worth another. Where all is there, none
# of this needs a network. One small test is run, because some of what runs tests is only fetched
# then; whether it passes is not asked here.
fetch_and_compile() {
  local try said status again=()
  for try in 1 2 3; do
    said=$(run_maven "${again[@]}" test -Dtest=ClassPathTest -Dsurefire.failIfNoSpecifiedTests=false -Dmaven.test.failure.ignore=true 2>&1)
    status=$?
    [[ $status -ne 0 ]] || return 0
    [[ $status -eq 124 ]] || grep -qE 'Could not (transfer|find|resolve)|Unknown host|timed out' <<<"$said" || break
    echo "test_hadoop: try $try of 3 to fetch what the build needs has failed" >&2
    again=(-U)  # ask again for what was not found
    sleep $((5 * try))
  done
  printf '%s\n' "$said" >&2
  return 1
}

# What is needed is named in the build's files: as long as these are those of the last time, all of
# it has been fetched.
mkdir -p build/hadoop
needed=$(cat hadoop/pom.xml hadoop/*/pom.xml | sha256sum)
is_fetched() {
  [[ -d ~/.m2/repository && -f build/hadoop/fetched && "$(<build/hadoop/fetched)" == "$needed" ]]
}
if ! install_missing || ! { [[ "${1:-}" != setup ]] && is_fetched || fetch_and_compile; }; then
  echo "hadoop: 0 passed, 1 failed"
  exit 1
fi
echo "$needed" >build/hadoop/fetched
[[ "${1:-}" != setup ]] || exit 0

started=$SECONDS
rm -rf hadoop/*/target*/surefire-reports hadoop/coalesce-yarn/target/*-all.jar
status=0
documented=$(grep -m 1 -xE 'mvn .* package' docs/COALESCING.md)
jar=$(grep -m 1 -oE 'hadoop/coalesce-yarn/target/lamella-coalesce-[0-9.]+-all\.jar' docs/COALESCING.md)
if ! timeout -k 10 900 bash -c "$documented" >build/hadoop/package.log 2>&1 </dev/null || [[ ! -f "$jar" ]]; then
  tail -30 build/hadoop/package.log >&2
  echo "test_hadoop: the documented command '$documented' has not made $jar" >&2
  status=1
fi
# Two modules at once: a job on the small cluster spends half of its time waiting.
run_maven -T 2 --fail-at-end package || status=$?
if [[ "${1:-}" == long ]]; then
  # The oldest Hadoop that is promised: the formats, the shape, and jobs on a cluster of it.
  run_maven --fail-at-end package -Dhadoop.version=3.3.6 -Dtarget=target-3.3.6 -pl coalesce-core,coalesce-yarn,coalesce-it \
    -Dtest='CoalescingInputFormatTest,OldInterfaceTest,YarnShapeTest,VcoresTest' -Dsurefire.failIfNoSpecifiedTests=false || status=$?
  run_maven package -P publish -DskipTests -pl coalesce-core,coalesce-yarn || status=$?
  for part in coalesce-core/target/lamella-coalesce-core coalesce-yarn/target/lamella-coalesce; do
    for kind in sources javadoc; do
      compgen -G "hadoop/$part-*-$kind.jar" >/dev/null && continue
      echo "test_hadoop: hadoop/$part-*-$kind.jar was not made" >&2
      status=1
    done
  done
fi

passed=0
failed=0
while read -r tests errors skipped failures; do
  passed=$((passed + tests - errors - skipped - failures))
  failed=$((failed + errors + failures))
done < <(find hadoop/*/target*/surefire-reports -name 'TEST-*.xml' -exec sed -n \
  's/^<testsuite .*[[:space:]]tests="\([0-9]*\)" errors="\([0-9]*\)" skipped="\([0-9]*\)" failures="\([0-9]*\)".*/\1 \2 \3 \4/p' {} + \
  2>/dev/null)
if [[ $status -ne 0 && $failed -eq 0 ]]; then
  echo "test_hadoop: a build ended with $status though it reports no failed test; see above" >&2
  failed=1
fi
echo "hadoop: $((SECONDS - started)) s"
echo "hadoop: $passed passed, $failed failed"
[[ $failed -eq 0 && $passed -gt 0 ]]
