package lamella.coalesce;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import lamella.coalesce.plan.ClusterShape;
import lamella.coalesce.plan.Policy;
import lamella.coalesce.plan.SplitPlan;
import lamella.coalesce.plan.SplitPlanner;
import lamella.coalesce.plan.Unit;
import lamella.coalesce.shape.Shapes;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A delegate's splits as units of a plan, for either of Hadoop's two interfaces: collected one by
 * one, then planned.
 *
 * <p>U1: units that the job keeps apart ({@link Settings#FILES}, mappers of different inputs) are
 * of different kinds.
 */
public final class Units {
  private static final Logger LOG = LoggerFactory.getLogger(Units.class);
  private static final String LOOPBACK = "localhost";

  /**
   * More replicas than this are asked for rarely; it is rather a striped file, whose every host
   * holds a part of each block.
   */
  private static final int REPLICAS_MAX = 3;

  /**
   * With less of the input than this on nodes of the cluster, its hosts and the cluster's probably
   * go by different names.
   */
  private static final double KNOWN_SHARE_MIN = 0.5;

  private final Configuration conf;
  private final boolean filesApart;
  private final List<Unit> units = new ArrayList<>();
  private final Map<Path, Boolean> striped = new HashMap<>();
  private final Map<Object, Integer> kinds = new HashMap<>();

  public Units(Configuration conf) {
    this.conf = conf;
    filesApart = Settings.files(conf) == Settings.Files.APART;
  }

  /**
   * One more.
   *
   * @param bytes a length as a format gives it: negative where it knows none, which counts as
   *     nothing
   * @param hosts may be null
   * @param file null where the split is not of one file
   * @param sort what it must not share a split with units of another of, or null
   */
  public void add(long bytes, String[] hosts, Path file, Object sort) throws IOException {
    boolean anywhere =
        hosts == null || hosts.length > REPLICAS_MAX && file != null && isStriped(file);
    Object kind = filesApart && file != null ? Arrays.asList(file, sort) : sort;
    Integer number = kinds.computeIfAbsent(kind == null ? "" : kind, k -> kinds.size()); // keeps U1
    units.add(
        new Unit(
            Math.max(0, bytes), anywhere ? Collections.emptyList() : named(hosts), number));
  }

  /** Some formats answer an empty name for a place that they do not know. */
  private static List<String> named(String[] hosts) {
    return Arrays.stream(hosts)
        .filter(host -> !host.trim().isEmpty())
        .collect(Collectors.toList());
  }

  private boolean isStriped(Path file) throws IOException {
    Boolean answer = striped.get(file);
    if (answer == null) {
      answer = file.getFileSystem(conf).getFileStatus(file).isErasureCoded();
      striped.put(file, answer);
    }
    return answer;
  }

  public ClusterShape shape() throws IOException {
    return Shapes.find(conf, units);
  }

  public SplitPlan plan(ClusterShape shape, Policy policy) {
    return SplitPlanner.plan(withoutLoopback(shape), shape, policy);
  }

  /** Plans as the configuration says, and logs what came of it. */
  public SplitPlan plan(String delegateName) throws IOException {
    long started = System.nanoTime();
    ClusterShape shape = shape();
    Policy policy = Settings.policy(conf);
    SplitPlan plan = plan(shape, policy);
    LOG.info(
        "{} splits of {} coalesced into {} ({}) for {} slots on {} nodes from {}; {} % local;"
            + " planned in {} ms",
        units.size(),
        delegateName,
        plan.splits().size(),
        policy.scheme(),
        shape.slots(),
        shape.nodes().size(),
        shape.source(),
        Math.round(100 * plan.localShare()),
        (System.nanoTime() - started) / 1_000_000);
    String warning = warning(plan);
    if (warning != null) LOG.warn(warning);
    return plan;
  }

  /** What a user should know of a plan before it runs, or null. */
  public String warning(SplitPlan plan) {
    if (plan.knownShare() >= KNOWN_SHARE_MIN) return null;
    String hosts =
        units.stream()
            .flatMap(unit -> unit.hosts().stream())
            .distinct()
            .sorted()
            .limit(3)
            .collect(Collectors.joining(", "));
    String nodes =
        plan.shape().nodes().stream()
            .map(ClusterShape.Node::host)
            .limit(3)
            .collect(Collectors.joining(", "));
    return "only "
        + Math.round(100 * plan.knownShare())
        + " % of the input lies on nodes of the cluster: the input's hosts are "
        + hosts
        + " ..., the nodes (from "
        + plan.shape().source()
        + ") are "
        + nodes
        + " .... Where these are the same machines under other names, set "
        + Settings.NODES
        + " to the names of the input";
  }

  /**
   * Stores without locality answer localhost: no hint at all, unless a node of the cluster is
   * really called so.
   */
  private List<Unit> withoutLoopback(ClusterShape shape) {
    if (shape.nodes().stream().anyMatch(node -> node.host().equals(LOOPBACK))) return units;
    return units.stream()
        .map(
            unit ->
                !unit.hosts().contains(LOOPBACK)
                    ? unit
                    : unit.withHosts(
                        unit.hosts().stream()
                            .filter(host -> !host.equals(LOOPBACK))
                            .collect(Collectors.toList())))
        .collect(Collectors.toList());
  }
}
