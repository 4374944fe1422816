package lamella.coalesce.plan;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.TreeMap;

/**
 * Maximum coalescing: as many splits as slots, so that every map starts in one wave; more, in full
 * waves, where one wave's splits would be larger than the policy allows; fewer where there is too
 * little to do for all slots.
 *
 * <p>M1: with units of one kind, and no more bytes than the slots may take at once, there are at
 * most as many splits as slots. M2: a node's splits differ in weight by at most its heaviest unit,
 * and so, with equal blocks, do all splits of the plan. M3: a kind gets splits in proportion to its
 * weight, and at least one.
 */
final class MaximumScheme {
  private MaximumScheme() {}

  static List<SplitPlanner.Group> groups(Layout layout, Policy policy) {
    long waves =
        1
            + Math.max(0, layout.bytesTotal - 1)
                / Math.max(1, Math.min(Long.MAX_VALUE / layout.slotsTotal, policy.splitBytesMax()))
                / layout.slotsTotal;
    if (layout.unitCount() <= layout.slotsTotal) return Singles.of(layout);
    List<int[]> kinds = layout.unitsByKind();
    if (kinds.size() == 1) return ofOneKind(layout, waves);
    return ofKinds(layout, policy, kinds, waves);
  }

  private static List<SplitPlanner.Group> ofOneKind(Layout layout, long waves) {
    List<SplitPlanner.Group> groups = new ArrayList<>(layout.slotsTotal);
    List<IntList> parts = Balance.assign(layout);
    for (int n = 0; n < parts.size(); n++) {
      int[] part = parts.get(n).toArray();
      if (part.length == 0) continue; // keeps M1: else slots sum to the total
      int count = (int) Math.min(part.length, layout.slots[n] * waves);
      for (int[] units : Bins.divide(layout, part, count))
        groups.add(new SplitPlanner.Group(n, units));
    }
    return groups;
  }

  /**
   * Keeps M3: each kind is planned alone, on slots that it shares with no other kind as long as
   * there are enough.
   */
  private static List<SplitPlanner.Group> ofKinds(
      Layout layout, Policy policy, List<int[]> kinds, long waves) {
    int[] splits = splitsByKind(layout, policy, kinds, layout.slotsTotal * waves);
    List<Integer> heaviestFirst = new ArrayList<>();
    for (int k = 0; k < kinds.size(); k++) heaviestFirst.add(k);
    heaviestFirst.sort(Comparator.comparingLong((Integer k) -> -Bins.weight(layout, kinds.get(k))));
    Free free = new Free(layout);
    List<SplitPlanner.Group> groups = new ArrayList<>();
    for (int k : heaviestFirst) {
      int[] units = kinds.get(k);
      if (splits[k] == 1) {
        groups.add(new SplitPlanner.Group(free.takeOne(units), units));
        continue;
      }
      Layout alone = layout.part(units, free.take(units, splits[k]));
      for (SplitPlanner.Group group : ofOneKind(alone, 1)) {
        groups.add(
            new SplitPlanner.Group(
                group.node, Arrays.stream(group.units).map(i -> units[i]).toArray()));
      }
    }
    return groups;
  }

  /**
   * As many as its bytes need for each, and the others one by one to the kind whose splits are
   * heaviest.
   */
  private static int[] splitsByKind(Layout layout, Policy policy, List<int[]> kinds, long count) {
    int[] splits = new int[kinds.size()];
    Arrays.setAll(
        splits,
        k ->
            (int)
                Math.min(
                    kinds.get(k).length,
                    1
                        + Math.max(
                                0,
                                Arrays.stream(kinds.get(k)).mapToLong(u -> layout.bytes[u]).sum()
                                    - 1)
                            / policy.splitBytesMax()));
    long[] weight = kinds.stream().mapToLong(units -> Bins.weight(layout, units)).toArray();
    PriorityQueue<Integer> heaviest =
        new PriorityQueue<>(
            Comparator.<Integer>comparingDouble(k -> -(double) weight[k] / splits[k])
                .thenComparingInt(k -> k));
    for (int k = 0; k < splits.length; k++) {
      if (splits[k] < kinds.get(k).length) heaviest.add(k);
    }
    for (long left = count - Arrays.stream(splits).sum(); left > 0 && !heaviest.isEmpty(); left--) {
      int k = heaviest.remove();
      splits[k]++;
      if (splits[k] < kinds.get(k).length) heaviest.add(k);
    }
    return splits;
  }

  /**
   * Hands out slots: those of nodes that hold most of what they are for, and when all are gone, all
   * of them again.
   */
  private static final class Free {
    private final Layout layout;
    private final int[] left;
    private int leftTotal;
    private int next; // where the last slot was taken for units that no node holds

    Free(Layout layout) {
      this.layout = layout;
      left = new int[layout.nodeCount()];
      refill();
    }

    private void refill() {
      for (int n = 0; n < left.length; n++) left[n] += layout.slots[n];
      leftTotal += layout.slotsTotal;
    }

    /**
     * A slot of the node that holds most of the units; of several such of the one with most slots
     * left.
     */
    int takeOne(int[] units) {
      if (leftTotal == 0) refill();
      Map<Integer, Long> held = new TreeMap<>();
      for (int u : units) {
        for (int home : layout.homes[u]) held.merge(home, layout.weight[u], Long::sum);
      }
      int best = -1;
      for (int n : held.keySet()) {
        if (left[n] == 0) continue;
        int byHeld = best < 0 ? 1 : Long.compare(held.get(n), held.get(best));
        if (byHeld > 0 || byHeld == 0 && left[n] > left[best]) best = n;
      }
      for (int tried = 0; best < 0 && tried < left.length; tried++) {
        next = (next + 1) % left.length;
        if (left[next] > 0) best = next;
      }
      left[best]--;
      leftTotal--;
      return best;
    }

    /** So many slots, each of the node whose slots have least of what it holds. */
    int[] take(int[] units, int count) {
      int[] taken = new int[left.length];
      while (leftTotal < count) refill();
      double each = (double) Bins.weight(layout, units) / count;
      double[] wanted =
          new double[left.length]; // of what a node holds, what its slots do not have yet
      for (int u : units) {
        for (int home : layout.homes[u]) wanted[home] += layout.weight[u];
      }
      PriorityQueue<Integer> best =
          new PriorityQueue<>(
              Comparator.<Integer>comparingDouble(n -> -Math.min(each, wanted[n]))
                  .thenComparingInt(n -> -left[n])
                  .thenComparingInt(n -> n));
      for (int n = 0; n < left.length; n++) {
        if (left[n] > 0) best.add(n);
      }
      for (int i = 0; i < count; i++) {
        int n = best.remove();
        taken[n]++;
        left[n]--;
        leftTotal--;
        wanted[n] -= each;
        if (left[n] > 0) best.add(n);
      }
      return taken;
    }
  }
}
