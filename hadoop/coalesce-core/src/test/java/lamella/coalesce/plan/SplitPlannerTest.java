package lamella.coalesce.plan;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** The dissertation's examples and the layouts that break planners. */
class SplitPlannerTest {
  private static final long BLOCK = 128 * Layouts.MIB;

  /** Its cluster: 32 nodes of 8 slots, 250 GB in blocks of 128 MB, 3 replicas. */
  private static final ClusterShape PAPER = ClusterShape.uniform(32, 8);

  /** As the dissertation: as large as a slot's part, and however little. */
  private static Policy unlimited(Policy policy) {
    return policy.withSplitBytes(0, 1L << 40);
  }

  private static List<Unit> paper(long seed) {
    return Layouts.blocks(2000, BLOCK, PAPER, 3, new Random(seed));
  }

  @Test
  void assortedSizesAreAlgorithm1s() {
    // Every block is on every node, so nothing but the algorithm limits the sizes: 8 slots, max 8
    // blocks.
    ClusterShape shape = ClusterShape.uniform(4, 8);
    SplitPlan plan =
        SplitPlanner.plan(
            Layouts.blocks(4 * 64, BLOCK, shape, 4, new Random(1)),
            shape,
            Policy.of(Policy.Scheme.ASSORTED));
    // Per node: 4 slots x 1 split of 8, 2 slots x 2 of 4, 1 slot x 4 of 2, and 8 blocks left alone.
    assertEquals(Map.of(8, 4 * 4, 4, 4 * 4, 2, 4 * 4, 1, 4 * 8), plan.splitsByUnitCount());
  }

  @Test
  void assortedFollowsRatioAndShare() {
    ClusterShape shape = ClusterShape.uniform(1, 8);
    List<Unit> units = Layouts.blocks(72, BLOCK, shape, 1, new Random(1));
    // max 9; a quarter of the slots each: 2, 1 (of 6), 1 (of 5), 1 (of 4), 0 (of 3); sizes 9, 3,
    // then 1 is below 2.
    SplitPlan plan = SplitPlanner.plan(units, shape, unlimited(Policy.assorted(1.0 / 3, 0.25)));
    assertEquals(Map.of(9, 2, 3, 3, 1, 72 - 18 - 9), plan.splitsByUnitCount());
  }

  @Test
  void assortedWithLessThanTwoBlocksPerSlotLeavesAllSingle() {
    ClusterShape shape = ClusterShape.uniform(4, 8);
    SplitPlan plan =
        SplitPlanner.plan(
            Layouts.blocks(63, BLOCK, shape, 3, new Random(1)),
            shape,
            Policy.of(Policy.Scheme.ASSORTED));
    assertEquals(Map.of(1, 63), plan.splitsByUnitCount());
  }

  @Test
  void nodesWithFewerBlocksChooseFirst() {
    // poor holds 8 blocks, all of them on rich as well, which holds 16. One slot each of size 8 (16
    // blocks, 2 x 2 slots
    // with the share 1/2 -> max 4: two splits of 4 are made). If rich chose first it would take
    // poor's blocks, for they
    // come first in the file.
    List<Unit> units = new ArrayList<>();
    for (int i = 0; i < 4; i++) units.add(new Unit(BLOCK, List.of("poor", "rich")));
    for (int i = 0; i < 12; i++) units.add(new Unit(BLOCK, List.of("rich")));
    for (List<String> names : List.of(List.of("poor", "rich"), List.of("rich", "poor"))) {
      ClusterShape shape =
          new ClusterShape(
              names.stream().map(name -> new ClusterShape.Node(name, 2)).toList(), 0, "test");
      SplitPlan plan =
          SplitPlanner.plan(units, shape, unlimited(Policy.of(Policy.Scheme.ASSORTED)));
      List<SplitPlan.Split> big =
          plan.splits().stream().filter(split -> split.unitCount() == 4).toList();
      assertEquals(2, big.size());
      SplitPlan.Split poor =
          big.stream().filter(split -> split.node().equals("poor")).findFirst().orElseThrow();
      assertArrayEquals(new int[] {0, 1, 2, 3}, poor.units());
      assertTrue(big.stream().allMatch(split -> split.bytesLocal() == split.bytes()));
    }
  }

  @Test
  void aNodeThatCannotFillNinetyPercentGoesOnToTheNextSize() {
    // max = 40 blocks / (2 nodes x 2 slots) = 10. "few" holds 8 of them: too few for 10 with a
    // tenth remote; half of it fits.
    List<Unit> units = new ArrayList<>();
    for (int i = 0; i < 8; i++) units.add(new Unit(BLOCK, List.of("few")));
    for (int i = 0; i < 32; i++) units.add(new Unit(BLOCK, List.of("many")));
    ClusterShape shape =
        new ClusterShape(
            List.of(new ClusterShape.Node("few", 4), new ClusterShape.Node("many", 4)),
            4,
            "test"); // 2 slots of each are left
    SplitPlan plan = SplitPlanner.plan(units, shape, unlimited(Policy.of(Policy.Scheme.ASSORTED)));
    List<SplitPlan.Split> ofFew =
        plan.splits().stream()
            .filter(split -> split.node().equals("few") && split.unitCount() > 1)
            .toList();
    assertTrue(
        ofFew.stream().allMatch(split -> split.unitCount() <= 5), "a split of 10 from 8 blocks");

    units.set(39, new Unit(BLOCK, List.of("few"))); // 9 of 40: now one remote block makes it ten
    plan = SplitPlanner.plan(units, shape, unlimited(Policy.of(Policy.Scheme.ASSORTED)));
    SplitPlan.Split filled =
        plan.splits().stream()
            .filter(split -> split.node().equals("few") && split.unitCount() == 10)
            .findFirst()
            .orElseThrow();
    assertEquals(9 * BLOCK, filled.bytesLocal());
  }

  @Test
  void maximumMakesOneEqualSplitPerSlot() {
    SplitPlan plan = SplitPlanner.plan(paper(1), PAPER, Policy.of(Policy.Scheme.MAXIMUM));
    assertEquals(256, plan.splits().size());
    assertEquals(1.0, plan.waves());
    assertTrue(
        plan.splitsByUnitCount().keySet().stream().allMatch(n -> n == 7 || n == 8),
        plan.splitsByUnitCount().toString());
  }

  @ParameterizedTest
  @EnumSource(Policy.Scheme.class)
  void onThePapersLayoutEverySchemeIsLocalAndEven(Policy.Scheme scheme) {
    for (long seed = 0; seed < 20; seed++) {
      SplitPlan plan = SplitPlanner.plan(paper(seed), PAPER, Policy.of(scheme));
      assertTrue(plan.localShare() >= 0.9, "seed " + seed + ": " + plan.localShare() + " local");
      assertTrue(
          plan.loadMaxOverMean() <= 1.1,
          "seed " + seed + ": load max/mean " + plan.loadMaxOverMean());
    }
  }

  @Test
  void reservedSlotsLeaveRoomForOneWave() {
    ClusterShape shape =
        new ClusterShape(
            List.of(
                new ClusterShape.Node("a", 2),
                new ClusterShape.Node("b", 2),
                new ClusterShape.Node("c", 2)),
            1,
            "test");
    assertEquals(5, shape.slots());
    SplitPlan plan =
        SplitPlanner.plan(
            Layouts.blocks(96, Layouts.MIB, shape, 2, new Random(1)),
            shape,
            Policy.of(Policy.Scheme.MAXIMUM));
    assertEquals(5, plan.splits().size());
    assertTrue(plan.localShare() >= 0.9);
  }

  @Test
  void maximumKeepsEvenLoadsWhereOneNodeWroteEverything() {
    ClusterShape shape = ClusterShape.uniform(16, 4);
    Random random = new Random(3);
    List<Unit> units = new ArrayList<>();
    for (int i = 0; i < 640; i++) {
      List<String> hosts = new ArrayList<>(Layouts.hosts(shape, 2, random));
      hosts.add("node0000");
      units.add(new Unit(BLOCK, hosts));
    }
    SplitPlan plan = SplitPlanner.plan(units, shape, Policy.of(Policy.Scheme.MAXIMUM));
    assertEquals(1.0, plan.localShare());
    assertTrue(plan.loadMaxOverMean() <= 1.01, "" + plan.loadMaxOverMean());
  }

  @Test
  void maximumHandsBlocksOnFromHomeToHome() {
    // a holds everything; b shares some with a, c only some with b: c is filled through b.
    List<Unit> units = new ArrayList<>();
    for (int i = 0; i < 4; i++) units.add(new Unit(BLOCK, List.of("b", "c")));
    for (int i = 0; i < 6; i++) units.add(new Unit(BLOCK, List.of("a", "b")));
    for (int i = 0; i < 2; i++) units.add(new Unit(BLOCK, List.of("a")));
    ClusterShape shape =
        new ClusterShape(
            List.of(
                new ClusterShape.Node("a", 1),
                new ClusterShape.Node("b", 1),
                new ClusterShape.Node("c", 1)),
            0,
            "test");
    SplitPlan plan = SplitPlanner.plan(units, shape, Policy.of(Policy.Scheme.MAXIMUM));
    assertEquals(Map.of(4, 3), plan.splitsByUnitCount());
    assertEquals(1.0, plan.localShare());
  }

  @Test
  void smallFilesPackByBytesAndOpenCost() {
    ClusterShape shape = ClusterShape.uniform(4, 2);
    Random random = new Random(5);
    List<Unit> units = new ArrayList<>(Layouts.blocks(64, BLOCK, shape, 3, random));
    units.addAll(Layouts.blocks(4000, 1000, shape, 3, random));
    SplitPlan plan = SplitPlanner.plan(units, shape, unlimited(Policy.of(Policy.Scheme.MAXIMUM)));
    assertEquals(8, plan.splits().size());
    long mean = (64 * BLOCK + 4000 * 1000L + 4064 * Policy.OPEN_COST_BYTES) / 8;
    for (SplitPlan.Split split : plan.splits()) {
      long weight = split.bytes() + split.unitCount() * Policy.OPEN_COST_BYTES;
      assertTrue(weight > 0.9 * mean && weight < 1.1 * mean, weight + " beside a mean of " + mean);
    }
  }

  @ParameterizedTest
  @EnumSource(Policy.Scheme.class)
  void withoutHostsLoadIsBalancedBySizeAndNothingIsHinted(Policy.Scheme scheme) {
    List<Unit> units = Collections.nCopies(2000, new Unit(BLOCK, List.of()));
    SplitPlan plan = SplitPlanner.plan(units, PAPER, Policy.of(scheme));
    assertTrue(plan.loadMaxOverMean() <= 1.1, "" + plan.loadMaxOverMean());
    assertTrue(plan.splits().stream().allMatch(split -> split.hosts().isEmpty()));
    if (scheme == Policy.Scheme.MAXIMUM) {
      for (SplitPlan.Split split :
          plan.splits()) { // runs of neighbours: one range each for an object store
        assertEquals(
            split.unitCount() - 1, split.units()[split.unitCount() - 1] - split.units()[0]);
      }
    }
  }

  @ParameterizedTest
  @EnumSource(Policy.Scheme.class)
  void nothingGivesNothing(Policy.Scheme scheme) {
    assertEquals(0, SplitPlanner.plan(List.of(), PAPER, Policy.of(scheme)).splits().size());
  }

  @Test
  void shapesAndPoliciesRefuseNonsense() {
    assertThrows(IllegalArgumentException.class, () -> new ClusterShape(List.of(), 0, "test"));
    assertThrows(IllegalArgumentException.class, () -> new ClusterShape.Node("a", 0));
    assertThrows(IllegalArgumentException.class, () -> Policy.assorted(1, 0.5));
    assertThrows(IllegalArgumentException.class, () -> Policy.assorted(0.5, 0));
    assertThrows(IllegalArgumentException.class, () -> Policy.assorted(Double.NaN, 0.5));
    assertThrows(IllegalArgumentException.class, () -> Policy.fixed(0));
    assertThrows(IllegalArgumentException.class, () -> new Unit(-1, List.of()));
  }

  @Test
  void aHeavyUnitOnANodeWhoseSlotIsReservedGoesElsewhere() {
    List<ClusterShape.Node> nodes = new ArrayList<>();
    for (int i = 0; i < 4; i++) nodes.add(new ClusterShape.Node("n" + i, 1));
    ClusterShape shape = new ClusterShape(nodes, 1, "test");
    assertEquals(0, shape.slotsPerNode()[3]);
    List<Unit> units = new ArrayList<>(Layouts.blocks(8, BLOCK, shape, 2, new Random(1)));
    units.add(new Unit(10L << 30, List.of("n3")));
    for (Policy.Scheme scheme : Policy.Scheme.values()) {
      SplitPlan plan = SplitPlanner.plan(units, shape, Policy.of(scheme));
      assertTrue(
          plan.splits().stream().noneMatch(split -> split.node().equals("n3")), scheme.toString());
    }
  }

  @ParameterizedTest
  @EnumSource(Policy.Scheme.class)
  void blocksOnAFewOfManyNodesAreSpreadEvenly(Policy.Scheme scheme) {
    ClusterShape shape = ClusterShape.uniform(100, 1);
    List<Unit> units = new ArrayList<>();
    for (int i = 0; i < 1040; i++)
      units.add(new Unit(BLOCK, List.of("node0000", "node0001", "node0002")));
    SplitPlan plan = SplitPlanner.plan(units, shape, Policy.of(scheme).withSplitBytes(0, 1L << 40));
    assertTrue(plan.loadMaxOverMean() <= 1.2, "load max/mean " + plan.loadMaxOverMean());
  }

  @ParameterizedTest
  @EnumSource(
      value = Policy.Scheme.class,
      names = {"MAXIMUM", "ASSORTED"})
  void tenThousandSmallFilesAreAFewSplits(Policy.Scheme scheme) {
    ClusterShape shape = new ClusterShape(ClusterShape.uniform(3, 4).nodes(), 1, "test");
    SplitPlan plan =
        SplitPlanner.plan(
            Layouts.blocks(10_000, 10_000, shape, 2, new Random(1)), shape, Policy.of(scheme));
    assertTrue(
        plan.splits().size() <= (scheme == Policy.Scheme.MAXIMUM ? 11 : 24),
        plan.splits().size() + " splits");
    assertTrue(plan.localShare() >= 0.9);
  }

  @Test
  void tooLittleForAllSlotsMakesFewerSplitsWhereTheDataIs() {
    ClusterShape shape = ClusterShape.uniform(32, 8);
    List<Unit> units = new ArrayList<>();
    for (int i = 0; i < 400; i++) units.add(new Unit(1 << 20, List.of("node0007", "node0013")));
    SplitPlan plan =
        SplitPlanner.plan(
            units,
            shape,
            Policy.of(Policy.Scheme.MAXIMUM)
                .withOpenCostBytes(0)
                .withSplitBytes(100 << 20, 1 << 30));
    assertEquals(4, plan.splits().size());
    assertTrue(
        SplitPlanner.plan(units, shape, Policy.of(Policy.Scheme.MAXIMUM).withSplitBytes(0, 1 << 30))
                .splits()
                .size()
            > 100);
  }

  @Test
  void moreThanTheMostMakesFullWaves() {
    ClusterShape shape = ClusterShape.uniform(4, 2);
    List<Unit> units =
        Layouts.blocks(160, BLOCK, shape, 3, new Random(1)); // 20 GiB on 8 slots of 1 GiB
    SplitPlan plan = SplitPlanner.plan(units, shape, Policy.of(Policy.Scheme.MAXIMUM));
    assertEquals(24, plan.splits().size());
    assertTrue(plan.splits().stream().allMatch(split -> split.bytes() <= 1L << 30));
    plan = SplitPlanner.plan(units, shape, Policy.of(Policy.Scheme.ASSORTED));
    assertTrue(plan.splits().stream().allMatch(split -> split.bytes() <= 1L << 30));
    assertTrue(
        plan.splitsByUnitCount().keySet().iterator().next() >= 6,
        plan.splitsByUnitCount().toString());
  }

  @Test
  void filesThatAreKeptApartStillFillTheSlots() {
    ClusterShape shape = ClusterShape.uniform(4, 2);
    List<Unit> units = new ArrayList<>();
    for (int file = 0; file < 3; file++) {
      for (Unit block : Layouts.blocks(file == 0 ? 36 : 11, BLOCK, shape, 3, new Random(file))) {
        units.add(new Unit(block.bytes(), block.hosts(), file));
      }
    }
    SplitPlan plan = SplitPlanner.plan(units, shape, Policy.of(Policy.Scheme.MAXIMUM));
    assertTrue(
        plan.splits().size() <= 9,
        plan.splits().size() + " splits"); // 36 blocks of 128 MB in five GiB, 11 in two
    assertTrue(plan.localShare() >= 0.7, plan.localShare() + " local");
    // More files than slots: each its own split, where it is.
    units.clear();
    for (int file = 0; file < 20; file++) {
      List<String> hosts = Layouts.hosts(shape, 2, new Random(file));
      for (int block = 0; block < 4; block++) units.add(new Unit(BLOCK, hosts, file));
    }
    plan = SplitPlanner.plan(units, shape, Policy.of(Policy.Scheme.MAXIMUM));
    assertEquals(Map.of(4, 20), plan.splitsByUnitCount());
    assertTrue(plan.localShare() >= 0.7, plan.localShare() + " local");
  }

  @ParameterizedTest
  @EnumSource(Policy.Scheme.class)
  void emptyFilesArePlannedWhateverTheMost(Policy.Scheme scheme) {
    for (int kinds = 1; kinds <= 3; kinds++) {
      List<Unit> units = new ArrayList<>();
      for (int i = 0; i < 9; i++) units.add(new Unit(0, List.of(), i % kinds));
      Policy policy = Policy.of(scheme).withSplitBytes(0, 1);
      SplitPlan plan = SplitPlanner.plan(units, ClusterShape.uniform(1, 1), policy);
      assertEquals(9, plan.splits().stream().mapToInt(SplitPlan.Split::unitCount).sum());
    }
  }

  @Test
  void lengthsThatAFormatMadeUpAreSurvived() {
    List<Unit> units = Collections.nCopies(1000, new Unit(Long.MAX_VALUE, List.of()));
    for (Policy.Scheme scheme : Policy.Scheme.values()) {
      SplitPlan plan = SplitPlanner.plan(units, PAPER, Policy.of(scheme));
      assertTrue(plan.bytes() > 0);
      assertTrue(plan.loadMaxOverMean() <= 1.2, scheme + ": " + plan.loadMaxOverMean());
    }
  }

  @ParameterizedTest
  @EnumSource(Policy.Scheme.class)
  void aLargeJobIsPlannedEvenlyAndLocally(Policy.Scheme scheme) {
    ClusterShape shape = ClusterShape.uniform(1000, 8);
    SplitPlan plan =
        SplitPlanner.plan(
            Layouts.blocks(100_000, BLOCK, shape, 3, new Random(7)), shape, Policy.of(scheme));
    assertTrue(plan.localShare() >= 0.9);
    assertTrue(plan.loadMaxOverMean() <= 1.1);
  }
}
