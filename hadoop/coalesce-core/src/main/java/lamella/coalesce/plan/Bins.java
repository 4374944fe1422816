package lamella.coalesce.plan;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.PriorityQueue;
import java.util.stream.Collectors;

/** Divides units among a number of splits of about equal weight. Empty ones are left out. */
final class Bins {
  /**
   * One split heavier than the other arrangement's heaviest by more than this is worth giving up
   * the file's order.
   */
  private static final double RUNS_WORSE_BY_MAX = 1.02;

  private Bins() {}

  /**
   * In runs of the given order, so that neighbours in a file are read as one range; by weight if
   * runs come out uneven.
   */
  static List<int[]> divide(Layout layout, int[] units, int count) {
    List<int[]> runs = runs(layout, units, count);
    if (count == 1) return runs;
    List<int[]> packed = packed(layout, units, count);
    return heaviest(layout, runs) <= heaviest(layout, packed) * RUNS_WORSE_BY_MAX ? runs : packed;
  }

  private static List<int[]> runs(Layout layout, int[] units, int count) {
    long total = weight(layout, units);
    List<IntList> bins = bins(count);
    long before = 0;
    for (int u : units) {
      double middle = before + layout.weight[u] / 2.0;
      bins.get((int) Math.min(count - 1, (long) (middle * count / total))).add(u);
      before += layout.weight[u];
    }
    return filled(bins);
  }

  /** Heaviest first, each to the lightest split so far. */
  private static List<int[]> packed(Layout layout, int[] units, int count) {
    List<IntList> bins = bins(count);
    long[] weight = new long[count];
    PriorityQueue<Integer> lightest =
        new PriorityQueue<>(
            Comparator.<Integer>comparingLong(b -> weight[b]).thenComparingInt(b -> b));
    for (int b = 0; b < count; b++) lightest.add(b);
    for (int u : Balance.heaviestFirst(layout, units)) {
      int bin = lightest.remove();
      bins.get(bin).add(u);
      weight[bin] += layout.weight[u];
      lightest.add(bin);
    }
    return filled(bins);
  }

  private static List<IntList> bins(int count) {
    List<IntList> bins = new ArrayList<>(count);
    for (int b = 0; b < count; b++) bins.add(new IntList());
    return bins;
  }

  private static List<int[]> filled(List<IntList> bins) {
    return bins.stream()
        .filter(bin -> !bin.isEmpty())
        .map(IntList::toArray)
        .collect(Collectors.toList());
  }

  private static long heaviest(Layout layout, List<int[]> groups) {
    return groups.stream().mapToLong(units -> weight(layout, units)).max().orElse(0);
  }

  static long weight(Layout layout, int[] units) {
    return Arrays.stream(units).mapToLong(u -> layout.weight[u]).sum();
  }
}
