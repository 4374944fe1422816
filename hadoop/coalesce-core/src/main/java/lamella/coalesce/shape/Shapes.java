package lamella.coalesce.shape;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.ServiceLoader;
import java.util.TreeSet;
import lamella.coalesce.InvalidSettingException;
import lamella.coalesce.Settings;
import lamella.coalesce.plan.ClusterShape;
import lamella.coalesce.plan.Unit;
import org.apache.hadoop.conf.Configuration;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Where the shape of the cluster comes from. With lamella.coalesce.shape at {@code auto}:
 * lamella.coalesce.nodes if set; else the executors of the Spark application that asks; else the
 * first {@link ShapeProvider} that applies to the job (YARN's running nodes); else the hosts that
 * hold the input, with lamella.coalesce.slots.per.node slots each.
 */
public final class Shapes {
  private static final Logger LOG = LoggerFactory.getLogger(Shapes.class);

  private Shapes() {}

  public static ClusterShape find(Configuration conf, List<Unit> units) throws IOException {
    Settings.slotsPerNode(conf, 1); // a bad value is an error even where it would not be used
    Settings.slotsReserved(conf, 0);
    Settings.slotsVcores(conf);
    String from = Settings.shape(conf);
    boolean hasNodes = conf.get(Settings.NODES) != null;
    if (from.equals("settings") || from.equals("auto") && hasNodes) return fromSettings(conf);
    if (from.equals("splits")) return fromUnits(conf, units);
    if (from.equals("spark") || from.equals("auto")) {
      ClusterShape executors = SparkShape.find(conf);
      if (executors != null) return executors;
      if (from.equals("spark")) {
        throw new InvalidSettingException(
            Settings.SHAPE, from, "spark only in a Spark application's driver");
      }
    }
    for (ShapeProvider provider : ServiceLoader.load(ShapeProvider.class, conf.getClassLoader())) {
      boolean asked = provider.name().equals(from);
      if (asked || from.equals("auto") && provider.appliesTo(conf)) return provider.shape(conf);
    }
    if (!from.equals("auto")) {
      throw new InvalidSettingException(
          Settings.SHAPE,
          from,
          "a provider that is in the class path (for yarn, the jar lamella-coalesce or"
              + " coalesce-yarn)");
    }
    if ("yarn".equals(conf.get("mapreduce.framework.name"))) {
      LOG.warn(
          "this job runs on YARN, but no jar in its class path can ask YARN for its nodes"
              + " (lamella-coalesce or coalesce-yarn can); taking the hosts of the input instead");
    }
    return fromUnits(conf, units);
  }

  /** host[:slots],host[:slots]... */
  private static ClusterShape fromSettings(Configuration conf) {
    int slotsDefault = Settings.slotsPerNode(conf, Settings.SLOTS_PER_NODE_DEFAULT);
    List<ClusterShape.Node> nodes = new ArrayList<>();
    for (String entry : conf.getTrimmedStrings(Settings.NODES)) {
      int colon = entry.lastIndexOf(':');
      String host = colon < 0 ? entry : entry.substring(0, colon);
      if (host.trim().isEmpty()) throw badNodes(conf);
      int slots =
          colon < 0
              ? slotsDefault
              : Settings.wholeNumber(Settings.NODES, entry.substring(colon + 1), 1);
      nodes.add(new ClusterShape.Node(host, slots));
    }
    if (nodes.isEmpty()) throw badNodes(conf);
    return new ClusterShape(nodes, Settings.slotsReserved(conf, 0), Settings.NODES);
  }

  private static InvalidSettingException badNodes(Configuration conf) {
    return new InvalidSettingException(
        Settings.NODES,
        conf.get(Settings.NODES, ""),
        "one or more of host or host:slots, separated by commas");
  }

  private static ClusterShape fromUnits(Configuration conf, List<Unit> units) throws IOException {
    TreeSet<String> hosts = new TreeSet<>();
    for (Unit unit : units) hosts.addAll(unit.hosts());
    if (hosts.size() > 1) hosts.remove("localhost");
    // Empty files lie nowhere, and it does not matter where they are read.
    if (hosts.isEmpty() && units.stream().allMatch(unit -> unit.bytes() == 0))
      hosts.add("localhost");
    if (hosts.isEmpty()) {
      throw new IOException(
          "no cluster to plan for: the input names no hosts, and nothing else says what nodes there"
              + " are. Set "
              + Settings.NODES
              + " to one or more of host or host:slots, separated by commas");
    }
    int slots = Settings.slotsPerNode(conf, Settings.SLOTS_PER_NODE_DEFAULT);
    List<ClusterShape.Node> nodes = new ArrayList<>();
    for (String host : hosts) nodes.add(new ClusterShape.Node(host, slots));
    return new ClusterShape(nodes, Settings.slotsReserved(conf, 0), "the hosts of the input");
  }
}
