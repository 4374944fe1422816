package lamella.coalesce.sim;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.TreeMap;
import lamella.coalesce.plan.ClusterShape;
import lamella.coalesce.plan.Policy;
import lamella.coalesce.plan.SplitPlan;
import lamella.coalesce.plan.SplitPlanner;
import lamella.coalesce.plan.Unit;

/**
 * Files on the modelled cluster, and how each scheme splits them; the schemes are those of the
 * product.
 */
final class Splitter {
  /**
   * A split as the model runs it: its blocks' sizes, who holds each, and whom the scheduler
   * prefers.
   */
  record Split(double[] blockMb, int[][] homes, boolean[] preferred) {}

  static final ClusterShape SHAPE = ClusterShape.uniform(Constants.NODES, Constants.SLOTS_PER_NODE);

  private Splitter() {}

  static List<Unit> file(double gb, double blockMb, Random random) {
    int count =
        (int)
            Math.round(gb * 1024 / blockMb); // the dissertation's 250 GB are 2,000 blocks of 128 MB
    List<Unit> units = new ArrayList<>(count);
    for (int i = 0; i < count; i++) {
      List<Integer> nodes = new ArrayList<>();
      while (nodes.size() < Constants.REPLICAS) {
        int node = random.nextInt(Constants.NODES);
        if (!nodes.contains(node)) nodes.add(node);
      }
      units.add(
          new Unit(
              Math.round(blockMb * (1 << 20)),
              nodes.stream().map(n -> SHAPE.nodes().get(n).host()).toList()));
    }
    return units;
  }

  static List<Split> split(List<Unit> units, Policy policy) {
    List<Split> splits = new ArrayList<>();
    for (SplitPlan.Split planned : SplitPlanner.plan(units, SHAPE, policy).splits()) {
      splits.add(split(units, planned.units(), planned.hosts()));
    }
    return splits;
  }

  /**
   * As CombineFileInputFormat with a maximum size: nodes in turn take of their blocks until the
   * size is met; a node that cannot fill a split gives its blocks back, and what remains is filled
   * up anywhere.
   */
  static List<Split> combine(List<Unit> units, long bytesMax) {
    TreeMap<String, List<Integer>> byHost = new TreeMap<>();
    for (int u = 0; u < units.size(); u++) {
      for (String host : units.get(u).hosts())
        byHost.computeIfAbsent(host, h -> new ArrayList<>()).add(u);
    }
    boolean[] taken = new boolean[units.size()];
    List<Split> splits = new ArrayList<>();
    boolean any = true;
    while (any) {
      any = false;
      for (String host : byHost.keySet()) {
        int[] members = take(units, byHost.get(host), taken, bytesMax, true);
        if (members.length == 0) continue;
        splits.add(split(units, members, List.of(host)));
        any = true;
      }
    }
    List<Integer> all = new ArrayList<>();
    for (int u = 0; u < taken.length; u++) all.add(u);
    for (int[] rest = take(units, all, taken, bytesMax, false);
        rest.length > 0;
        rest = take(units, all, taken, bytesMax, false)) {
      splits.add(split(units, rest, List.of()));
    }
    return splits;
  }

  private static int[] take(
      List<Unit> units, List<Integer> from, boolean[] taken, long bytesMax, boolean onlyFull) {
    List<Integer> members = new ArrayList<>();
    long bytes = 0;
    for (int u : from) {
      if (taken[u]) continue;
      members.add(u);
      bytes += units.get(u).bytes();
      if (bytes >= bytesMax) break;
    }
    if (onlyFull && bytes < bytesMax) return new int[0];
    members.forEach(u -> taken[u] = true);
    return members.stream().mapToInt(Integer::intValue).toArray();
  }

  private static Split split(List<Unit> units, int[] members, List<String> hosts) {
    double[] mb =
        Arrays.stream(members)
            .mapToDouble(u -> units.get(u).bytes() / (double) (1 << 20))
            .toArray();
    int[][] homes =
        Arrays.stream(members).mapToObj(u -> numbers(units.get(u).hosts())).toArray(int[][]::new);
    boolean[] preferred = new boolean[Constants.NODES];
    for (int n : numbers(hosts)) preferred[n] = true;
    return new Split(mb, homes, preferred);
  }

  private static int[] numbers(List<String> hosts) {
    return hosts.stream().mapToInt(host -> Collections.binarySearch(HOSTS, host)).toArray();
  }

  private static final List<String> HOSTS =
      SHAPE.nodes().stream().map(ClusterShape.Node::host).toList();
}
