package lamella.coalesce.plan;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Units and nodes as numbers: what the schemes compute with.
 *
 * <p>L1: homes[u] are the nodes of the shape that hold unit u, ascending. A unit without homes is
 * read equally well (or badly) from everywhere. L2: the weights are at least 1, so sums tell more
 * from fewer; no sum of weights or bytes overflows. L3: the slots that are left sum to slotsTotal,
 * which is at least 1.
 */
final class Layout {
  final long[] bytes;
  final long[] weight;
  final int[] kind;
  final int[][] homes;
  final int[]
      slots; // per node, reserved ones taken away, and those that too little work is there for; may
             // be 0
  final int slotsTotal;
  final long weightTotal;
  final long bytesTotal;
  long
      steps; // homes, units and nodes that were looked at so far: what planning costs, counted
             // where it could grow

  Layout(List<Unit> units, ClusterShape shape, Policy policy) {
    Map<String, Integer> number = new HashMap<>();
    for (int n = 0; n < shape.nodes().size(); n++) number.put(shape.nodes().get(n).host(), n);

    int count = units.size();
    bytes = new long[count];
    weight = new long[count];
    kind = new int[count];
    homes = new int[count][];
    // Keeps L2. A format that does not know a length may say anything up to 2^63: this much of it
    // is believed.
    long most = (Long.MAX_VALUE >> 2) / Math.max(1, count);
    long sum = 0;
    long sumBytes = 0;
    for (int u = 0; u < count; u++) {
      Unit unit = units.get(u);
      bytes[u] = Math.min(unit.bytes(), most);
      weight[u] =
          Math.max(
              1,
              Math.min(bytes[u], most - Math.min(most, policy.openCostBytes()))
                  + policy.openCostBytes());
      sum += weight[u];
      sumBytes += bytes[u];
      kind[u] = unit.kind();
      homes[u] = homesOf(unit, number);
    }
    weightTotal = sum;
    bytesTotal = sumBytes;
    slots = shape.slotsPerNode();
    slotsTotal = narrow(shape.slots(), policy);
  }

  /** Some of another's units, on {@code slots} of its nodes' slots. */
  private Layout(Layout whole, int[] units, int[] slots) {
    bytes = Arrays.stream(units).mapToLong(u -> whole.bytes[u]).toArray();
    weight = Arrays.stream(units).mapToLong(u -> whole.weight[u]).toArray();
    kind = new int[units.length];
    homes = new int[units.length][];
    for (int i = 0; i < units.length; i++) homes[i] = whole.homes[units[i]];
    weightTotal = Arrays.stream(weight).sum();
    bytesTotal = Arrays.stream(bytes).sum();
    this.slots = slots;
    slotsTotal = Arrays.stream(slots).sum();
  }

  Layout part(int[] units, int[] slots) {
    return new Layout(this, units, slots);
  }

  private static int[] homesOf(Unit unit, Map<String, Integer> number) {
    int[] found = new int[unit.hosts().size()];
    int count = 0;
    for (String host : unit.hosts()) {
      Integer n = number.get(host);
      if (n != null) found[count++] = n;
    }
    int[] homes = count == found.length ? found : Arrays.copyOf(found, count);
    Arrays.sort(homes);
    return homes;
  }

  /**
   * Leaves as many slots as get the least weight each; nodes that hold most of the input keep
   * theirs longest.
   */
  private int narrow(int total, Policy policy) {
    if (policy.splitBytesMin() == 0 || weightTotal / policy.splitBytesMin() >= total) return total;
    int left = (int) Math.max(1, weightTotal / policy.splitBytesMin());
    long[] held = held();
    Slots.takeAway(
        slots,
        total - left,
        (a, b) -> held[a] != held[b] ? Long.compare(held[a], held[b]) : Integer.compare(b, a));
    return left;
  }

  /** The weight of the units that each node holds. */
  long[] held() {
    long[] held = new long[nodeCount()];
    for (int u = 0; u < unitCount(); u++) {
      for (int home : homes[u]) held[home] += weight[u];
    }
    return held;
  }

  int unitCount() {
    return weight.length;
  }

  int nodeCount() {
    return slots.length;
  }

  boolean isHome(int unit, int node) {
    for (int home : homes[unit]) {
      if (home == node) return true;
    }
    return false;
  }

  int[] allUnits() {
    int[] all = new int[unitCount()];
    Arrays.setAll(all, u -> u);
    return all;
  }

  /** The units of each kind, ascending; kinds by their first unit. */
  List<int[]> unitsByKind() {
    return unitsByKind(allUnits());
  }

  List<int[]> unitsByKind(int[] units) {
    if (units.length == 0) return Collections.emptyList();
    boolean one = true;
    for (int i = 1; i < units.length && one; i++) one = kind[units[i]] == kind[units[0]];
    if (one) return Collections.singletonList(units);
    Map<Integer, IntList> byKind = new java.util.LinkedHashMap<>();
    for (int u : units) byKind.computeIfAbsent(kind[u], k -> new IntList()).add(u);
    List<int[]> lists = new ArrayList<>(byKind.size());
    for (IntList list : byKind.values()) lists.add(list.toArray());
    return lists;
  }

  /** The units that each node holds, ascending; those without homes in the last list. */
  List<IntList> unitsByNode() {
    List<IntList> lists = new ArrayList<>();
    for (int n = 0; n <= nodeCount(); n++) lists.add(new IntList());
    for (int u = 0; u < unitCount(); u++) {
      for (int home : homes[u]) lists.get(home).add(u);
      if (homes[u].length == 0) lists.get(nodeCount()).add(u);
    }
    return lists;
  }
}
