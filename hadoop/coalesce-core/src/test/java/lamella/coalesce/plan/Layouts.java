package lamella.coalesce.plan;

import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;

/** Inputs for the planner's tests. */
final class Layouts {
  static final long MIB = 1L << 20;

  private Layouts() {}

  /**
   * Blocks on distinct hosts chosen at random, as HDFS places a file whose writer is outside the
   * cluster.
   */
  static List<Unit> blocks(int count, long bytes, ClusterShape shape, int replicas, Random random) {
    List<Unit> units = new ArrayList<>(count);
    for (int i = 0; i < count; i++) units.add(new Unit(bytes, hosts(shape, replicas, random)));
    return units;
  }

  static List<String> hosts(ClusterShape shape, int replicas, Random random) {
    Set<String> hosts = new LinkedHashSet<>();
    int want = Math.min(replicas, shape.nodes().size());
    while (hosts.size() < want)
      hosts.add(shape.nodes().get(random.nextInt(shape.nodes().size())).host());
    return new ArrayList<>(hosts);
  }

  /**
   * Anything: mixed sizes, empty files, hosts outside the cluster, no hosts, one node holding
   * everything.
   */
  static List<Unit> wild(ClusterShape shape, Random random) {
    int count = random.nextInt(300);
    int skew = random.nextInt(6);
    int kinds = random.nextInt(3) == 0 ? 1 + random.nextInt(30) : 1;
    List<Unit> units = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      long bytes =
          switch (random.nextInt(4)) {
            case 0 -> 0;
            case 1 -> random.nextInt(1000);
            case 2 ->
                random.nextInt(20) == 0
                    ? random.nextLong(10_000 * MIB)
                    : random.nextLong(256 * MIB);
            default -> random.nextLong(256 * MIB);
          };
      List<String> hosts = new ArrayList<>(hosts(shape, 1 + random.nextInt(4), random));
      if (skew == 1) hosts = List.of();
      if (skew == 2) hosts = List.of(shape.nodes().get(0).host());
      if (skew == 3 && random.nextBoolean()) hosts.add("elsewhere" + random.nextInt(3));
      // All on the last node or two, whose slots are the first to be reserved.
      if (skew == 4) hosts = List.of(shape.nodes().get(shape.nodes().size() - 1).host());
      if (skew == 5)
        hosts =
            List.of(
                shape
                    .nodes()
                    .get(Math.max(0, shape.nodes().size() - 1 - random.nextInt(2)))
                    .host());
      units.add(new Unit(bytes, hosts, random.nextInt(kinds)));
    }
    return units;
  }

  static ClusterShape wildShape(Random random) {
    List<ClusterShape.Node> nodes = new ArrayList<>();
    int count = 1 + random.nextInt(random.nextInt(4) == 0 ? 60 : 12);
    int slotsMax =
        random.nextInt(3) == 0 ? 1 : 12; // one slot each: a reserved one leaves a node none
    for (int i = 0; i < count; i++)
      nodes.add(new ClusterShape.Node("n" + i, 1 + random.nextInt(slotsMax)));
    return new ClusterShape(nodes, random.nextInt(4), "test");
  }

  /**
   * The highest weight a slot when the heaviest units in turn go to the emptiest node, whoever
   * holds them.
   */
  static double highestWithoutLocality(List<Unit> units, int[] slots, long openCostBytes) {
    double[] load = new double[slots.length];
    List<Unit> heaviestFirst = new ArrayList<>(units);
    heaviestFirst.sort((a, b) -> Long.compare(b.bytes(), a.bytes()));
    double highest = 0;
    for (Unit unit : heaviestFirst) {
      int best = -1;
      for (int n = 0; n < slots.length; n++) {
        if (slots[n] > 0 && (best < 0 || load[n] / slots[n] < load[best] / slots[best])) best = n;
      }
      load[best] += Math.max(1, unit.bytes() + openCostBytes);
      highest = Math.max(highest, load[best] / slots[best]);
    }
    return highest;
  }

  static Unit shuffled(Unit unit, Random random) {
    List<String> hosts = new ArrayList<>(unit.hosts());
    Collections.shuffle(hosts, random);
    return unit.withHosts(hosts);
  }
}
