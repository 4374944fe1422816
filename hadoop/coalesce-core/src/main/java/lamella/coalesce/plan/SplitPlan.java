package lamella.coalesce.plan;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * What a planner decided: which units go together, and where.
 *
 * <p>P1: every unit is in exactly one split. P2: splits come largest weight first; within a split, units come in the order
 * in which they were given.
 */
public final class SplitPlan {
  /**
   * One split.
   *
   * @param units numbers of its units, ascending
   * @param node the host that it was planned for; empty when no host is better than another
   * @param hosts what the scheduler is told: {@code node} alone for a coalesced split, all replicas for a single unit
   */
  public record Split(int[] units, String node, List<String> hosts, long bytes, long bytesLocal) {
    public int unitCount() {
      return units.length;
    }
  }

  private final List<Split> splits;
  private final ClusterShape shape;
  private final long bytesPlaced;  // bytes of units that have hosts at all

  SplitPlan(List<Split> splits, ClusterShape shape, long bytesPlaced) {
    this.splits = List.copyOf(splits);
    this.shape = shape;
    this.bytesPlaced = bytesPlaced;
  }

  public List<Split> splits() {
    return splits;
  }

  public ClusterShape shape() {
    return shape;
  }

  public long bytes() {
    return splits.stream().mapToLong(Split::bytes).sum();
  }

  /** Of the bytes that have a place, the share whose split was planned for a host that holds them; 1 if none has one. */
  public double localShare() {
    if (bytesPlaced == 0) return 1;
    return (double) splits.stream().mapToLong(Split::bytesLocal).sum() / bytesPlaced;
  }

  /** Splits per slot. At or below 1, every map starts at once. */
  public double waves() {
    return (double) splits.size() / shape.slots();
  }

  /** How many splits have how many units, most units first. */
  public Map<Integer, Integer> splitsByUnitCount() {
    Map<Integer, Integer> counts = new TreeMap<>(java.util.Comparator.reverseOrder());
    for (Split split : splits) counts.merge(split.unitCount(), 1, Integer::sum);
    return counts;
  }

  /** Bytes planned for each node of the shape; splits without a node count nowhere. */
  public Map<String, Long> bytesByNode() {
    Map<String, Long> loads = new TreeMap<>();
    for (ClusterShape.Node node : shape.nodes()) loads.put(node.host(), 0L);
    for (Split split : splits) {
      if (!split.node().isEmpty()) loads.merge(split.node(), split.bytes(), Long::sum);
    }
    return loads;
  }

  /** The highest load of a slot over the mean: how much longer the fullest node works than if all worked equally. */
  public double loadMaxOverMean() {
    int[] slots = shape.slotsPerNode();
    Map<String, Long> loads = bytesByNode();
    double sum = loads.values().stream().mapToDouble(Long::doubleValue).sum();
    if (sum == 0) return 1;
    double mean = sum / shape.slots();
    double max = 0;
    for (int n = 0; n < slots.length; n++) {
      max = Math.max(max, (double) loads.get(shape.nodes().get(n).host()) / Math.max(1, slots[n]));
    }
    return max / mean;
  }
}
