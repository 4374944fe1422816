package lamella.coalesce.sim;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

/**
 * {@code SimMain PAGE.html [SEEDS]}: runs every scenario, writes the page, prints the claims as a
 * Markdown table.
 */
public final class SimMain {
  private static final int SEEDS = 5;

  private SimMain() {}

  public static void main(String[] args) throws IOException {
    if (args.length < 1
        || args.length > 2
        || args.length == 2 && !args[1].matches("[1-9][0-9]{0,3}")) {
      System.err.println("usage: SimMain PAGE.html [SEEDS from 1 to 9999]");
      System.exit(2);
    }
    Results results = new Results(args.length == 2 ? Integer.parseInt(args[1]) : SEEDS);
    Path page = Path.of(args[0]).toAbsolutePath();
    Files.createDirectories(page.getParent());
    Files.writeString(page, new Page(results).html());

    System.out.println("| Claim | Dissertation | Simulated | Verdict |\n|---|---|---|---|");
    for (Claim claim : Claim.of(results)) {
      System.out.printf(
          "| %s | %s | %s | %s |%n",
          claim.text(), claim.claimed(), claim.simulated(), claim.verdict().words);
    }
    System.out.println();
    System.out.println(
        "| Completion | default | CombineFile, tuned | maximum | assorted | assorted, random order"
            + " |");
    System.out.println("|---|---:|---:|---:|---:|---:|");
    results.alone.forEach(
        (app, times) ->
            line(
                app.name() + ", 250 GB, alone",
                times,
                String.format("%.0f s", results.aloneMixed.get(app))));
    line("ten jobs, fair, average", results.tenJobsAverage, "");
    line("ten jobs, FIFO, average", results.tenJobsAverageFifo, "");
    line("four jobs, fair, average", results.fourJobsAverage, "");
    System.out.println("\nwritten: " + args[0]);
  }

  private static void line(String name, Map<Scenarios.Splitting, Double> times, String more) {
    System.out.print("| " + name);
    for (Scenarios.Splitting s : Scenarios.Splitting.values())
      System.out.printf(" | %.0f s", times.get(s));
    System.out.println(" | " + more + " |");
  }
}
