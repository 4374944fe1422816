package lamella.coalesce.plan;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;

/**
 * Decides which units are read together. A pure function of the units, the cluster's shape and the policy: the same input
 * gives the same plan, whatever the order of replicas, with no clock, no randomness and no cluster.
 *
 * <p>The promises are those of {@link SplitPlan}; each scheme adds its own:
 * {@link MaximumScheme M1 and M2}, {@link AssortedScheme A1 to A3}.
 *
 * <p>Threads: stateless; any number.
 */
public final class SplitPlanner {
  private SplitPlanner() {}

  /** A draft of a split: its units, and the node it is for, or -1. */
  record Group(int node, int[] units) {}

  public static SplitPlan plan(List<Unit> units, ClusterShape shape, Policy policy) {
    Layout layout = new Layout(units, shape, policy.openCostBytes());
    List<Group> groups = switch (policy.scheme()) {
      case NONE -> Singles.of(layout);
      case MAXIMUM -> MaximumScheme.groups(layout);
      case ASSORTED -> new AssortedScheme(layout, policy).groups();
      case FIXED -> fixed(layout, policy.fixedUnits());
    };
    return finish(units, shape, layout, groups);
  }

  /** Each node's fair part of the units, cut in runs of {@code unitCount}; a node's last run may be shorter. */
  private static List<Group> fixed(Layout layout, int unitCount) {
    List<Group> groups = new ArrayList<>();
    List<IntList> parts = Balance.assign(layout);
    for (int n = 0; n < parts.size(); n++) {
      int[] part = parts.get(n).toArray();
      for (int from = 0; from < part.length; from += unitCount) {
        groups.add(new Group(n, Arrays.copyOfRange(part, from, Math.min(part.length, from + unitCount))));
      }
    }
    return groups;
  }

  private static SplitPlan finish(List<Unit> units, ClusterShape shape, Layout layout, List<Group> groups) {
    boolean[] seen = new boolean[layout.unitCount()];
    int seenCount = 0;
    record Weighed(long weight, SplitPlan.Split split) {}
    List<Weighed> weighed = new ArrayList<>(groups.size());
    for (Group group : groups) {
      int[] members = group.units().clone();
      Arrays.sort(members);
      long weight = 0;
      for (int u : members) {
        if (seen[u]) throw new IllegalStateException("unit " + u + " was planned twice");  // keeps P1
        seen[u] = true;
        weight += layout.weight[u];
      }
      seenCount += members.length;
      weighed.add(new Weighed(weight, split(units, shape, layout, group.node(), members)));
    }
    if (seenCount != seen.length) {
      throw new IllegalStateException(seen.length - seenCount + " of " + seen.length + " units were not planned");
    }
    weighed.sort(Comparator.comparingLong((Weighed w) -> -w.weight()).thenComparingInt(w -> w.split().units()[0]));

    long bytesPlaced = units.stream().filter(unit -> !unit.hosts().isEmpty()).mapToLong(Unit::bytes).sum();
    return new SplitPlan(weighed.stream().map(Weighed::split).toList(), shape, bytesPlaced);
  }

  private static SplitPlan.Split split(
      List<Unit> units, ClusterShape shape, Layout layout, int node, int[] members) {
    long bytes = 0;
    long bytesLocal = 0;
    boolean homely = false;
    for (int u : members) {
      bytes += units.get(u).bytes();
      if (node >= 0 && layout.isHome(u, node)) {
        bytesLocal += units.get(u).bytes();
        homely = true;
      }
    }
    String host = node < 0 ? "" : shape.nodes().get(node).host();
    List<String> hosts = homely ? List.of(host) : List.of();  // a hint where nothing is local would only cost waiting
    if (members.length == 1) hosts = units.get(members[0]).hosts();
    return new SplitPlan.Split(members, host, hosts, bytes, bytesLocal);
  }
}
