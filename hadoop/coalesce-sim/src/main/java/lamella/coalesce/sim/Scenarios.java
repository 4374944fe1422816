package lamella.coalesce.sim;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import lamella.coalesce.plan.Policy;
import lamella.coalesce.plan.Unit;

/**
 * The dissertation's experiments on the model. Each takes a seed: of block placement, of disks and
 * of the blocks' work.
 */
final class Scenarios {
  static final double GB = 250;

  /**
   * How a job's input is split; COMBINE is Hadoop's CombineFileInputFormat told the size that gives
   * one split a slot.
   */
  enum Splitting {
    DEFAULT,
    COMBINE,
    MAXIMUM,
    ASSORTED
  }

  record JobSpec(App app, double gb, double submitted) {}

  private Scenarios() {}

  static List<Splitter.Split> splits(List<Unit> units, Splitting splitting) {
    return switch (splitting) {
      case DEFAULT -> Splitter.split(units, Policy.of(Policy.Scheme.NONE));
      case MAXIMUM -> Splitter.split(units, Policy.of(Policy.Scheme.MAXIMUM));
      case ASSORTED -> Splitter.split(units, Policy.of(Policy.Scheme.ASSORTED));
      case COMBINE -> {
        long bytes = units.stream().mapToLong(Unit::bytes).sum();
        long slots = Splitter.SHAPE.slots();
        yield Splitter.combine(units, (bytes + slots - 1) / slots);
      }
    };
  }

  /** One job over 250 GB alone on the cluster. */
  static Model alone(App app, double blockMb, Splitting splitting, long seed) {
    return run(
        Model.Sharing.FIFO,
        seed,
        app,
        splits(Splitter.file(GB, blockMb, new Random(seed)), splitting));
  }

  /**
   * As alone with assorted splits, but offered in random order. Hadoop's client sorts splits by
   * size, so this cannot be had without changing it; it shows what the order does.
   */
  static Model aloneMixed(App app, long seed) {
    List<Splitter.Split> mixed =
        new ArrayList<>(
            splits(Splitter.file(GB, Constants.BLOCK_MB, new Random(seed)), Splitting.ASSORTED));
    java.util.Collections.shuffle(mixed, new Random(seed));
    return run(Model.Sharing.FIFO, seed, app, mixed);
  }

  /**
   * Figures 6 and 7: {@code slots} of each node's eight get a split of maximum size, all other
   * blocks stay alone.
   */
  static Model withMaximumSplits(App app, int slots, long seed) {
    List<Unit> units = Splitter.file(GB, Constants.BLOCK_MB, new Random(seed));
    Policy policy =
        switch (slots) {
          case 0 -> Policy.of(Policy.Scheme.NONE);
          case Constants.SLOTS_PER_NODE -> Policy.of(Policy.Scheme.MAXIMUM);
            // The first size gets this share of the slots; the next is so small that there is none.
          default -> Policy.assorted(0.01, (double) slots / Constants.SLOTS_PER_NODE);
        };
    return run(Model.Sharing.FIFO, seed, app, Splitter.split(units, policy));
  }

  private static Model run(Model.Sharing sharing, long seed, App app, List<Splitter.Split> splits) {
    Model model = new Model(sharing, seed);
    model.submit(app, 0, splits);
    model.run();
    return model;
  }

  /**
   * Figure 8: four WordCount over 64 GB, five Grep over 250 GB, one Sort over 64 GB, each its own
   * file, all at once.
   */
  static List<JobSpec> tenJobs() {
    List<JobSpec> jobs = new ArrayList<>();
    for (int i = 0; i < 4; i++) jobs.add(new JobSpec(App.WORD_COUNT, 64, 0));
    for (int i = 0; i < 5; i++) jobs.add(new JobSpec(App.GREP, 250, 0));
    jobs.add(new JobSpec(App.SORT, 64, 0));
    return jobs;
  }

  /** Figure 9: one WordCount, one Sort, two Grep, submitted at 0, 10, 1000 and 1200 s. */
  static List<JobSpec> fourJobs() {
    return List.of(
        new JobSpec(App.WORD_COUNT, 250, 0),
        new JobSpec(App.SORT, 64, 10),
        new JobSpec(App.GREP, 250, 1000),
        new JobSpec(App.GREP, 250, 1200));
  }

  static Model together(
      List<JobSpec> specs, Splitting splitting, Model.Sharing sharing, long seed) {
    Random random = new Random(seed);
    Model model = new Model(sharing, seed);
    for (JobSpec spec : specs) {
      model.submit(
          spec.app(),
          spec.submitted(),
          splits(Splitter.file(spec.gb(), Constants.BLOCK_MB, random), splitting));
    }
    model.run();
    return model;
  }
}
