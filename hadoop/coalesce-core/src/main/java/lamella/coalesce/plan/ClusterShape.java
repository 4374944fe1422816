package lamella.coalesce.plan;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * The slots a job may hold at once: map containers per node, less those that something else of the
 * same job holds (its application master, reducers that start with the maps).
 *
 * <p>S1: nodes are sorted by host and no host comes twice. S2: every node has at least one slot.
 * S3: {@link #slots()} is at least 1, and the entries of {@link #slotsPerNode()} sum to it.
 */
public final class ClusterShape {
  /** One host and the map containers that fit on it at once. */
  public static final class Node {
    private final String host;
    private final int slots;

    public Node(String host, int slots) {
      if (host == null || host.trim().isEmpty())
        throw new IllegalArgumentException("a node without a host name");
      if (slots < 1)
        throw new IllegalArgumentException(
            "node " + host + " has " + slots + " slots; expected 1 or more");
      this.host = host;
      this.slots = slots;
    }

    public String host() {
      return host;
    }

    public int slots() {
      return slots;
    }
  }

  private final List<Node> nodes;
  private final int slotsReserved;
  private final String source;

  public ClusterShape(List<Node> nodes, int slotsReserved, String source) {
    if (nodes.isEmpty())
      throw new IllegalArgumentException("a cluster shape (from " + source + ") without nodes");
    if (slotsReserved < 0)
      throw new IllegalArgumentException(slotsReserved + " reserved slots; expected 0 or more");
    Map<String, Integer> merged = new TreeMap<>(); // keeps S1; two node managers on one host add up
    for (Node node : nodes) merged.merge(node.host(), node.slots(), Math::addExact);
    List<Node> sorted = new ArrayList<>();
    merged.forEach((host, slots) -> sorted.add(new Node(host, slots)));
    this.nodes = Collections.unmodifiableList(sorted);
    this.slotsReserved = slotsReserved;
    this.source = source;
  }

  public List<Node> nodes() {
    return nodes;
  }

  public int slotsReserved() {
    return slotsReserved;
  }

  public String source() {
    return source;
  }

  /** {@code nodeCount} hosts named node0000, node0001 ... with the same number of slots each. */
  public static ClusterShape uniform(int nodeCount, int slotsPerNode) {
    List<Node> nodes = new ArrayList<>();
    for (int i = 0; i < nodeCount; i++)
      nodes.add(new Node(String.format("node%04d", i), slotsPerNode));
    return new ClusterShape(nodes, 0, "uniform");
  }

  /**
   * Map containers that run at once. A cluster whose every slot is reserved could run no job; it
   * counts as one slot.
   */
  public int slots() {
    return Math.max(1, slotsAll() - slotsReserved);
  }

  /**
   * Slots of each node, in the order of {@link #nodes()}, after the reserved ones are taken away:
   * one at a time, from a node that has the most left, the last such by name. Where they really go
   * is the scheduler's choice, made later.
   */
  public int[] slotsPerNode() {
    int[] left = nodes.stream().mapToInt(Node::slots).toArray();
    Slots.takeAway(left, slotsAll() - slots(), (a, b) -> Integer.compare(b, a));
    return left;
  }

  private int slotsAll() {
    return nodes.stream().mapToInt(Node::slots).reduce(0, Math::addExact);
  }
}
