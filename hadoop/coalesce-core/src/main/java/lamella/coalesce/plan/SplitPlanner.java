package lamella.coalesce.plan;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Decides which units are read together. A pure function of the units, the cluster's shape and the
 * policy: the same input gives the same plan, whatever the order of replicas, with no clock, no
 * randomness and no cluster.
 *
 * <p>The promises are those of {@link SplitPlan}; each scheme adds its own: {@link MaximumScheme M1
 * to M3}, {@link AssortedScheme A1 to A4}.
 *
 * <p>Threads: stateless; any number.
 */
public final class SplitPlanner {
  private SplitPlanner() {}

  /** A draft of a split: its units, and the node it is for, or -1. */
  static final class Group {
    final int node;
    final int[] units;

    Group(int node, int[] units) {
      this.node = node;
      this.units = units;
    }
  }

  public static SplitPlan plan(List<Unit> units, ClusterShape shape, Policy policy) {
    Layout layout = new Layout(units, shape, policy);
    return finish(units, shape, layout, cut(layout, policy, groups(layout, policy)));
  }

  static List<Group> groups(Layout layout, Policy policy) {
    switch (policy.scheme()) {
      case NONE:
        return Singles.of(layout);
      case MAXIMUM:
        return MaximumScheme.groups(layout, policy);
      case ASSORTED:
        return new AssortedScheme(layout, policy).groups();
      case FIXED:
        return fixed(layout, policy.fixedUnits());
      default:
        throw new IllegalArgumentException("no such scheme: " + policy.scheme());
    }
  }

  /**
   * Each node's fair part of the units of a kind, cut in runs of {@code unitCount}; the last run
   * may be shorter.
   */
  private static List<Group> fixed(Layout layout, int unitCount) {
    List<Group> groups = new ArrayList<>();
    List<IntList> parts = Balance.assign(layout);
    for (int n = 0; n < parts.size(); n++) {
      for (int[] part : layout.unitsByKind(parts.get(n).toArray())) {
        for (int from = 0; from < part.length; from += unitCount) {
          groups.add(
              new Group(
                  n, Arrays.copyOfRange(part, from, Math.min(part.length, from + unitCount))));
        }
      }
    }
    return groups;
  }

  /** Keeps P3 and P4, whatever the scheme grouped. */
  private static List<Group> cut(Layout layout, Policy policy, List<Group> groups) {
    long most = policy.scheme() == Policy.Scheme.FIXED ? Long.MAX_VALUE : policy.splitBytesMax();
    List<Group> cut = new ArrayList<>(groups.size());
    for (Group group : groups) {
      if (group.units.length == 1) {
        cut.add(group);
        continue;
      }
      int[] members = group.units.clone();
      Arrays.sort(members);
      List<int[]> kinds = layout.unitsByKind(members);
      for (int[] ofKind : kinds) {
        int node = kinds.size() == 1 ? group.node : holderOfMost(layout, ofKind, group.node);
        long bytes = Arrays.stream(ofKind).mapToLong(u -> layout.bytes[u]).sum();
        int from = 0;
        long sum = 0;
        // About equal pieces, not full ones and a small rest.
        double each = bytes / Math.ceil((double) bytes / most);
        for (int i = 0; i < ofKind.length; i++) {
          long b = layout.bytes[ofKind[i]];
          if (i > from && (sum + b > most || bytes > most && sum + b / 2.0 > each)) {
            cut.add(new Group(node, Arrays.copyOfRange(ofKind, from, i)));
            from = i;
            sum = 0;
          }
          sum += b;
        }
        cut.add(new Group(node, Arrays.copyOfRange(ofKind, from, ofKind.length)));
      }
    }
    return cut;
  }

  /** {@code node} unless another holds more of the units. */
  private static int holderOfMost(Layout layout, int[] units, int node) {
    Map<Integer, Long> held = new TreeMap<>();
    held.put(node, 0L);
    for (int u : units) {
      for (int home : layout.homes[u]) {
        if (layout.slots[home] > 0) held.merge(home, layout.weight[u], Long::sum);
      }
    }
    int best = node;
    for (Map.Entry<Integer, Long> entry : held.entrySet()) {
      if (entry.getValue() > held.get(best)) best = entry.getKey();
    }
    return best;
  }

  private static SplitPlan finish(
      List<Unit> units, ClusterShape shape, Layout layout, List<Group> groups) {
    boolean[] seen = new boolean[layout.unitCount()];
    int seenCount = 0;
    SplitPlan.Split[] splits = new SplitPlan.Split[groups.size()];
    long[] weight = new long[groups.size()];
    for (int g = 0; g < splits.length; g++) {
      int[] members = groups.get(g).units.clone();
      Arrays.sort(members);
      for (int u : members) {
        if (seen[u])
          throw new IllegalStateException("unit " + u + " was planned twice"); // keeps P1
        seen[u] = true;
        weight[g] += layout.weight[u];
      }
      seenCount += members.length;
      splits[g] = split(units, shape, layout, groups.get(g).node, members);
    }
    if (seenCount != seen.length) {
      throw new IllegalStateException(
          seen.length - seenCount + " of " + seen.length + " units were not planned");
    }
    int[] order = heaviestFirst(splits, weight, layout.unitCount());

    long bytesPlaced = 0;
    long bytesKnown = 0;
    for (int u = 0; u < layout.unitCount(); u++) {
      if (units.get(u).hosts().isEmpty()) continue;
      bytesPlaced += layout.bytes[u];
      if (layout.homes[u].length > 0) bytesKnown += layout.bytes[u];
    }
    List<SplitPlan.Split> sorted = new ArrayList<>(splits.length);
    for (int g : order) sorted.add(splits[g]);
    return new SplitPlan(sorted, shape, bytesPlaced, bytesKnown);
  }

  /** By falling weight, and splits of equal weight by their first unit. */
  private static int[] heaviestFirst(SplitPlan.Split[] splits, long[] weight, int unitCount) {
    int[] ofFirst = new int[unitCount]; // the split that a unit is the first of, plus one
    for (int g = 0; g < splits.length; g++) ofFirst[splits[g].units()[0]] = g + 1;
    int[] order = new int[splits.length];
    int count = 0;
    boolean falling = true;
    for (int g : ofFirst) {
      if (g == 0) continue;
      order[count++] = g - 1;
      falling &= count == 1 || weight[order[count - 2]] >= weight[g - 1];
    }
    if (falling) return order;
    Integer[] sorted = Arrays.stream(order).boxed().toArray(Integer[]::new);
    Arrays.sort(sorted, (a, b) -> Long.compare(weight[b], weight[a])); // a stable sort
    return Arrays.stream(sorted).mapToInt(Integer::intValue).toArray();
  }

  private static SplitPlan.Split split(
      List<Unit> units, ClusterShape shape, Layout layout, int node, int[] members) {
    long bytes = 0;
    long bytesLocal = 0;
    boolean homely = false;
    for (int u : members) {
      bytes += layout.bytes[u];
      if (node >= 0 && layout.isHome(u, node)) {
        bytesLocal += layout.bytes[u];
        homely = true;
      }
    }
    String host = node < 0 ? "" : shape.nodes().get(node).host();
    // A hint where nothing is local would only cost waiting.
    List<String> hosts = homely ? Collections.singletonList(host) : Collections.emptyList();
    if (members.length == 1) hosts = units.get(members[0]).hosts();
    return new SplitPlan.Split(members, host, hosts, bytes, bytesLocal);
  }
}
