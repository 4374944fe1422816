package lamella.coalesce.sim;

import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.LongFunction;
import java.util.function.ToDoubleFunction;
import lamella.coalesce.sim.Scenarios.Splitting;

/** Everything the page shows, computed: means over the same seeds for every variant. */
final class Results {
  static final int[] BLOCK_MB = {32, 64, 128, 256, 512, 1024, 2048};

  final int seeds;
  final Map<Integer, Double> wordCountByBlock = new TreeMap<>(); // figure 2
  final Map<Integer, Double> wordCountByBlockCoalesced = new TreeMap<>();
  final double[] grepSeconds =
      new double[Constants.SLOTS_PER_NODE + 1]; // figure 6, by slots with a maximum split
  final double[] grepFastestNode = new double[Constants.SLOTS_PER_NODE + 1];
  final double[] sortSeconds = new double[Constants.SLOTS_PER_NODE + 1]; // figure 7
  final List<List<Model.Shuffled>> sortShuffle = new ArrayList<>();
  final Map<App, Map<Splitting, Double>> alone = new java.util.LinkedHashMap<>(); // figure 10
  final Map<App, Double> aloneBlocksOf1Gb = new java.util.LinkedHashMap<>();
  final Map<App, Double> aloneMixed = new java.util.LinkedHashMap<>();
  final Map<Splitting, Model> tenJobs =
      new EnumMap<>(Splitting.class); // figure 8, the first seed's
  final Map<Splitting, Double> tenJobsAverage = new EnumMap<>(Splitting.class);
  final Map<Splitting, Double> tenJobsAverageFifo = new EnumMap<>(Splitting.class);
  final Map<Splitting, Model> fourJobs = new EnumMap<>(Splitting.class); // figure 9
  final Map<Splitting, Double> fourJobsAverage = new EnumMap<>(Splitting.class);
  final Map<Splitting, Double> localShare = new EnumMap<>(Splitting.class);

  Results(int seeds) {
    this.seeds = seeds;
    for (int mb : BLOCK_MB) {
      wordCountByBlock.put(
          mb, mean(seed -> Scenarios.alone(App.WORD_COUNT, mb, Splitting.DEFAULT, seed)));
      wordCountByBlockCoalesced.put(
          mb, mean(seed -> Scenarios.alone(App.WORD_COUNT, mb, Splitting.MAXIMUM, seed)));
    }
    for (int slots = 0; slots <= Constants.SLOTS_PER_NODE; slots++) {
      int k = slots;
      grepSeconds[k] = mean(seed -> Scenarios.withMaximumSplits(App.GREP, k, seed));
      grepFastestNode[k] =
          mean(seed -> Scenarios.withMaximumSplits(App.GREP, k, seed), Results::fastestNode);
      sortSeconds[k] = mean(seed -> Scenarios.withMaximumSplits(App.SORT, k, seed));
      sortShuffle.add(Scenarios.withMaximumSplits(App.SORT, k, 1).shuffle);
    }
    for (App app : List.of(App.WORD_COUNT, App.GREP, App.SORT)) {
      Map<Splitting, Double> bySplitting = new EnumMap<>(Splitting.class);
      for (Splitting s : Splitting.values()) {
        bySplitting.put(s, mean(seed -> Scenarios.alone(app, Constants.BLOCK_MB, s, seed)));
      }
      alone.put(app, bySplitting);
      aloneMixed.put(app, mean(seed -> Scenarios.aloneMixed(app, seed)));
      aloneBlocksOf1Gb.put(app, mean(seed -> Scenarios.alone(app, 1024, Splitting.DEFAULT, seed)));
    }
    for (Splitting s : Splitting.values()) {
      localShare.put(
          s,
          mean(seed -> Scenarios.alone(App.GREP, Constants.BLOCK_MB, s, seed), Model::localShare));
      tenJobs.put(s, Scenarios.together(Scenarios.tenJobs(), s, Model.Sharing.FAIR, 1));
      tenJobsAverage.put(
          s,
          mean(
              seed -> Scenarios.together(Scenarios.tenJobs(), s, Model.Sharing.FAIR, seed),
              Model::averageSeconds));
      tenJobsAverageFifo.put(
          s,
          mean(
              seed -> Scenarios.together(Scenarios.tenJobs(), s, Model.Sharing.FIFO, seed),
              Model::averageSeconds));
      fourJobs.put(s, Scenarios.together(Scenarios.fourJobs(), s, Model.Sharing.FAIR, 1));
      fourJobsAverage.put(
          s,
          mean(
              seed -> Scenarios.together(Scenarios.fourJobs(), s, Model.Sharing.FAIR, seed),
              Model::averageSeconds));
    }
  }

  private double mean(LongFunction<Model> scenario) {
    return mean(scenario, model -> model.jobs.get(0).seconds());
  }

  private double mean(LongFunction<Model> scenario, ToDoubleFunction<Model> value) {
    double sum = 0;
    for (long seed = 1; seed <= seeds; seed++) sum += value.applyAsDouble(scenario.apply(seed));
    return sum / seeds;
  }

  /** When the first node had ended the last of its maps. */
  private static double fastestNode(Model model) {
    double[] end = new double[Constants.NODES];
    for (Model.Span span : model.spans) {
      if (span.map()) end[span.node()] = Math.max(end[span.node()], span.end());
    }
    return java.util.Arrays.stream(end).min().orElse(0);
  }
}
