package lamella.coalesce.plan;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Units and nodes as numbers: what the schemes compute with.
 *
 * <p>L1: homes[u] are the nodes of the shape that hold unit u, ascending. A unit without homes is read equally well (or
 * badly) from everywhere. L2: the weights are at least 1, so sums tell more from fewer.
 */
final class Layout {
  final long[] weight;
  final int[][] homes;
  final int[] slots;  // per node, reserved ones taken away; may be 0
  final int slotsTotal;
  final long weightTotal;

  Layout(List<Unit> units, ClusterShape shape, long openCostBytes) {
    slots = shape.slotsPerNode();
    slotsTotal = shape.slots();
    Map<String, Integer> number = new HashMap<>();
    for (int n = 0; n < shape.nodes().size(); n++) number.put(shape.nodes().get(n).host(), n);

    weight = new long[units.size()];
    homes = new int[units.size()][];
    long sum = 0;
    for (int u = 0; u < weight.length; u++) {
      Unit unit = units.get(u);
      weight[u] = Math.max(1, Math.addExact(unit.bytes(), openCostBytes));  // keeps L2
      sum = Math.addExact(sum, weight[u]);
      homes[u] = unit.hosts().stream().filter(number::containsKey).mapToInt(number::get).sorted().toArray();
    }
    weightTotal = sum;
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
