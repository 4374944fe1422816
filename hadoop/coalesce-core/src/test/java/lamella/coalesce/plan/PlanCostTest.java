package lamella.coalesce.plan;

import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * What planning costs, in steps and in bytes allocated: neither depends on who else uses the
 * machine. PlanBench measures seconds.
 */
class PlanCostTest {
  private static final int SLOTS_PER_NODE = 8;
  private static final int BLOCKS_PER_NODE = 333; // a million on 3,000
  private static final double STEPS_PER_UNIT_MAX = 12;
  private static final long BYTES_PER_UNIT_MAX =
      500; // with nothing of it freed, half a gigabyte for a million

  private enum Spread {
    RANDOM,
    /** All on a tenth of the nodes. */
    SKEWED,
    /** Of 1 to 256 MiB, at random. */
    UNEVEN;

    List<Unit> blocks(ClusterShape shape) {
      Random random = new Random(1);
      int holders = this == SKEWED ? shape.nodes().size() / 10 : shape.nodes().size();
      ClusterShape held = new ClusterShape(shape.nodes().subList(0, holders), 0, "test");
      List<Unit> units = new ArrayList<>();
      for (int i = shape.nodes().size() * BLOCKS_PER_NODE; i > 0; i--) {
        long mib = this == UNEVEN ? 1 + random.nextInt(256) : 128;
        units.add(new Unit(mib * Layouts.MIB, Layouts.hosts(held, 3, random)));
      }
      return units;
    }
  }

  private static double stepsPerUnit(int nodes, Policy policy, Spread spread) {
    ClusterShape shape = ClusterShape.uniform(nodes, SLOTS_PER_NODE);
    List<Unit> units = spread.blocks(shape);
    Layout layout = new Layout(units, shape, policy);
    SplitPlanner.groups(layout, policy);
    return (double) layout.steps / units.size();
  }

  /** A unit costs about as much on four times as many nodes with four times as many units. */
  @ParameterizedTest
  @EnumSource(Policy.Scheme.class)
  void stepsGrowWithTheUnits(Policy.Scheme scheme) {
    for (Spread spread : Spread.values()) {
      double few = stepsPerUnit(60, Policy.of(scheme), spread);
      double many = stepsPerUnit(240, Policy.of(scheme), spread);
      assertTrue(
          many <= 1.25 * few && many <= STEPS_PER_UNIT_MAX,
          scheme + ", " + spread + ": " + few + " steps a unit on 60 nodes, " + many + " on 240");
    }
  }

  @ParameterizedTest
  @EnumSource(Policy.Scheme.class)
  void aUnitTakesFewBytes(Policy.Scheme scheme) {
    ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
    ClusterShape shape = ClusterShape.uniform(240, SLOTS_PER_NODE);
    for (Spread spread : Spread.values()) {
      List<Unit> units = spread.blocks(shape);
      long before = threads.getThreadAllocatedBytes(Thread.currentThread().getId());
      SplitPlanner.plan(units, shape, Policy.of(scheme));
      long allocated = threads.getThreadAllocatedBytes(Thread.currentThread().getId()) - before;
      long each = allocated / units.size();
      assertTrue(
          each <= BYTES_PER_UNIT_MAX, scheme + ", " + spread + ": " + each + " bytes a unit");
    }
  }
}
