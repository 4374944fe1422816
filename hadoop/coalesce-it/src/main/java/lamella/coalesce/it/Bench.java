package lamella.coalesce.it;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.EnumMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeSet;
import java.util.function.ToDoubleFunction;
import lamella.coalesce.it.JobRun.Splitting;
import org.apache.hadoop.mapreduce.lib.input.SequenceFileInputFormat;
import org.apache.hadoop.mapreduce.lib.input.TextInputFormat;

/**
 * The measured table: {@code Bench FOLDER [WORKLOAD...]}. Prints Markdown; exits with 1 if an
 * output differed or a goal was missed.
 */
public final class Bench {
  private static final List<String> WORKLOADS =
      List.of(
          "grep",
          "wordcount",
          "sort",
          "small-files",
          "sleep",
          "sleep-slow-node",
          "sleep-slow-tasks");
  private static final int GREP_BLOCKS = 96;
  private static final int SMALL_FILES = 10_000;
  private static final int SMALL_FILES_BY_DEFAULT =
      120; // a container each: ten thousand would take three hours here
  private static final int SMALL_FILE_BYTES = 10_000;
  private static final int OTHER_BLOCKS = 48;
  private static final int CLOSE_REPEATS = 3;
  private static final int RECORDS_PER_BLOCK = 16;
  private static final int MS_PER_RECORD = 500; // 8 s a block: work, not starts, should decide here

  private final SmallCluster cluster;
  private final Path folder;
  private boolean failed;

  private Bench(SmallCluster cluster, Path folder) {
    this.cluster = cluster;
    this.folder = folder;
  }

  public static void main(String[] args) throws Exception {
    List<String> asked = args.length > 1 ? List.of(args).subList(1, args.length) : WORKLOADS;
    if (args.length < 1 || !new TreeSet<>(WORKLOADS).containsAll(asked)) {
      System.err.println("usage: Bench FOLDER [WORKLOAD...], of " + String.join(", ", WORKLOADS));
      System.exit(2);
    }
    Path folder = Path.of(args[0]);
    boolean failed;
    try (SmallCluster cluster = new SmallCluster(3, 4, folder)) {
      Bench bench = new Bench(cluster, folder);
      System.out.printf(
          "3 nodes of 4 slots, one slot of the twelve the application master's; blocks of 1 MiB, 2"
              + " replicas; %d processors%n%n",
          Runtime.getRuntime().availableProcessors());
      System.out.println(
          "| Workload | Scheme | Maps | Containers | Job | Map phase | Waves | Node-local maps |"
              + " Same output |");
      System.out.println("|---|---|---:|---:|---:|---:|---:|---:|---|");
      for (String workload : asked) bench.run(workload);
      failed = bench.failed;
    }
    System.exit(failed ? 1 : 0);
  }

  private void run(String workload) throws Exception {
    switch (workload) {
      case "grep" -> {
        Map<Splitting, JobRun> runs =
            text(workload, GREP_BLOCKS, Workloads.grep("w1[0-9]*"), Splitting.values());
        goal(
            "grep: default / maximum, job",
            3,
            true,
            ratio(runs, Splitting.DEFAULT, Splitting.MAXIMUM, JobRun::seconds));
        goal(
            "grep: maximum / CombineText, job (10 % of noise allowed)",
            1.1, false, ratio(runs, Splitting.MAXIMUM, Splitting.COMBINE, JobRun::seconds));
        containerCost(workload, runs);
      }
      case "wordcount" ->
          containerCost(
              workload, text(workload, OTHER_BLOCKS, Workloads.wordCount(), Splitting.values()));
      case "sort" -> {
        org.apache.hadoop.fs.Path input = new org.apache.hadoop.fs.Path("/sort");
        Data.sequence(
            cluster.conf(),
            new org.apache.hadoop.fs.Path(input, "a.seq"),
            OTHER_BLOCKS * 15_000,
            3);
        containerCost(
            workload,
            measure(
                workload,
                input,
                SequenceFileInputFormat.class,
                Workloads.sort(),
                Splitting.values()));
      }
      case "small-files" -> {
        Map<Splitting, JobRun> few =
            smallFiles(
                "small-files-" + SMALL_FILES_BY_DEFAULT,
                SMALL_FILES_BY_DEFAULT,
                Splitting.DEFAULT,
                Splitting.MAXIMUM,
                Splitting.ASSORTED);
        goal(
            "small files: default / maximum, job",
            5,
            true,
            ratio(few, Splitting.DEFAULT, Splitting.MAXIMUM, JobRun::seconds));
        Map<Splitting, JobRun> many =
            smallFiles(
                "small-files-" + SMALL_FILES,
                SMALL_FILES,
                Splitting.COMBINE,
                Splitting.MAXIMUM,
                Splitting.ASSORTED);
        goal(
            "ten thousand small files: maximum / CombineText, job",
            1.1,
            false,
            ratio(many, Splitting.MAXIMUM, Splitting.COMBINE, JobRun::seconds));
      }
      case "sleep" -> {
        Map<Splitting, JobRun> runs = sleep(workload, "", false);
        goal("sleep: waves of maximum", 1, false, runs.get(Splitting.MAXIMUM).waves());
        goal(
            "sleep, even load: assorted / maximum, job",
            1.15,
            false,
            ratio(runs, Splitting.ASSORTED, Splitting.MAXIMUM, JobRun::seconds));
      }
      case "sleep-slow-node" ->
          goal(
              "a node with half the throughput: maximum / assorted, job",
              1.1,
              true,
              ratio(
                  sleep(workload, NodeNames.name(0), false),
                  Splitting.MAXIMUM,
                  Splitting.ASSORTED,
                  JobRun::seconds));
      default ->
          System.out.printf(
              Locale.ROOT,
              "%na node whose every task is half as fast: maximum / assorted, job: %.2f%n",
              ratio(
                  sleep(workload, NodeNames.name(0), true),
                  Splitting.MAXIMUM,
                  Splitting.ASSORTED,
                  JobRun::seconds));
    }
  }

  private Map<Splitting, JobRun> text(
      String name, int blocks, JobRun.Workload workload, Splitting... splittings) throws Exception {
    org.apache.hadoop.fs.Path input = new org.apache.hadoop.fs.Path("/" + name);
    Data.text(cluster.fs(), new org.apache.hadoop.fs.Path(input, "a.txt"), (long) blocks << 20, 1);
    return measure(name, input, TextInputFormat.class, workload, splittings);
  }

  private Map<Splitting, JobRun> smallFiles(String name, int count, Splitting... splittings)
      throws Exception {
    org.apache.hadoop.fs.Path input = new org.apache.hadoop.fs.Path("/" + name);
    for (int i = 0; i < count; i++) {
      Data.text(cluster.fs(), new org.apache.hadoop.fs.Path(input, "f" + i), SMALL_FILE_BYTES, i);
    }
    JobRun.Workload workload = Workloads.wordCount();
    return measure(
        name,
        input,
        TextInputFormat.class,
        job -> {
          workload.configure(job);
          job.getConfiguration()
              .unset("lamella.coalesce.split.bytes.min"); // these files are as small as real ones
        },
        splittings);
  }

  private Map<Splitting, JobRun> sleep(String name, String slowNode, boolean slowTasks)
      throws Exception {
    org.apache.hadoop.fs.Path input = new org.apache.hadoop.fs.Path("/sleep");
    if (!cluster.fs().exists(input)) {
      Data.longLines(
          cluster.fs(),
          new org.apache.hadoop.fs.Path(input, "a.txt"),
          OTHER_BLOCKS * RECORDS_PER_BLOCK);
    }
    JobRun.Workload workload =
        Workloads.sleep(
            slowTasks ? MS_PER_RECORD / 2 : MS_PER_RECORD,
            cluster.slotsPerNode,
            slowNode,
            slowTasks,
            NodeNames.name(cluster.nodeCount - 1),
            folder.resolve("spindles"));
    return measure(
        name, input, TextInputFormat.class, workload, Splitting.MAXIMUM, Splitting.ASSORTED);
  }

  private Map<Splitting, JobRun> measure(
      String name,
      org.apache.hadoop.fs.Path input,
      Class<?> format,
      JobRun.Workload workload,
      Splitting... splittings)
      throws Exception {
    Map<Splitting, JobRun> runs = new EnumMap<>(Splitting.class);
    for (Splitting splitting : splittings) {
      JobRun run =
          median(name.equals("grep") ? CLOSE_REPEATS : 1, input, format, splitting, workload);
      runs.put(splitting, run);
      boolean same = run.output().equals(runs.get(splittings[0]).output());
      failed |= !same;
      System.out.printf(
          Locale.ROOT,
          "| %s | %s | %d | %d | %.1f s | %.1f s | %.2f | %d of %d | %s |%n",
          name,
          splitting.name().toLowerCase(Locale.ROOT),
          run.maps(),
          run.containers(),
          run.seconds(),
          run.mapPhaseSeconds(),
          run.waves(),
          run.mapsLocal(),
          run.maps(),
          same ? "yes" : "NO");
    }
    return runs;
  }

  /**
   * Of several runs by time, where two ways are close to each other and a goal compares them; else
   * of one.
   */
  private JobRun median(
      int closeRepeats,
      org.apache.hadoop.fs.Path input,
      Class<?> format,
      Splitting splitting,
      JobRun.Workload workload)
      throws Exception {
    int repeats =
        splitting == Splitting.COMBINE || splitting == Splitting.MAXIMUM ? closeRepeats : 1;
    List<JobRun> runs = new ArrayList<>();
    for (int i = 0; i < repeats; i++)
      runs.add(JobRun.run(cluster, input, format, splitting, workload));
    runs.sort(Comparator.comparingDouble(JobRun::seconds));
    for (JobRun run : runs) failed |= !run.output().equals(runs.get(0).output());
    return runs.get(repeats / 2);
  }

  private static double ratio(
      Map<Splitting, JobRun> runs,
      Splitting above,
      Splitting below,
      ToDoubleFunction<JobRun> value) {
    return value.applyAsDouble(runs.get(above)) / value.applyAsDouble(runs.get(below));
  }

  /**
   * What a container more costs, from the two extremes, and how much of assorted's time that
   * explains.
   */
  private static void containerCost(String name, Map<Splitting, JobRun> runs) {
    JobRun most = runs.get(Splitting.DEFAULT);
    JobRun fewest = runs.get(Splitting.MAXIMUM);
    JobRun between = runs.get(Splitting.ASSORTED);
    double each = (most.seconds() - fewest.seconds()) / (most.containers() - fewest.containers());
    int more = between.containers() - fewest.containers();
    System.out.printf(
        Locale.ROOT,
        "%n%s: default's %d containers more than maximum's cost %.2f s each; at that, assorted's %d"
            + " more cost %.1f s, and it took %.1f s longer%n%n",
        name,
        most.containers() - fewest.containers(),
        each,
        more,
        more * each,
        between.seconds() - fewest.seconds());
  }

  private void goal(String name, double limit, boolean atLeast, double found) {
    boolean met = atLeast ? found >= limit : found <= limit;
    failed |= !met;
    System.out.printf(
        Locale.ROOT,
        "%n%s: %.2f, goal %s %.2f: %s%n%n",
        name,
        found,
        atLeast ? "at least" : "at most",
        limit,
        met ? "met" : "MISSED");
  }
}
