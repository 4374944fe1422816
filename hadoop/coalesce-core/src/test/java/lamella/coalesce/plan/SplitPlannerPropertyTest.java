package lamella.coalesce.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;

/**
 * Properties that hold for any input. Each failure names its seed; -Dseed=N runs that one alone.
 */
class SplitPlannerPropertyTest {
  private static final int RUNS = 400;

  private record Case(ClusterShape shape, List<Unit> units, Policy policy, Random random) {
    SplitPlan plan() {
      return SplitPlanner.plan(units, shape, policy);
    }
  }

  private static void forAny(Consumer<Case> claim) {
    Long only = Long.getLong("seed");
    for (long seed = only != null ? only : 0; seed < (only != null ? only + 1 : RUNS); seed++) {
      Random random = new Random(seed);
      ClusterShape shape = Layouts.wildShape(random);
      List<Unit> units = Layouts.wild(shape, random);
      for (Policy.Scheme scheme : Policy.Scheme.values()) {
        long least = random.nextBoolean() ? 0 : random.nextLong(64 * Layouts.MIB);
        long most =
            random.nextInt(4) == 0 ? least + 1 + random.nextLong(512 * Layouts.MIB) : 1L << 40;
        Policy policy =
            Policy.of(scheme)
                .withOpenCostBytes(random.nextInt(3) * 4 * Layouts.MIB)
                .withSplitBytes(least, most)
                .withAssorted(
                    0.1 + 0.8 * random.nextDouble(),
                    0.1 + 0.8 * random.nextDouble(),
                    0.05 + 0.5 * random.nextDouble())
                .withFixedUnits(1 + random.nextInt(20));
        try {
          claim.accept(new Case(shape, units, policy, random));
        } catch (AssertionError | RuntimeException e) {
          throw new AssertionError("seed " + seed + ", " + policy + ": " + e.getMessage(), e);
        }
      }
    }
  }

  @Test
  void everyUnitIsInExactlyOneSplit() {
    forAny(
        c -> {
          int[] seen = new int[c.units().size()];
          for (SplitPlan.Split split : c.plan().splits()) {
            long bytes = 0;
            for (int u : split.units()) {
              seen[u]++;
              bytes += c.units().get(u).bytes();
            }
            assertEquals(bytes, split.bytes());
            assertTrue(split.unitCount() > 0, "an empty split");
          }
          for (int u = 0; u < seen.length; u++) assertEquals(1, seen[u], "unit " + u);
        });
  }

  @Test
  void thePlanDoesNotDependOnTheOrderOfReplicas() {
    forAny(
        c -> {
          List<Unit> shuffled = new ArrayList<>();
          for (Unit unit : c.units()) shuffled.add(Layouts.shuffled(unit, c.random()));
          assertEquals(text(c.plan()), text(SplitPlanner.plan(shuffled, c.shape(), c.policy())));
        });
  }

  @Test
  void largestSplitsComeFirst() {
    forAny(
        c -> {
          long before = Long.MAX_VALUE / 2;
          for (SplitPlan.Split split : c.plan().splits()) {
            long weight = 0;
            for (int u : split.units())
              weight += Math.max(1, c.units().get(u).bytes() + c.policy().openCostBytes());
            assertTrue(weight <= before, "a split of weight " + weight + " after one of " + before);
            before = weight;
          }
        });
  }

  @Test
  void maximumMakesAtMostOneWave() {
    forAny(
        c -> {
          if (c.policy().scheme() != Policy.Scheme.MAXIMUM || c.units().isEmpty()) return;
          if (c.policy().splitBytesMax() < 1L << 40) return;
          long kinds = c.units().stream().map(Unit::kind).distinct().count();
          SplitPlan plan = c.plan();
          assertTrue(
              plan.splits().size() <= Math.max(kinds, c.shape().slots()),
              plan.splits().size() + " splits");
        });
  }

  @Test
  void assortedSplitsAreAtMostAsRemoteAsAllowed() {
    forAny(
        c -> {
          if (c.policy().scheme() != Policy.Scheme.ASSORTED) return;
          if (c.units().stream().map(Unit::kind).distinct().count() > 1)
            return; // splits are cut where kinds meet
          for (SplitPlan.Split split : c.plan().splits()) {
            if (split.unitCount() == 1 || c.policy().splitBytesMin() > 0)
              continue; // what A4 packs is promised less
            double weight = 0;
            double remote = 0;
            for (int u : split.units()) {
              Unit unit = c.units().get(u);
              double w = Math.max(1, unit.bytes() + c.policy().openCostBytes());
              weight += w;
              boolean placed =
                  c.shape().nodes().stream().anyMatch(node -> unit.hosts().contains(node.host()));
              if (placed && !unit.hosts().contains(split.node())) remote += w;
            }
            assertTrue(
                remote <= c.policy().remoteShareMax() * weight * (1 + 1e-9),
                remote + " of " + weight + " is remote");
          }
        });
  }

  @Test
  void fixedSplitsHaveTheSameNumberOfUnits() {
    forAny(
        c -> {
          if (c.policy().scheme() != Policy.Scheme.FIXED) return;
          int n = c.policy().fixedUnits();
          long kinds = c.units().stream().map(Unit::kind).distinct().count();
          long short_ = c.plan().splits().stream().filter(split -> split.unitCount() != n).count();
          assertTrue(
              short_ <= c.shape().nodes().size() * kinds, short_ + " splits of another size");
          assertTrue(c.plan().splits().stream().allMatch(split -> split.unitCount() <= n));
        });
  }

  @Test
  void unitsOfDifferentKindsNeverShareASplit() {
    forAny(
        c -> {
          for (SplitPlan.Split split : c.plan().splits()) {
            assertEquals(
                1,
                Arrays.stream(split.units()).map(u -> c.units().get(u).kind()).distinct().count());
          }
        });
  }

  @Test
  void noSplitOfSeveralUnitsHasMoreBytesThanAllowed() {
    forAny(
        c -> {
          if (c.policy().scheme() == Policy.Scheme.FIXED) return;
          for (SplitPlan.Split split : c.plan().splits()) {
            assertTrue(
                split.unitCount() == 1 || split.bytes() <= c.policy().splitBytesMax(),
                split.bytes() + " bytes");
          }
        });
  }

  /**
   * Loads within 1.2 of the mean, or no higher than where locality does not matter; a node without
   * slots gets nothing.
   */
  @Test
  void loadIsEvenWhereItCanBe() {
    forAny(
        c -> {
          boolean oneKind = c.units().stream().map(Unit::kind).distinct().count() <= 1;
          if (c.policy().scheme() == Policy.Scheme.ASSORTED || !oneKind) return;
          Policy policy = c.policy().withSplitBytes(0, 1L << 40);
          SplitPlan plan = SplitPlanner.plan(c.units(), c.shape(), policy);
          int[] slots = c.shape().slotsPerNode();
          double[] load = new double[slots.length];
          List<String> hosts = c.shape().nodes().stream().map(ClusterShape.Node::host).toList();
          double total = 0;
          for (SplitPlan.Split split : plan.splits()) {
            for (int u : split.units()) {
              double weight = Math.max(1, c.units().get(u).bytes() + policy.openCostBytes());
              total += weight;
              load[hosts.indexOf(split.node())] += weight;
            }
          }
          double mean = total / c.shape().slots();
          double highest = 0;
          for (int n = 0; n < slots.length; n++) {
            if (slots[n] == 0) assertEquals(0, load[n], "load on a node without slots");
            if (slots[n] > 0) highest = Math.max(highest, load[n] / slots[n]);
          }
          double anywhere =
              Layouts.highestWithoutLocality(c.units(), slots, policy.openCostBytes());
          assertTrue(
              highest <= Math.max(1.2 * mean, anywhere) * (1 + 1e-9),
              "load max/mean " + highest / mean + " where " + anywhere / mean + " is possible");
        });
  }

  @Test
  void hintsNameHostsThatHoldSomethingOfTheSplit() {
    forAny(
        c -> {
          for (SplitPlan.Split split : c.plan().splits()) {
            if (split.unitCount() > 1)
              assertTrue(split.hosts().size() <= 1, "several hosts for a coalesced split");
            for (String host : split.hosts()) {
              assertTrue(
                  Arrays.stream(split.units())
                      .anyMatch(u -> c.units().get(u).hosts().contains(host)),
                  host);
            }
          }
        });
  }

  static String text(SplitPlan plan) {
    StringBuilder text = new StringBuilder();
    for (SplitPlan.Split split : plan.splits()) {
      text.append(Arrays.toString(split.units()))
          .append(split.node())
          .append(split.hosts())
          .append('\n');
    }
    return text.toString();
  }
}
