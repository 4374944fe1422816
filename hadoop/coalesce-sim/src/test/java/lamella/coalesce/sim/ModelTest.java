package lamella.coalesce.sim;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

/**
 * The model's own invariants; what it says of the dissertation's claims is its output, not a test.
 */
class ModelTest {
  private static final App EVEN = new App("even", 10, 1, 0, 1, 0, 0);

  @Test
  void slotsAreNeverExceeded() {
    Model model =
        Scenarios.together(
            Scenarios.tenJobs(), Scenarios.Splitting.ASSORTED, Model.Sharing.FAIR, 3);
    for (int node = 0; node < Constants.NODES; node++) {
      List<double[]> changes = new ArrayList<>();
      for (Model.Span span : model.spans) {
        if (span.node() != node) continue;
        changes.add(new double[] {span.start(), 1});
        changes.add(new double[] {span.end(), -1});
      }
      changes.sort(
          (a, b) -> a[0] != b[0] ? Double.compare(a[0], b[0]) : Double.compare(a[1], b[1]));
      int running = 0;
      for (double[] change : changes) {
        running += (int) change[1];
        assertTrue(
            running <= Constants.SLOTS_PER_NODE, "D1: " + running + " containers on node " + node);
      }
    }
  }

  @Test
  void everyMapRunsOnceAndAllBytesAreShuffled() {
    Model model = Scenarios.alone(App.SORT, 128, Scenarios.Splitting.DEFAULT, 1);
    assertEquals(2000, Splitter.file(250, 128, new Random(1)).size());
    assertEquals(model.jobs.get(0).mapCount, model.spans.stream().filter(Model.Span::map).count());
    assertEquals(
        model.jobs.get(0).mapCount * 128.0, model.shuffle.get(model.shuffle.size() - 1).mb(), 1);
  }

  @Test
  void theSameSeedGivesTheSameTimes() {
    double a =
        Scenarios.alone(App.GREP, 128, Scenarios.Splitting.ASSORTED, 7).jobs.get(0).seconds();
    assertEquals(
        a, Scenarios.alone(App.GREP, 128, Scenarios.Splitting.ASSORTED, 7).jobs.get(0).seconds());
  }

  @Test
  void oneMapTakesItsStartAndItsBlocks() {
    Model model = new Model(Model.Sharing.FIFO, 1);
    int[] everywhere = new int[Constants.NODES];
    for (int n = 0; n < everywhere.length; n++) everywhere[n] = n;
    boolean[] preferred = new boolean[Constants.NODES];
    java.util.Arrays.fill(preferred, true);
    model.submit(
        EVEN,
        0,
        List.of(
            new Splitter.Split(
                new double[] {128, 128}, new int[][] {everywhere, everywhere}, preferred)));
    model.run();
    Model.Span map = model.spans.stream().filter(Model.Span::map).findFirst().orElseThrow();
    double start = Constants.SCHEDULING_S - Constants.HEARTBEAT_S / 2 + Constants.CONTAINER_START_S;
    assertEquals(start + 20, map.end() - map.start(), 0.01);
  }

  @Test
  void fairSharingLetsTheSecondJobRunBesideTheFirst() {
    List<Scenarios.JobSpec> jobs =
        List.of(new Scenarios.JobSpec(EVEN, 64, 0), new Scenarios.JobSpec(EVEN, 64, 0));
    Model fair = Scenarios.together(jobs, Scenarios.Splitting.DEFAULT, Model.Sharing.FAIR, 1);
    Model fifo = Scenarios.together(jobs, Scenarios.Splitting.DEFAULT, Model.Sharing.FIFO, 1);
    assertTrue(fifo.jobs.get(0).seconds() < fair.jobs.get(0).seconds());
    assertTrue(
        Math.abs(fair.jobs.get(0).seconds() - fair.jobs.get(1).seconds())
            < 0.2 * fair.jobs.get(0).seconds());
  }

  @Test
  void maximumIsOneWaveInTheModelToo() {
    Model model = Scenarios.alone(App.GREP, 128, Scenarios.Splitting.MAXIMUM, 1);
    double firstEnd =
        model.spans.stream()
            .filter(Model.Span::map)
            .mapToDouble(Model.Span::end)
            .min()
            .orElseThrow();
    assertTrue(
        model.spans.stream().filter(Model.Span::map).allMatch(span -> span.start() < firstEnd));
  }
}
