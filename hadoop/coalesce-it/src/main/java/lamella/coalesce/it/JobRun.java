package lamella.coalesce.it;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicInteger;
import lamella.coalesce.Settings;
import lamella.coalesce.mapreduce.CoalescingInputFormat;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.mapreduce.Counters;
import org.apache.hadoop.mapreduce.InputFormat;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.JobCounter;
import org.apache.hadoop.mapreduce.TaskType;
import org.apache.hadoop.mapreduce.jobhistory.JobHistoryParser;
import org.apache.hadoop.mapreduce.lib.input.CombineSequenceFileInputFormat;
import org.apache.hadoop.mapreduce.lib.input.CombineTextInputFormat;
import org.apache.hadoop.mapreduce.lib.input.FileInputFormat;
import org.apache.hadoop.mapreduce.lib.input.SequenceFileInputFormat;
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat;
import org.apache.hadoop.mapreduce.v2.jobhistory.JHAdminConfig;
import org.apache.hadoop.mapreduce.v2.jobhistory.JobHistoryUtils;

/** One job that ran: what it cost, and what it wrote. */
public record JobRun(
    double seconds,
    int maps,
    int containers,
    int mapsLocal,
    int mapsRackLocal,
    int mapsElsewhere,
    double waves,
    double mapPhaseSeconds,
    List<String> output) {

  /** How a job's input is split. */
  public enum Splitting {
    DEFAULT,
    /**
     * Hadoop's own CombineFileInputFormat, told the size that makes one split a slot: what a
     * careful user would do.
     */
    COMBINE,
    MAXIMUM,
    ASSORTED
  }

  /** What differs between workloads; given a job that has its input, output and input format. */
  @FunctionalInterface
  public interface Workload {
    void configure(Job job) throws IOException;
  }

  private static final AtomicInteger RUNS = new AtomicInteger();

  public static JobRun run(
      SmallCluster cluster, Path input, Class<?> format, Splitting splitting, Workload workload)
      throws Exception {
    Configuration conf = cluster.conf();
    Path output = new Path("/output/" + RUNS.incrementAndGet());
    Job job = Job.getInstance(conf, splitting + " " + input);
    FileInputFormat.setInputPaths(job, input);
    FileOutputFormat.setOutputPath(job, output);
    job.setInputFormatClass(format.asSubclass(InputFormat.class));
    job.setNumReduceTasks(1);
    workload.configure(job);
    split(job, cluster, input, format, splitting);

    long started = System.nanoTime();
    if (!job.waitForCompletion(false))
      throw new IOException("the job failed: " + job.getStatus().getFailureInfo());
    double seconds = (System.nanoTime() - started) / 1e9;
    return finished(job, cluster, seconds, lines(cluster.fs(), output));
  }

  /** Has the job's input split so. */
  static void split(
      Job job, SmallCluster cluster, Path input, Class<?> format, Splitting splitting)
      throws IOException {
    if (splitting == Splitting.DEFAULT) return;
    if (splitting == Splitting.COMBINE) {
      long bytes = cluster.fs().getContentSummary(input).getLength();
      long each = (bytes + cluster.slots() - 1) / cluster.slots();
      boolean sequence = SequenceFileInputFormat.class.isAssignableFrom(format);
      Class<?> combining =
          sequence ? CombineSequenceFileInputFormat.class : CombineTextInputFormat.class;
      job.setInputFormatClass(combining.asSubclass(InputFormat.class));
      FileInputFormat.setMaxInputSplitSize(job, each);
      return;
    }
    job.setInputFormatClass(CoalescingInputFormat.class);
    job.getConfiguration().set(Settings.DELEGATE, format.getName());
    job.getConfiguration().set(Settings.SCHEME, splitting.name().toLowerCase(Locale.ROOT));
  }

  private static JobRun finished(Job job, SmallCluster cluster, double seconds, List<String> output)
      throws Exception {
    Counters counters = job.getCounters();
    int maps = (int) counters.findCounter(JobCounter.TOTAL_LAUNCHED_MAPS).getValue();
    int reduces = (int) counters.findCounter(JobCounter.TOTAL_LAUNCHED_REDUCES).getValue();
    List<long[]> spans = mapSpans(job, cluster);
    return new JobRun(
        seconds,
        maps,
        maps + reduces + 1,
        (int) counters.findCounter(JobCounter.DATA_LOCAL_MAPS).getValue(),
        (int) counters.findCounter(JobCounter.RACK_LOCAL_MAPS).getValue(),
        (int) counters.findCounter(JobCounter.OTHER_LOCAL_MAPS).getValue(),
        waves(spans),
        phaseSeconds(spans),
        output);
  }

  /** Start and end of every map attempt, from the job's history file. */
  static List<long[]> mapSpans(Job job, SmallCluster cluster)
      throws IOException, InterruptedException {
    JobHistoryParser.JobInfo info =
        new JobHistoryParser(cluster.fs(), historyFile(job, cluster)).parse();
    List<long[]> spans = new ArrayList<>();
    for (JobHistoryParser.TaskInfo task : info.getAllTasks().values()) {
      if (task.getTaskType() != TaskType.MAP) continue;
      for (JobHistoryParser.TaskAttemptInfo attempt : task.getAllTaskAttempts().values()) {
        spans.add(new long[] {attempt.getStartTime(), attempt.getFinishTime()});
      }
    }
    return spans;
  }

  private static Path historyFile(Job job, SmallCluster cluster)
      throws IOException, InterruptedException {
    String name = job.getJobID().toString();
    Configuration conf = cluster.conf();
    List<String> folders =
        List.of(
            JobHistoryUtils.getConfiguredHistoryIntermediateDoneDirPrefix(conf),
            conf.get(
                JHAdminConfig.MR_HISTORY_DONE_DIR,
                JobHistoryUtils.getConfiguredHistoryServerDoneDirPrefix(conf)));
    for (int tries = 0; tries < 100; tries++) {
      for (String folder : folders) {
        Path path = new Path(folder);
        FileSystem fs = path.getFileSystem(conf);
        if (!fs.exists(path)) continue;
        RemoteIterator<LocatedFileStatus> files = fs.listFiles(path, true);
        while (files.hasNext()) {
          Path file = files.next().getPath();
          if (file.getName().startsWith(name) && file.getName().endsWith(".jhist")) return file;
        }
      }
      Thread.sleep(200);
    }
    throw new IOException("no history of " + name + " in " + folders);
  }

  /**
   * One wave: every map started before any ended. Otherwise the most maps that one slot ran, at
   * least: starts over slots.
   */
  private static double waves(List<long[]> spans) {
    long firstEnd = spans.stream().mapToLong(span -> span[1]).min().orElse(0);
    long inFirstWave = spans.stream().filter(span -> span[0] <= firstEnd).count();
    return inFirstWave == 0 ? 0 : (double) spans.size() / inFirstWave;
  }

  private static double phaseSeconds(List<long[]> spans) {
    long start = spans.stream().mapToLong(span -> span[0]).min().orElse(0);
    long end = spans.stream().mapToLong(span -> span[1]).max().orElse(0);
    return (end - start) / 1000.0;
  }

  /** All lines of a job's output, sorted. */
  static List<String> lines(FileSystem fs, Path folder) throws IOException {
    List<String> lines = new ArrayList<>();
    for (FileStatus file : fs.listStatus(folder, path -> path.getName().startsWith("part-"))) {
      try (BufferedReader reader =
          new BufferedReader(
              new InputStreamReader(fs.open(file.getPath()), StandardCharsets.UTF_8))) {
        for (String line = reader.readLine(); line != null; line = reader.readLine())
          lines.add(line);
      }
    }
    Collections.sort(lines);
    return lines;
  }
}
