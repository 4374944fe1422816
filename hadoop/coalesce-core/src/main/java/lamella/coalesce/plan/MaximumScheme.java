package lamella.coalesce.plan;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.PriorityQueue;

/**
 * Maximum coalescing: as many splits as slots, so that every map starts in one wave.
 *
 * <p>M1: there are at most as many splits as slots. M2: a node's splits differ in weight by at most its heaviest unit, and
 * so, with equal blocks, do all splits of the plan.
 */
final class MaximumScheme {
  /** One split heavier than the other arrangement's heaviest by more than this is worth giving up the file's order. */
  private static final double RUNS_WORSE_BY_MAX = 1.02;

  private MaximumScheme() {}

  static List<SplitPlanner.Group> groups(Layout layout) {
    if (layout.unitCount() <= layout.slotsTotal) return Singles.of(layout);
    List<SplitPlanner.Group> groups = new ArrayList<>(layout.slotsTotal);
    List<IntList> parts = Balance.assign(layout);
    for (int n = 0; n < parts.size(); n++) {
      if (parts.get(n).isEmpty()) continue;
      for (int[] units : divide(layout, parts.get(n).toArray(), layout.slots[n])) {  // keeps M1: slots sum to the total
        if (units.length > 0) groups.add(new SplitPlanner.Group(n, units));
      }
    }
    return groups;
  }

  /** In runs of the given order, so that neighbours in a file are read as one range; by weight if runs come out uneven. */
  private static List<int[]> divide(Layout layout, int[] units, int count) {
    List<int[]> runs = runs(layout, units, count);
    List<int[]> packed = packed(layout, units, count);
    return heaviest(layout, runs) <= heaviest(layout, packed) * RUNS_WORSE_BY_MAX ? runs : packed;
  }

  private static List<int[]> runs(Layout layout, int[] units, int count) {
    long total = sum(layout, units);
    List<IntList> bins = bins(count);
    long before = 0;
    for (int u : units) {
      double middle = before + layout.weight[u] / 2.0;
      bins.get((int) Math.min(count - 1, (long) (middle * count / total))).add(u);
      before += layout.weight[u];
    }
    return bins.stream().map(IntList::toArray).toList();
  }

  /** Heaviest first, each to the lightest split so far; keeps M2. */
  private static List<int[]> packed(Layout layout, int[] units, int count) {
    record Bin(long weight, int number) implements Comparable<Bin> {
      @Override
      public int compareTo(Bin other) {
        return weight != other.weight ? Long.compare(weight, other.weight) : Integer.compare(number, other.number);
      }
    }
    List<IntList> bins = bins(count);
    PriorityQueue<Bin> lightest = new PriorityQueue<>();
    for (int b = 0; b < count; b++) lightest.add(new Bin(0, b));
    for (int u : Balance.heaviestFirst(layout, units)) {
      Bin bin = lightest.remove();
      bins.get(bin.number()).add(u);
      lightest.add(new Bin(bin.weight() + layout.weight[u], bin.number()));
    }
    return bins.stream().map(IntList::toArray).toList();
  }

  private static List<IntList> bins(int count) {
    List<IntList> bins = new ArrayList<>(count);
    for (int b = 0; b < count; b++) bins.add(new IntList());
    return bins;
  }

  private static long heaviest(Layout layout, List<int[]> groups) {
    return groups.stream().mapToLong(units -> sum(layout, units)).max().orElse(0);
  }

  private static long sum(Layout layout, int[] units) {
    return Arrays.stream(units).mapToLong(u -> layout.weight[u]).sum();
  }
}
