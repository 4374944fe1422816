package lamella.coalesce.sim;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import lamella.coalesce.sim.Scenarios.Splitting;

/**
 * A statement of the dissertation beside what the model says. The verdict is arithmetic, and each
 * way to reach it has a bound taken from the dissertation's own figure, so that each can fail
 * (ClaimTest shows that each does):
 *
 * <p>{@link #ratio}: "holds" if the excess over 1 is within a quarter of the claimed one. {@link
 * #gain} and {@link #loss}: within five points. "In direction only": the sign is right and the size
 * is not. Else "does not hold". Where the dissertation gives words and no number, {@link #within}
 * says what the words are taken to mean.
 */
record Claim(String text, String claimed, String simulated, Verdict verdict, String remark) {
  enum Verdict {
    HOLDS("holds"),
    DIRECTION("in direction only"),
    FAILS("does not hold");

    final String words;

    Verdict(String words) {
      this.words = words;
    }
  }

  private static final double TOLERANCE = 0.25;
  private static final double GAIN_POINTS = 5;

  /**
   * Its "slightly": no more than this. Figure 10 shows WordCount's two bars within a few points of
   * each other.
   */
  private static final double SLIGHTLY_PERCENT = 10;

  /** Its "worse" or "higher" without a number: more than noise between seeds. */
  private static final double WORSE_PERCENT = 1;

  static List<Claim> of(Results r) {
    List<Claim> claims = new ArrayList<>();
    Map<Integer, Double> byBlock = r.wordCountByBlock;
    int best =
        byBlock.entrySet().stream()
            .min(Comparator.comparingDouble(Map.Entry::getValue))
            .orElseThrow()
            .getKey();
    claims.add(
        new Claim(
            "WordCount is fastest at one wave, 1 GB splits",
            "1024 MB",
            best + " MB",
            best == 1024 ? Verdict.HOLDS : Verdict.FAILS,
            ""));
    claims.add(
        ratio(
            "WordCount: 1 GB blocks over 32 MB",
            1.7,
            byBlock.get(32) / byBlock.get(1024),
            "its work per block is fitted" + " to this"));
    claims.add(
        ratio(
            "WordCount: 1 GB blocks over 128 MB", 1.16, byBlock.get(128) / byBlock.get(1024), ""));
    claims.add(
        ratio(
            "WordCount: 2 GB blocks take longer than 1 GB",
            2,
            byBlock.get(2048) / byBlock.get(1024),
            "half of the slots are idle"));
    claims.add(independent(r.wordCountByBlockCoalesced));

    Map<Splitting, Double> wordCount = r.alone.get(App.WORD_COUNT);
    Map<Splitting, Double> grep = r.alone.get(App.GREP);
    Map<Splitting, Double> sort = r.alone.get(App.SORT);
    claims.add(
        gain("WordCount: assorted over 128 MB blocks", 10, saved(wordCount, Splitting.ASSORTED)));
    claims.add(gain("Grep: assorted over 128 MB blocks", 7, saved(grep, Splitting.ASSORTED)));
    claims.add(gain("Sort: assorted over 128 MB blocks", 14, saved(sort, Splitting.ASSORTED)));
    claims.add(
        within(
            "WordCount: assorted is slightly slower than maximum",
            "slightly",
            100 * (wordCount.get(Splitting.ASSORTED) / wordCount.get(Splitting.MAXIMUM) - 1),
            0,
            SLIGHTLY_PERCENT));
    claims.add(
        within(
            "Grep: maximum loses against 128 MB blocks",
            "slower",
            -saved(grep, Splitting.MAXIMUM),
            WORSE_PERCENT,
            Double.POSITIVE_INFINITY));
    claims.add(
        within(
            "Grep: 1 GB blocks lose against 128 MB blocks",
            "slower",
            100 * (r.aloneBlocksOf1Gb.get(App.GREP) / grep.get(Splitting.DEFAULT) - 1),
            WORSE_PERCENT,
            Double.POSITIVE_INFINITY));
    // 1,550 s, and about 600 s more with a maximum split in every slot (section 4.3.2).
    claims.add(
        loss(
            "Sort: maximum loses against 128 MB blocks",
            100 * 600.0 / 1550,
            -saved(sort, Splitting.MAXIMUM)));
    // 1,550 s, and 1,400 s with one (figure 7a).
    claims.add(
        gain(
            "Sort: one maximum split on each node",
            100 * 150.0 / 1550,
            100 * (1 - r.sortSeconds[1] / r.sortSeconds[0])));
    claims.add(fastestNode(r.grepFastestNode[Constants.SLOTS_PER_NODE], r.grepFastestNode[0]));

    claims.add(
        gain(
            "Ten jobs, fair sharing: assorted ends sooner on average",
            36.3,
            saved(r.tenJobsAverage, Splitting.ASSORTED)));
    claims.add(
        within(
            "Ten jobs: with maximum, jobs take longer than without coalescing",
            "slower",
            -saved(r.tenJobsAverage, Splitting.MAXIMUM),
            WORSE_PERCENT,
            Double.POSITIVE_INFINITY));
    claims.add(
        within(
            "Four jobs: with maximum, jobs take longer than without coalescing",
            "slower",
            -saved(r.fourJobsAverage, Splitting.MAXIMUM),
            WORSE_PERCENT,
            Double.POSITIVE_INFINITY));
    claims.add(
        containers(
            "Ten jobs",
            14_000,
            3_000,
            containers(r.tenJobs, Splitting.DEFAULT),
            containers(r.tenJobs, Splitting.MAXIMUM)));
    claims.add(
        containers(
            "Four jobs",
            7_000,
            1_400,
            containers(r.fourJobs, Splitting.DEFAULT),
            containers(r.fourJobs, Splitting.MAXIMUM)));
    return claims;
  }

  /** Percent of the default's time that a splitting saves. */
  private static double saved(Map<Splitting, Double> times, Splitting splitting) {
    return 100 * (1 - times.get(splitting) / times.get(Splitting.DEFAULT));
  }

  private static long containers(Map<Splitting, Model> models, Splitting splitting) {
    return models.get(splitting).spans.size();
  }

  static Claim independent(Map<Integer, Double> byBlockCoalesced) {
    double min = Double.POSITIVE_INFINITY;
    double max = 0;
    for (Map.Entry<Integer, Double> entry : byBlockCoalesced.entrySet()) {
      if (entry.getKey() > 1024)
        continue; // no scheme splits blocks that are larger than a slot's part
      min = Math.min(min, entry.getValue());
      max = Math.max(max, entry.getValue());
    }
    return new Claim(
        "With coalescing, time does not depend on block size (32 MB to 1 GB)",
        "similar",
        format("longest / shortest %.2f", max / min),
        max / min <= 1.1 ? Verdict.HOLDS : Verdict.FAILS,
        "");
  }

  /**
   * 92 s of 123 s: what maximum splits save the fastest node. The disk is fitted to the 92 s, which
   * so prove nothing; what is judged is the other figure, by what it has more.
   */
  static Claim fastestNode(double maximum, double byDefault) {
    return new Claim(
        "Grep: the fastest node ends later without coalescing (its 92 s with maximum splits are"
            + " fitted), by",
        "123 s / 92 s",
        format("%.0f s / %.0f s", byDefault, maximum),
        verdict(123.0 / 92 - 1, byDefault / maximum - 1),
        "the disk is fitted to the 92 s");
  }

  /** Totals of tasks; maximum's are an upper bound in the dissertation. */
  static Claim containers(
      String jobs, long byDefault, long maximumBelow, long foundDefault, long foundMaximum) {
    boolean close = Math.abs((double) foundDefault / byDefault - 1) <= 0.1;
    boolean below = foundMaximum < maximumBelow;
    return new Claim(
        jobs + ": containers by default, and with maximum",
        format("about %d, below %d", byDefault, maximumBelow),
        format("%d, %d", foundDefault, foundMaximum),
        close && below
            ? Verdict.HOLDS
            : foundMaximum < foundDefault ? Verdict.DIRECTION : Verdict.FAILS,
        "");
  }

  /**
   * A claim in words: percent of time that must lie in a range; outside, but of the right sign, it
   * is right in direction only.
   */
  static Claim within(String text, String words, double percent, double least, double most) {
    Verdict verdict =
        percent >= least && percent <= most
            ? Verdict.HOLDS
            : percent > least ? Verdict.DIRECTION : Verdict.FAILS;
    return new Claim(text, words, format("%+.1f %% time", percent), verdict, "");
  }

  static Claim ratio(String text, double claimed, double simulated, String remark) {
    return new Claim(
        text,
        format("%.2fx", claimed),
        format("%.2fx", simulated),
        verdict(claimed - 1, simulated - 1),
        remark);
  }

  static Claim gain(String text, double claimed, double simulated) {
    return new Claim(
        text,
        format("%.1f %%", claimed),
        format("%.1f %%", simulated),
        points(claimed, simulated),
        "");
  }

  static Claim loss(String text, double claimed, double simulated) {
    return new Claim(
        text,
        format("+%.1f %% time", claimed),
        format("%+.1f %% time", simulated),
        points(claimed, simulated),
        "");
  }

  private static Verdict points(double claimed, double simulated) {
    return Math.abs(simulated - claimed) <= GAIN_POINTS
        ? Verdict.HOLDS
        : simulated > 1 ? Verdict.DIRECTION : Verdict.FAILS;
  }

  private static Verdict verdict(double claimed, double simulated) {
    if (Math.abs(simulated / claimed - 1) <= TOLERANCE) return Verdict.HOLDS;
    return simulated > 0.01 * claimed ? Verdict.DIRECTION : Verdict.FAILS;
  }

  private static String format(String pattern, Object... values) {
    return String.format(Locale.ROOT, pattern, values);
  }
}
