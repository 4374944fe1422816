package lamella.coalesce.sim;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import lamella.coalesce.sim.Scenarios.Splitting;

/**
 * A statement of the dissertation beside what the model says. The verdict is arithmetic: "holds" if a ratio's excess over 1 is
 * within a quarter of the claimed one, or a gain within five points; "in direction only" if just that is right; else "does not
 * hold".
 */
record Claim(String text, String claimed, String simulated, Verdict verdict, String remark) {
  enum Verdict {
    HOLDS("holds"), DIRECTION("in direction only"), FAILS("does not hold");

    final String words;

    Verdict(String words) {
      this.words = words;
    }
  }

  private static final double TOLERANCE = 0.25;
  private static final double GAIN_POINTS = 5;

  static List<Claim> of(Results r) {
    List<Claim> claims = new ArrayList<>();
    Map<Integer, Double> byBlock = r.wordCountByBlock;
    int best = byBlock.entrySet().stream().min(Comparator.comparingDouble(Map.Entry::getValue)).orElseThrow().getKey();
    claims.add(new Claim("WordCount is fastest at one wave, 1 GB splits", "1024 MB", best + " MB",
        best == 1024 ? Verdict.HOLDS : Verdict.FAILS, ""));
    claims.add(ratio("WordCount: 1 GB blocks over 32 MB", 1.7, byBlock.get(32) / byBlock.get(1024), "its work per block is fitted"
        + " to this"));
    claims.add(ratio("WordCount: 1 GB blocks over 128 MB", 1.16, byBlock.get(128) / byBlock.get(1024), ""));
    claims.add(ratio("WordCount: 2 GB blocks take longer than 1 GB", 2, byBlock.get(2048) / byBlock.get(1024),
        "half of the slots are idle"));

    double min = Double.POSITIVE_INFINITY;
    double max = 0;
    for (int mb : Results.BLOCK_MB) {
      if (mb > 1024) continue;  // no scheme splits blocks that are larger than a slot's part
      min = Math.min(min, r.wordCountByBlockCoalesced.get(mb));
      max = Math.max(max, r.wordCountByBlockCoalesced.get(mb));
    }
    claims.add(new Claim("With coalescing, time does not depend on block size (32 MB to 1 GB)", "similar",
        format("longest / shortest %.2f", max / min), max / min <= 1.1 ? Verdict.HOLDS : Verdict.FAILS, ""));

    String[] names = {"WordCount", "Grep", "Sort"};
    double[] claimed = {10, 7, 14};
    int i = 0;
    for (Map.Entry<App, Map<Splitting, Double>> app : r.alone.entrySet()) {
      double base = app.getValue().get(Splitting.DEFAULT);
      claims.add(gain(names[i] + ": assorted over 128 MB blocks", claimed[i],
          100 * (1 - app.getValue().get(Splitting.ASSORTED) / base), ""));
      i++;
    }
    claims.add(order("WordCount: maximum is faster than assorted", r.alone.get(App.WORD_COUNT)));
    for (App app : List.of(App.GREP, App.SORT)) {
      double loss = 100 * (r.alone.get(app).get(Splitting.MAXIMUM) / r.alone.get(app).get(Splitting.DEFAULT) - 1);
      claims.add(new Claim(app.name() + ": maximum loses against 128 MB blocks", "slower",
          format("%+.1f %% time", loss), loss > 0 ? Verdict.HOLDS : Verdict.FAILS, ""));
    }
    claims.add(new Claim("Grep: the fastest node ends at 92 s with maximum splits, at 123 s without", "92 s, 123 s",
        format("%.0f s, %.0f s", r.grepFastestNode[8], r.grepFastestNode[0]),
        Math.abs(r.grepFastestNode[8] / 92 - 1) < TOLERANCE && Math.abs(r.grepFastestNode[0] / 123 - 1) < TOLERANCE
            ? Verdict.HOLDS : Verdict.DIRECTION, "the disk is fitted to the first"));
    claims.add(gain("Ten jobs, fair sharing: assorted ends sooner on average", 36.3,
        100 * (1 - r.tenJobsAverage.get(Splitting.ASSORTED) / r.tenJobsAverage.get(Splitting.DEFAULT)), ""));
    double slower = 100 * (r.tenJobsAverage.get(Splitting.MAXIMUM) / r.tenJobsAverage.get(Splitting.DEFAULT) - 1);
    claims.add(new Claim("Ten jobs: with maximum, jobs take longer than without coalescing", "slower",
        format("%+.1f %% time", slower), slower > 0 ? Verdict.HOLDS : Verdict.FAILS, ""));
    return claims;
  }

  private static Claim order(String text, Map<Splitting, Double> times) {
    double maximum = times.get(Splitting.MAXIMUM);
    double assorted = times.get(Splitting.ASSORTED);
    return new Claim(text, "slightly", format("%.0f s, %.0f s", maximum, assorted),
        maximum < assorted ? Verdict.HOLDS : Verdict.FAILS, "");
  }

  private static Claim ratio(String text, double claimed, double simulated, String remark) {
    return new Claim(text, format("%.2fx", claimed), format("%.2fx", simulated),
        verdict(claimed - 1, simulated - 1), remark);
  }

  private static Claim gain(String text, double claimed, double simulated, String remark) {
    return new Claim(text, format("%.1f %%", claimed), format("%.1f %%", simulated),
        Math.abs(simulated - claimed) <= GAIN_POINTS ? Verdict.HOLDS : simulated > 1 ? Verdict.DIRECTION : Verdict.FAILS, remark);
  }

  private static Verdict verdict(double claimed, double simulated) {
    if (Math.abs(simulated / claimed - 1) <= TOLERANCE) return Verdict.HOLDS;
    return simulated > 0.01 * claimed ? Verdict.DIRECTION : Verdict.FAILS;
  }

  private static String format(String pattern, Object... values) {
    return String.format(Locale.ROOT, pattern, values);
  }
}
