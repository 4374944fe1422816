package lamella.coalesce.sim;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import lamella.coalesce.sim.Scenarios.Splitting;

/** The results as one HTML page that needs nothing else. */
final class Page {
  private static final String HEAD =
      """
<!doctype html><html lang="en"><meta charset="utf-8"><title>Coalesced HDFS blocks, simulated</title>
<style>body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;
color:#222}
svg{margin:.5rem 1rem .5rem 0}svg text{font:11px system-ui,sans-serif;fill:#333}
svg .t{font-weight:600;font-size:13px}
.g{stroke:#ddd}table{border-collapse:collapse}
td,th{border-bottom:1px solid #ddd;padding:.2rem .6rem;text-align:left}
.n{text-align:right}</style>
""";

  private final Results r;
  private final StringBuilder out = new StringBuilder(HEAD);

  Page(Results results) {
    r = results;
  }

  String html() {
    out.append("<h1>Coalesced HDFS blocks: the dissertation's cluster, simulated</h1>\n");
    out.append(
        f(
            "<p><b>Simulated</b>, not measured: %d nodes of %d slots, %.0f GB in blocks of 128 MB,"
                + " 3 replicas; means over %d seeds. Constants and whether they are given, fitted"
                + " or assumed: Constants.java and App.java.</p>\n",
            Constants.NODES, Constants.SLOTS_PER_NODE, Scenarios.GB, r.seeds));
    claims();
    figure2();
    figures6And7();
    figure10();
    together("Figure 8: ten jobs at once", r.tenJobs, r.tenJobsAverage);
    together("Figure 9: four jobs at 0, 10, 1000 and 1200 s", r.fourJobs, r.fourJobsAverage);
    waves();
    return out.append("</html>\n").toString();
  }

  private void claims() {
    out.append(
        "<h2>The claims</h2>\n"
            + "<table><tr><th>claim<th>dissertation<th>simulated<th>verdict<th></tr>\n");
    for (Claim claim : Claim.of(r)) {
      out.append(
          f(
              "<tr><td>%s<td>%s<td>%s<td>%s<td>%s</tr>\n",
              claim.text(),
              claim.claimed(),
              claim.simulated(),
              claim.verdict().words,
              claim.remark()));
    }
    out.append("</table>\n");
  }

  private void figure2() {
    out.append("<h2>Figure 2: WordCount by block size</h2>\n");
    double max =
        1.15
            * r.wordCountByBlock.values().stream().mapToDouble(Double::doubleValue).max().orElse(1);
    Chart chart =
        new Chart("WordCount, 250 GB", "block size in MB", Results.BLOCK_MB.length, "s", max);
    chart.name(0, "blocks as they are").name(1, "maximum coalescing");
    for (int i = 0; i < Results.BLOCK_MB.length; i++) {
      int mb = Results.BLOCK_MB[i];
      chart.bar(
          0, i + 0.1, i + 0.5, r.wordCountByBlock.get(mb), f("%.0f", r.wordCountByBlock.get(mb)));
      chart.bar(
          1,
          i + 0.5,
          i + 0.9,
          r.wordCountByBlockCoalesced.get(mb),
          f("%.0f", r.wordCountByBlockCoalesced.get(mb)));
      chart.tick(i + 0.5, Integer.toString(mb));
    }
    out.append(chart.svg(false));
  }

  private void figures6And7() {
    out.append(
        "<h2>Figures 6 and 7: some slots with a split of maximum size, all other blocks"
            + " alone</h2>\n");
    double[] slots = new double[Constants.SLOTS_PER_NODE + 1];
    for (int k = 0; k < slots.length; k++) slots[k] = k;
    out.append(
        new Chart("Grep", "slots per node with a maximum split", 8, "s", 1.2 * max(r.grepSeconds))
            .line("whole job", 0, slots, r.grepSeconds)
            .line("fastest node", 1, slots, r.grepFastestNode)
            .svg(true));
    out.append(
        new Chart("Sort", "slots per node with a maximum split", 8, "s", 1.2 * max(r.sortSeconds))
            .line("whole job", 0, slots, r.sortSeconds)
            .svg(true));
    double end =
        r.sortShuffle.stream()
            .mapToDouble(points -> points.get(points.size() - 1).time())
            .max()
            .orElse(1);
    Chart chart = new Chart("Sort: shuffled so far, in GB", "s", end, "GB", 256);
    for (int k = 0; k < slots.length; k += 2) {
      List<Model.Shuffled> points = r.sortShuffle.get(k);
      chart.line(
          k + " slots",
          k / 2,
          points.stream().mapToDouble(Model.Shuffled::time).toArray(),
          points.stream().mapToDouble(point -> point.mb() / 1024).toArray());
    }
    out.append(chart.svg(true));
  }

  private void figure10() {
    out.append("<h2>Figure 10: each job alone, against blocks of 128 MB</h2>\n");
    out.append(
        "<table><tr><th>job<th class=n>128 MB blocks<th class=n>1 GB blocks<th"
            + " class=n>CombineFileInputFormat, tuned<th class=n>maximum<th class=n>assorted<th"
            + " class=n>assorted, in random order</tr>\n");
    r.alone.forEach(
        (app, times) -> {
          double base = times.get(Splitting.DEFAULT);
          out.append(
              f(
                  "<tr><td>%s<td class=n>%.0f s, 1.00<td class=n>%.2f<td class=n>%.2f<td"
                      + " class=n>%.2f<td class=n>%.2f<td class=n>%.2f</tr>\n",
                  app.name(),
                  base,
                  r.aloneBlocksOf1Gb.get(app) / base,
                  times.get(Splitting.COMBINE) / base,
                  times.get(Splitting.MAXIMUM) / base,
                  times.get(Splitting.ASSORTED) / base,
                  r.aloneMixed.get(app) / base));
        });
    out.append("</table>\n<p>Maps on a node that their split prefers (Grep): ");
    r.localShare.forEach(
        (s, share) ->
            out.append(f("%s %.0f %%; ", s.name().toLowerCase(Locale.ROOT), 100 * share)));
    out.append("</p>\n");
  }

  private void together(
      String title, Map<Splitting, Model> models, Map<Splitting, Double> averages) {
    out.append("<h2>").append(title).append("</h2>\n<p>Average completion: ");
    averages.forEach(
        (s, seconds) -> out.append(f("%s %.0f s; ", s.name().toLowerCase(Locale.ROOT), seconds)));
    out.append(
        "fair sharing. Each line below is a task's life, one colour a job, in the order in which"
            + " they started.</p>\n");
    double end =
        models.values().stream()
            .flatMap(model -> model.spans.stream())
            .mapToDouble(Model.Span::end)
            .max()
            .orElse(1);
    models.forEach(
        (s, model) -> {
          List<Model.Span> spans = new ArrayList<>(model.spans);
          spans.sort(
              Comparator.comparingInt(Model.Span::job).thenComparingDouble(Model.Span::start));
          Chart chart =
              new Chart(s.name().toLowerCase(Locale.ROOT), "s", end, "tasks", spans.size());
          Map<Integer, List<double[]>> byJob = new TreeMap<>();
          for (int i = 0; i < spans.size(); i++) {
            Model.Span span = spans.get(i);
            byJob
                .computeIfAbsent(span.job(), job -> new ArrayList<>())
                .add(new double[] {i, span.start(), span.end()});
          }
          byJob.forEach(chart::spans);
          out.append(chart.svg(true));
        });
  }

  private void waves() {
    out.append("<h2>Map waves of each of the ten jobs</h2>\n<table><tr><th>job");
    for (Splitting s : r.tenJobs.keySet())
      out.append("<th class=n>").append(s.name().toLowerCase(Locale.ROOT));
    out.append("</tr>\n");
    int jobs = r.tenJobs.get(Splitting.DEFAULT).jobs.size();
    for (int j = 0; j < jobs; j++) {
      out.append(
          f("<tr><td>%d %s", j + 1, r.tenJobs.get(Splitting.DEFAULT).jobs.get(j).app.name()));
      for (Model model : r.tenJobs.values()) {
        Model.Job job = model.jobs.get(j);
        out.append(
            f(
                "<td class=n>%d maps, %.2f waves, %.0f s",
                job.mapCount,
                (double) job.mapCount / (Constants.NODES * Constants.SLOTS_PER_NODE),
                job.seconds()));
      }
      out.append("</tr>\n");
    }
    out.append("</table>\n");
  }

  private static double max(double[] values) {
    return java.util.Arrays.stream(values).max().orElse(1);
  }

  private static String f(String pattern, Object... values) {
    return String.format(Locale.ROOT, pattern, values);
  }
}
