package lamella.coalesce.sim;

import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.lang.management.MemoryType;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Random;
import lamella.coalesce.plan.ClusterShape;
import lamella.coalesce.plan.Policy;
import lamella.coalesce.plan.SplitPlan;
import lamella.coalesce.plan.SplitPlanner;
import lamella.coalesce.plan.Unit;

/**
 * {@code PlanBench [BLOCKS NODES]}: how long planning takes and how much heap it needs, as a
 * Markdown table; by default a million blocks on 3,000 nodes. Two layouts: blocks spread at random,
 * and all of them on a tenth of the nodes.
 */
public final class PlanBench {
  private static final int SLOTS_PER_NODE = 8;
  private static final double SECONDS_MAX = 5;

  private PlanBench() {}

  public static void main(String[] args) {
    if (args.length != 0
        && !(args.length == 2
            && args[0].matches("[1-9][0-9]{0,7}")
            && args[1].matches("[1-9][0-9]{0,4}"))) {
      System.err.println("usage: PlanBench [BLOCKS NODES]");
      System.exit(2);
    }
    int blocks = args.length == 2 ? Integer.parseInt(args[0]) : 1_000_000;
    int nodes = args.length == 2 ? Integer.parseInt(args[1]) : 3_000;
    ClusterShape shape = ClusterShape.uniform(nodes, SLOTS_PER_NODE);
    System.out.printf(
        "%d blocks of 128 MB, 3 replicas, %d nodes of %d slots; a heap of at most %d MiB; first"
            + " calls, cold%n%n",
        blocks, nodes, SLOTS_PER_NODE, Runtime.getRuntime().maxMemory() >> 20);
    System.out.println(
        "| Layout | Scheme | Time | of it on a processor | Heap, most | Splits | Local | Load,"
            + " max/mean |");
    System.out.println("|---|---|---:|---:|---:|---:|---:|---:|");
    boolean met = true;
    for (boolean skewed : new boolean[] {false, true}) {
      List<Unit> units = units(blocks, skewed ? Math.max(3, nodes / 10) : nodes, shape);
      for (Policy.Scheme scheme : Policy.Scheme.values()) {
        System.gc();
        List<MemoryPoolMXBean> heap =
            ManagementFactory.getMemoryPoolMXBeans().stream()
                .filter(pool -> pool.getType() == MemoryType.HEAP)
                .toList();
        heap.forEach(MemoryPoolMXBean::resetPeakUsage);
        long busy = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
        long started = System.nanoTime();
        SplitPlan plan = SplitPlanner.plan(units, shape, Policy.of(scheme));
        double seconds = (System.nanoTime() - started) / 1e9;
        double busySeconds =
            (ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - busy) / 1e9;
        long most = heap.stream().mapToLong(pool -> pool.getPeakUsage().getUsed()).sum();
        System.out.printf(
            "| %s | %s | %.2f s | %.2f s | %d MiB | %d | %.1f %% | %.3f |%n",
            skewed ? "a tenth of the nodes" : "random",
            scheme.name().toLowerCase(Locale.ROOT),
            seconds,
            busySeconds,
            most >> 20,
            plan.splits().size(),
            100 * plan.localShare(),
            plan.loadMaxOverMean());
        met &= seconds < SECONDS_MAX;
      }
    }
    System.out.printf("%neach plan in less than %.0f s: %s%n", SECONDS_MAX, met ? "met" : "MISSED");
    System.exit(met ? 0 : 1);
  }

  private static List<Unit> units(int count, int holders, ClusterShape shape) {
    Random random = new Random(1);
    List<Unit> units = new ArrayList<>(count);
    for (int i = 0; i < count; i++) {
      List<String> hosts = new ArrayList<>(3);
      while (hosts.size() < Math.min(3, holders)) {
        String host = shape.nodes().get(random.nextInt(holders)).host();
        if (!hosts.contains(host)) hosts.add(host);
      }
      units.add(new Unit(128L << 20, hosts));
    }
    return units;
  }
}
