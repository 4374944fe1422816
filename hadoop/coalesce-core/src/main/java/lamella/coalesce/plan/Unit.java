package lamella.coalesce.plan;

import java.util.List;

/**
 * What is coalesced: one split of the wrapped input format, on plain HDFS files one block.
 *
 * <p>Hosts are kept sorted and without repetition: HDFS shuffles a block's replicas at every call, and a plan must not
 * depend on that. No hosts means that every node reads it equally well (an object store, a striped file).
 */
public record Unit(long bytes, List<String> hosts) {
  public Unit {
    if (bytes < 0) throw new IllegalArgumentException("a unit has " + bytes + " bytes; expected 0 or more");
    hosts = hosts.stream().sorted().distinct().toList();
  }
}
