package lamella.coalesce.plan;

import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * What a planner decided: which units go together, and where.
 *
 * <p>P1: every unit is in exactly one split. P2: splits come largest weight first; within a split,
 * units come in the order in which they were given. P3: the units of a split are of one kind. P4: a
 * split of several units has at most {@link Policy#splitBytesMax()} bytes, except with the scheme
 * fixed.
 */
public final class SplitPlan {
  /** One split. */
  public static final class Split {
    private final int[] units;
    private final String node;
    private final List<String> hosts;
    private final long bytes;
    private final long bytesLocal;

    Split(int[] units, String node, List<String> hosts, long bytes, long bytesLocal) {
      this.units = units;
      this.node = node;
      this.hosts = hosts;
      this.bytes = bytes;
      this.bytesLocal = bytesLocal;
    }

    /** Numbers of its units, ascending. */
    public int[] units() {
      return units;
    }

    public int unitCount() {
      return units.length;
    }

    /** The host that it was planned for; empty when no host is better than another. */
    public String node() {
      return node;
    }

    /**
     * What the scheduler is told: {@link #node} alone for a coalesced split, all replicas for a
     * single unit.
     */
    public List<String> hosts() {
      return hosts;
    }

    public long bytes() {
      return bytes;
    }

    public long bytesLocal() {
      return bytesLocal;
    }
  }

  private final List<Split> splits;
  private final ClusterShape shape;
  private final long bytesPlaced; // bytes of units that have hosts at all
  private final long bytesKnown; // of those, with a host that is a node of the shape

  SplitPlan(List<Split> splits, ClusterShape shape, long bytesPlaced, long bytesKnown) {
    this.splits = Collections.unmodifiableList(new ArrayList<>(splits));
    this.shape = shape;
    this.bytesPlaced = bytesPlaced;
    this.bytesKnown = bytesKnown;
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

  /**
   * Of the bytes that have a place, the share whose split was planned for a host that holds them; 1
   * if none has one.
   */
  public double localShare() {
    if (bytesPlaced == 0) return 1;
    return (double) splits.stream().mapToLong(Split::bytesLocal).sum() / bytesPlaced;
  }

  /**
   * Of the bytes that have a place, the share that lies on nodes of the shape at all; 1 if none has
   * a place.
   */
  public double knownShare() {
    return bytesPlaced == 0 ? 1 : (double) bytesKnown / bytesPlaced;
  }

  /** Splits per slot. At or below 1, every map starts at once. */
  public double waves() {
    return (double) splits.size() / shape.slots();
  }

  /** How many splits have how many units, most units first. */
  public Map<Integer, Integer> splitsByUnitCount() {
    Map<Integer, Integer> counts = new TreeMap<>(Comparator.reverseOrder());
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

  /**
   * The highest load of a slot over the mean: how much longer the fullest node works than if all
   * worked equally.
   */
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
