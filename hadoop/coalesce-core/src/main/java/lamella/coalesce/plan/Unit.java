package lamella.coalesce.plan;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/**
 * What is coalesced: one split of the wrapped input format, on plain HDFS files one block.
 *
 * <p>Hosts are kept sorted and without repetition: HDFS shuffles a block's replicas at every call,
 * and a plan must not depend on that. No hosts means that every node reads it equally well (an
 * object store, a striped file). Units of different {@link #kind() kinds} never share a split:
 * files that a job keeps apart, mappers of different inputs.
 */
public final class Unit {
  private final long bytes;
  private final List<String> hosts;
  private final int kind;

  public Unit(long bytes, List<String> hosts) {
    this(bytes, hosts, 0);
  }

  public Unit(long bytes, List<String> hosts, int kind) {
    if (bytes < 0)
      throw new IllegalArgumentException("a unit has " + bytes + " bytes; expected 0 or more");
    this.bytes = bytes;
    this.hosts = sorted(hosts);
    this.kind = kind;
  }

  private static List<String> sorted(List<String> hosts) {
    String[] names = hosts.toArray(new String[0]);
    Arrays.sort(names);
    int count = 0;
    for (String name : names) {
      if (count == 0 || !name.equals(names[count - 1])) names[count++] = name;
    }
    return Collections.unmodifiableList(
        Arrays.asList(count == names.length ? names : Arrays.copyOf(names, count)));
  }

  public long bytes() {
    return bytes;
  }

  public List<String> hosts() {
    return hosts;
  }

  public int kind() {
    return kind;
  }

  /** The same without its hosts, or with others. */
  public Unit withHosts(List<String> others) {
    return new Unit(bytes, others, kind);
  }
}
