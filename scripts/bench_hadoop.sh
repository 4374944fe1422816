#!/bin/bash
# bench_hadoop.sh [WORKLOAD...]: the measured table of docs/COALESCING.md, from real jobs on a small
# cluster (within 20 minutes). Workloads: grep wordcount sort small-files sleep sleep-slow-node
# sleep-slow-tasks; all of them if none is named.
# bench_hadoop.sh sim: the simulated claims instead, and build/coalescing.html.
# bench_hadoop.sh plan [BLOCKS NODES]: time and heap of planning alone, by default of a million
# blocks on 3,000 nodes, within 1 GB. The exit status is 0 only if every output was the same and
# every goal was met.
set -euo pipefail
cd "$(dirname "$0")/.."
bash scripts/test_hadoop.sh setup

out=$PWD/build/hadoop
mkdir -p "$out"
# The class path as Maven computes it, without a plugin more: the tests' JVM is asked what it was
# given.
mvn -f hadoop/pom.xml -B -ntp -q test -Dtest=ClassPathTest -Dsurefire.failIfNoSpecifiedTests=false -Dlamella.class.path.file="$out/class-path" \
  -pl coalesce-core,coalesce-yarn,coalesce-sim,coalesce-it
class_path=$(<"$out/class-path")

if [[ "${1:-}" == sim ]]; then
  exec java -cp hadoop/coalesce-core/target/classes:hadoop/coalesce-sim/target/classes lamella.coalesce.sim.SimMain build/coalescing.html
fi
if [[ "${1:-}" == plan ]]; then
  exec java -Xmx1g -cp hadoop/coalesce-core/target/classes:hadoop/coalesce-sim/target/classes lamella.coalesce.sim.PlanBench "${@:2}"
fi
exec java -Xmx1g --add-opens java.base/java.lang=ALL-UNNAMED -cp "$class_path" lamella.coalesce.it.Bench "$out/cluster" "$@"
