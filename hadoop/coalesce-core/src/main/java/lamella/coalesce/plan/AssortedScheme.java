package lamella.coalesce.plan;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;

/**
 * Assorted coalescing: splits of falling sizes (Algorithms 1 and 2 of the dissertation), so that
 * maps end at different times; what is left over stays single.
 *
 * <p>A1: the sizes are max, max * ratio, max * ratio^2 ... while a size is worth at least two mean
 * units; the first gets {@code share} of a node's slots, each next that share of what remains,
 * rounded down. A2: of a coalesced split at most {@code remoteShareMax} lies on other nodes; of
 * those that A4 makes, only where nothing else evens out the load. A3: at each size, nodes with
 * fewer units left choose first. A4: of what is left over, units that are too light for a container
 * of their own (below {@link Policy#splitBytesMin()}) are packed into splits of the next size in
 * the sequence, or of the least if that is more.
 *
 * <p>Where the dissertation counts blocks, this weighs units: a split takes units until the next
 * would leave it further from its size than it is, which for equal blocks rounds a size of 7.8
 * blocks to 8.
 */
final class AssortedScheme {
  private static final double ROUNDING = 1e-9;

  private final Layout layout;
  private final Policy policy;
  private final double
      waves; // of splits of the first size: more than one where one's would have too many bytes
  private final double sizeMax;
  private final List<IntList> unitsByNode;
  private final int[] cursor; // per list of unitsByNode: all before it are taken for good
  private final Richest left; // per node: its units that are not taken
  private final boolean[] taken;
  private final int[] slotsFree;
  private final long[] load;
  private final List<SplitPlanner.Group> groups = new ArrayList<>();

  AssortedScheme(Layout layout, Policy policy) {
    this.layout = layout;
    this.policy = policy;
    waves =
        Math.max(
            1,
            Math.ceil(
                (double) layout.bytesTotal / layout.slotsTotal / policy.splitBytesMax()
                    - ROUNDING));
    sizeMax = layout.weightTotal / (layout.slotsTotal * waves);
    unitsByNode = layout.unitsByNode();
    cursor = new int[unitsByNode.size()];
    left =
        new Richest(
            unitsByNode.stream().mapToInt(IntList::size).limit(layout.nodeCount()).toArray());
    taken = new boolean[layout.unitCount()];
    slotsFree = layout.slots.clone();
    load = new long[layout.nodeCount()];
  }

  List<SplitPlanner.Group> groups() {
    int[] slotsLeft =
        layout.slots.clone(); // Algorithm 1's numRemainingSlots, per node: nodes may differ
    double size = sizeMax;
    for (double perSlot = waves;
        isWorthCoalescing(size);
        perSlot /= policy.ratio(), size *= policy.ratio()) {
      boolean any = false;
      int[] slotsOfSize = new int[layout.nodeCount()];
      for (int n = 0; n < slotsOfSize.length; n++) {
        slotsOfSize[n] = (int) (slotsLeft[n] * policy.share() + ROUNDING);
        slotsLeft[n] -= slotsOfSize[n];
        any |= slotsOfSize[n] > 0;
      }
      if (!any) break;
      for (int n : fewestUnitsFirst()) {
        makeSplits(n, size, Math.min(slotsOfSize[n], slotsFree[n]), perSlot);
      }
    }
    leaveRest(Math.max(policy.splitBytesMin(), size));
    return groups;
  }

  private boolean isWorthCoalescing(double size) {
    return layout.unitCount() > 0
        && size * (1 + ROUNDING) >= 2.0 * layout.weightTotal / layout.unitCount()
        && size * (1 + ROUNDING) >= policy.splitBytesMin();
  }

  private int[] fewestUnitsFirst() {
    Integer[] order = new Integer[layout.nodeCount()];
    Arrays.setAll(order, n -> n);
    Arrays.sort(
        order,
        Comparator.comparingInt((Integer n) -> left.get(n)).thenComparingInt(n -> n)); // keeps A3
    return Arrays.stream(order).mapToInt(Integer::intValue).toArray();
  }

  private void makeSplits(int node, double size, int slots, double perSlot) {
    int wanted = (int) Math.round(slots * perSlot);
    int made = 0;
    while (made < wanted && makeSplit(node, size)) made++;
    slotsFree[node] -= (int) Math.ceil(made / perSlot - ROUNDING);
  }

  private boolean makeSplit(int node, double size) {
    IntList members = new IntList();
    long sum = gather(node, size, 0, members);
    sum =
        gather(layout.nodeCount(), size, sum, members); // units without a home are as good as local
    if (members.isEmpty() || sum < size * (1 - policy.remoteShareMax()) * (1 - ROUNDING)) {
      while (!members.isEmpty()) putBack(members.removeLast());
      return false;
    }
    gatherRemote(node, size, sum, members);
    load[node] += Bins.weight(layout, members.toArray());
    groups.add(new SplitPlanner.Group(node, members.toArray()));
    return true;
  }

  /** Takes units of one list, in the order given, until the size is met as nearly as can be. */
  private long gather(int list, double size, long sum, IntList members) {
    IntList units = unitsByNode.get(list);
    while (cursor[list] < units.size() && taken[units.get(cursor[list])]) cursor[list]++;
    for (int i = cursor[list]; i < units.size(); i++) {
      int u = units.get(i);
      layout.steps++;
      if (taken[u]) continue;
      if (!fits(size, sum, u)) {
        if (sum >= size * (1 - policy.remoteShareMax())) break;
        continue; // too heavy a unit for this split; a lighter one may follow
      }
      take(u);
      members.add(u);
      sum += layout.weight[u];
    }
    return sum;
  }

  private boolean fits(double size, long sum, int unit) {
    return sum + layout.weight[unit] / 2.0 <= size * (1 + ROUNDING);
  }

  /** Fills up from the nodes that have most left, as far as A2 allows. */
  private void gatherRemote(int node, double size, long sum, IntList members) {
    long remote = 0;
    while (sum < size) {
      int richest = left.otherThan(node);
      if (richest < 0) return;
      layout.steps++;
      IntList units = unitsByNode.get(richest);
      while (taken[units.get(cursor[richest])]) cursor[richest]++; // it has some left: one is there
      int u = units.get(cursor[richest]);
      long w = layout.weight[u];
      if (!fits(size, sum, u) || remote + w > policy.remoteShareMax() * (sum + w) * (1 + ROUNDING))
        return;
      take(u);
      members.add(u);
      remote += w;
      sum += w;
    }
  }

  /** Single units, and keeps A4. */
  private void leaveRest(double size) {
    IntList rest = new IntList();
    for (int u = 0; u < taken.length; u++) {
      if (!taken[u]) rest.add(u);
    }
    List<IntList> parts = Balance.assign(layout, rest.toArray(), load);
    for (int n = 0; n < parts.size(); n++) {
      IntList light = new IntList();
      for (int u : parts.get(n).toArray()) {
        if (layout.weight[u] < policy.splitBytesMin()) {
          light.add(u);
        } else {
          groups.add(new SplitPlanner.Group(n, new int[] {u}));
        }
      }
      for (int[] ofKind : layout.unitsByKind(light.toArray())) pack(n, ofKind, size);
    }
  }

  private void pack(int node, int[] units, double size) {
    int count =
        (int) Math.min(units.length, Math.max(1, Math.round(Bins.weight(layout, units) / size)));
    for (int[] packed : Bins.divide(layout, units, count))
      groups.add(new SplitPlanner.Group(node, packed));
  }

  private void take(int u) {
    taken[u] = true;
    for (int home : layout.homes[u]) left.add(home, -1);
  }

  private void putBack(int u) {
    taken[u] = false;
    for (int home : layout.homes[u]) left.add(home, 1);
  }
}
