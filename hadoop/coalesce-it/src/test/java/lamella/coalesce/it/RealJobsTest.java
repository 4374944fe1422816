package lamella.coalesce.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import lamella.coalesce.Settings;
import lamella.coalesce.mapreduce.Coalesced;
import lamella.coalesce.mapreduce.CoalescingInputFormat;
import org.apache.hadoop.fs.BlockLocation;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.io.SequenceFile;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.JobCounter;
import org.apache.hadoop.mapreduce.Mapper;
import org.apache.hadoop.mapreduce.TaskCompletionEvent;
import org.apache.hadoop.mapreduce.lib.input.FileInputFormat;
import org.apache.hadoop.mapreduce.lib.input.FileSplit;
import org.apache.hadoop.mapreduce.lib.input.SequenceFileInputFormat;
import org.apache.hadoop.mapreduce.lib.input.TextInputFormat;
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;

/**
 * One real job per scheme and more, on three nodes of two slots. Counts and contents are asserted,
 * never seconds. A container costs three seconds of a processor, so there are no more of them than
 * what is asserted needs.
 */
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
class RealJobsTest {
  private static final Path FOLDER = Path.of("target", "small-cluster");
  private static final org.apache.hadoop.fs.Path MIXED = new org.apache.hadoop.fs.Path("/mixed");
  private static final org.apache.hadoop.fs.Path RECORDS =
      new org.apache.hadoop.fs.Path("/records");
  private static final org.apache.hadoop.fs.Path LONG = new org.apache.hadoop.fs.Path("/long");

  private static final String REGEX = "w1[0-9]*";
  private static final int RECORD_COUNT = 150_000;
  private static final int LINES = 16 * 16; // of 64 KiB: 16 blocks

  private static SmallCluster cluster;
  private static List<String> byDefault;
  private static int splitsByDefault;

  @BeforeAll
  static void start() throws Exception {
    cluster = new SmallCluster(3, 2, FOLDER);
    FileSystem fs = cluster.fs();
    writeMixed(fs);
    fs.create(new org.apache.hadoop.fs.Path(MIXED, "empty.txt")).close();
    Data.sequence(cluster.conf(), new org.apache.hadoop.fs.Path(RECORDS, "a.seq"), RECORD_COUNT, 4);
    Data.longLines(fs, new org.apache.hadoop.fs.Path(LONG, "a.txt"), LINES);
  }

  /**
   * Replicas on pairs of nodes, another for each block, such that every node has more than its
   * share: as the name node draws them, some layouts leave no plan nine tenths of the bytes, the
   * less so as a gzip file is told by its first block's nodes.
   */
  private static void writeMixed(FileSystem fs) throws Exception {
    int blocks = 12;
    org.apache.hadoop.fs.Path text = new org.apache.hadoop.fs.Path(MIXED, "a.txt");
    org.apache.hadoop.fs.Path[] joined = new org.apache.hadoop.fs.Path[blocks - 1];
    Data.text(fs, text, 1 << 20, 1, pair(0));
    for (int i = 1; i < blocks; i++) { // one file of many pairs: what is written for each is joined
      joined[i - 1] = new org.apache.hadoop.fs.Path(MIXED, "a.txt." + i);
      Data.text(fs, joined[i - 1], (1 << 20) + (i == blocks - 1 ? 12345 : 0), 10 + i, pair(i));
    }
    fs.concat(text, joined);
    Data.text(fs, new org.apache.hadoop.fs.Path(MIXED, "b.txt.gz"), 4 << 20, 2, pair(0));
    Data.text(fs, new org.apache.hadoop.fs.Path(MIXED, "c.txt.bz2"), 2 << 20, 3, pair(1));
    for (int i = 0; i < blocks; i++) awaitOn(i, "a.txt", (long) i << 20, 1);
    awaitOn(0, "b.txt.gz", 0, Long.MAX_VALUE);
    awaitOn(1, "c.txt.bz2", 0, Long.MAX_VALUE);
  }

  private static InetSocketAddress[] pair(int i) {
    return new InetSocketAddress[] {cluster.storage(i % 3), cluster.storage((i + 1) % 3)};
  }

  /** A file is closed once one of its replicas is reported; the other's report is to come. */
  private static void awaitOn(int pair, String name, long from, long bytes) throws Exception {
    Set<String> expected = Set.of(NodeNames.name(pair % 3), NodeNames.name((pair + 1) % 3));
    List<Set<String>> found = new ArrayList<>();
    for (int tries = 0; tries < 300; tries++) {
      found.clear();
      for (BlockLocation block :
          cluster
              .fs()
              .getFileBlockLocations(new org.apache.hadoop.fs.Path(MIXED, name), from, bytes))
        found.add(Set.of(block.getHosts()));
      if (!found.isEmpty() && found.stream().allMatch(expected::equals)) return;
      Thread.sleep(100);
    }
    assertEquals(List.of(expected), found, name + " from " + from);
  }

  @AfterAll
  static void stop() {
    if (cluster != null) cluster.close();
  }

  private static JobRun grep(JobRun.Splitting splitting) throws Exception {
    JobRun run =
        JobRun.run(cluster, MIXED, TextInputFormat.class, splitting, Workloads.grep(REGEX));
    System.out.printf(
        "grep, %s: %d maps, %d of them local, %d containers, %.1f s%n",
        splitting, run.maps(), run.mapsLocal(), run.containers(), run.seconds());
    assertFalse(run.output().isEmpty());
    return run;
  }

  /**
   * Nine tenths of the bytes lie where their split says, by the name node (by chance it would be
   * two thirds), and YARN knows the nodes by the names that splits give. That it then waits for
   * them is not asked: with three nodes it gives a map to another after three heartbeats, which on
   * a busy machine is most of them.
   */
  private static void assertSplitsNameTheirNodes(JobRun.Splitting splitting, JobRun run)
      throws Exception {
    Job job = Job.getInstance(cluster.conf());
    FileInputFormat.setInputPaths(job, MIXED);
    JobRun.split(job, cluster, MIXED, TextInputFormat.class, splitting);
    long bytes = 0;
    long local = 0;
    for (InputSplit split : new CoalescingInputFormat<LongWritable, Text>().getSplits(job)) {
      Set<String> named = Set.of(split.getLocations());
      for (InputSplit part : Coalesced.partsOf(split)) {
        FileSplit file = (FileSplit) part;
        long end = file.getStart() + file.getLength();
        bytes += file.getLength();
        for (BlockLocation block :
            cluster.fs().getFileBlockLocations(file.getPath(), file.getStart(), file.getLength())) {
          if (Arrays.stream(block.getHosts()).noneMatch(named::contains)) continue;
          local +=
              Math.min(end, block.getOffset() + block.getLength())
                  - Math.max(file.getStart(), block.getOffset());
        }
      }
    }
    assertTrue(local >= 0.9 * bytes, local + " bytes local of " + bytes);
    assertTrue(run.mapsLocal() > 0, "none local of " + run.maps());
  }

  /**
   * What the job writes without coalescing: run in this process, which needs no container for each
   * block.
   */
  @Test
  @Order(1)
  void byDefaultEveryBlockIsASplit() throws Exception {
    Job job = Job.getInstance(cluster.conf());
    job.getConfiguration().set("mapreduce.framework.name", "local");
    job.getConfiguration()
        .set(
            "mapreduce.cluster.local.dir", FOLDER.resolve("local-job").toAbsolutePath().toString());
    org.apache.hadoop.fs.Path output = new org.apache.hadoop.fs.Path("/by-default");
    FileInputFormat.setInputPaths(job, MIXED);
    FileOutputFormat.setOutputPath(job, output);
    job.setInputFormatClass(TextInputFormat.class);
    Workloads.grep(REGEX).configure(job);
    assertTrue(job.waitForCompletion(false));
    byDefault = JobRun.lines(cluster.fs(), output);
    assertFalse(byDefault.isEmpty());
    splitsByDefault = new TextInputFormat().getSplits(job).size();
    assertTrue(splitsByDefault >= 15, splitsByDefault + " splits");
  }

  @Test
  @Order(2)
  void maximumGivesTheSameOutputInOneSplitASlot() throws Exception {
    JobRun run = grep(JobRun.Splitting.MAXIMUM);
    assertEquals(byDefault, run.output());
    assertTrue(run.maps() <= cluster.slots(), run.maps() + " maps");
    assertSplitsNameTheirNodes(JobRun.Splitting.MAXIMUM, run);
  }

  @Test
  @Order(3)
  void assortedGivesTheSameOutputInFewerContainers() throws Exception {
    JobRun run = grep(JobRun.Splitting.ASSORTED);
    assertEquals(byDefault, run.output());
    assertTrue(run.maps() < splitsByDefault, run.maps() + " maps");
    assertSplitsNameTheirNodes(JobRun.Splitting.ASSORTED, run);
  }

  @Test
  @Order(4)
  void sequenceFilesSortToWhatTheyHold() throws Exception {
    List<String> records = new ArrayList<>();
    try (SequenceFile.Reader reader =
        new SequenceFile.Reader(
            cluster.conf(),
            SequenceFile.Reader.file(new org.apache.hadoop.fs.Path(RECORDS, "a.seq")))) {
      LongWritable key = new LongWritable();
      Text value = new Text();
      while (reader.next(key, value)) records.add(key + "\t" + value);
    }
    Collections.sort(records);
    JobRun run =
        JobRun.run(
            cluster,
            RECORDS,
            SequenceFileInputFormat.class,
            JobRun.Splitting.MAXIMUM,
            Workloads.sort());
    assertEquals(cluster.slots(), run.maps());
    assertEquals(RECORD_COUNT, records.size());
    assertEquals(records, run.output());
  }

  @Test
  @Order(5)
  void aFileThatIsGoneFailsItsTask() throws Exception {
    org.apache.hadoop.fs.Path input = new org.apache.hadoop.fs.Path("/going");
    for (int i = 0; i < 30; i++)
      Data.text(cluster.fs(), new org.apache.hadoop.fs.Path(input, "f" + i), 1000, i);
    Job job = Job.getInstance(cluster.conf());
    FileInputFormat.setInputPaths(job, input);
    job.setOutputFormatClass(org.apache.hadoop.mapreduce.lib.output.NullOutputFormat.class);
    job.setInputFormatClass(GoneAfterPlanning.class);
    job.getConfiguration().set(Settings.SCHEME, "fixed");
    job.getConfiguration().setInt(Settings.FIXED_UNITS, 10);
    job.getConfiguration().setInt("mapreduce.map.maxattempts", 1);
    job.setNumReduceTasks(0);
    assertFalse(job.waitForCompletion(false));
    List<String> reasons = new ArrayList<>();
    for (TaskCompletionEvent event : job.getTaskCompletionEvents(0, 100)) {
      Collections.addAll(reasons, job.getTaskDiagnostics(event.getTaskAttemptId()));
    }
    assertTrue(
        String.join("\n", reasons).contains("/going/f7"),
        () -> "no task says which file is gone: " + reasons);
  }

  /**
   * The commands of docs/COALESCING.md, word for word, with nothing of this project but the jar
   * that it names.
   */
  @Test
  @Order(6)
  void theDocumentedCommandsWork() throws Exception {
    FileSystem fs = cluster.fs();
    org.apache.hadoop.fs.Path in = new org.apache.hadoop.fs.Path("/in");
    for (int i = 0; i < 3; i++)
      Data.text(fs, new org.apache.hadoop.fs.Path(in, "f" + i), (8 << 20) + i, 10 + i);
    Shell shell = new Shell(cluster, FOLDER.resolve("shell"));

    Shell.Result job = shell.run(Shell.documented("wordcount"));
    assertEquals(0, job.status(), job.output());
    Matcher launched = Pattern.compile("Launched map tasks=(\\d+)").matcher(job.output());
    assertTrue(
        launched.find() && Integer.parseInt(launched.group(1)) == cluster.slots(), job.output());
    Map<String, Integer> counts = new TreeMap<>();
    for (int i = 0; i < 3; i++) {
      try (var lines =
          new BufferedReader(
              new InputStreamReader(fs.open(new org.apache.hadoop.fs.Path(in, "f" + i))))) {
        lines
            .lines()
            .flatMap(line -> Arrays.stream(line.trim().split("\\s+")))
            .forEach(word -> counts.merge(word, 1, Integer::sum));
      }
    }
    List<String> expected = new ArrayList<>();
    counts.forEach((word, count) -> expected.add(word + "\t" + count));
    Collections.sort(expected);
    assertEquals(expected, JobRun.lines(fs, new org.apache.hadoop.fs.Path("/out")));

    Shell.Result streaming = shell.run(Shell.documented("hadoop-streaming"));
    assertEquals(0, streaming.status(), streaming.output());
    int lines = 0;
    for (int i = 0; i < 3; i++) {
      try (var file =
          new BufferedReader(
              new InputStreamReader(fs.open(new org.apache.hadoop.fs.Path(in, "f" + i))))) {
        lines += (int) file.lines().count();
      }
    }
    List<String> counted = JobRun.lines(fs, new org.apache.hadoop.fs.Path("/out-streaming"));
    assertEquals(cluster.slots(), counted.size(), "a line of wc for each split");
    assertEquals(lines, counted.stream().mapToInt(line -> Integer.parseInt(line.trim())).sum());

    Shell.Result plan = shell.run(Shell.documented(" plan "));
    assertEquals(0, plan.status(), plan.output());
    assertTrue(
        plan.output().contains(cluster.slots() + " slots on 3 nodes")
            && plan.output().contains("maximum*"),
        plan.output());
  }

  /**
   * Writes, for each record, the file that it was told of in setup(): right only if a split is of
   * one file.
   */
  public static final class FileNameMapper extends Mapper<LongWritable, Text, Text, Text> {
    private Text name;

    @Override
    protected void setup(Context context) {
      name = new Text(((FileSplit) context.getInputSplit()).getPath().getName());
    }

    @Override
    protected void map(LongWritable key, Text value, Context context)
        throws java.io.IOException, InterruptedException {
      context.write(name, value);
    }
  }

  private static Job namesJob(String files, String output) throws Exception {
    Job job = Job.getInstance(cluster.conf());
    FileInputFormat.setInputPaths(job, new org.apache.hadoop.fs.Path("/names"));
    FileOutputFormat.setOutputPath(job, new org.apache.hadoop.fs.Path(output));
    job.setInputFormatClass(CoalescingInputFormat.class);
    job.setMapperClass(FileNameMapper.class);
    job.setOutputKeyClass(Text.class);
    job.setOutputValueClass(Text.class);
    job.setNumReduceTasks(0);
    if (files != null) job.getConfiguration().set(Settings.FILES, files);
    job.getConfiguration().setInt(Settings.SLOTS_PER_NODE, 1); // two slots for four files
    job.getConfiguration().setInt("mapreduce.map.maxattempts", 1);
    return job;
  }

  @Test
  @Order(7)
  void aMapperThatAsksForItsFileInSetupIsRightOrFails() throws Exception {
    List<String> expected = new ArrayList<>();
    for (int i = 0; i < 4; i++) {
      try (var out = cluster.fs().create(new org.apache.hadoop.fs.Path("/names/f" + i))) {
        out.writeBytes("of f" + i + "\n");
      }
      expected.add("f" + i + "\tof f" + i);
    }
    Job byDefaultFails = namesJob(null, "/names-checked");
    assertFalse(byDefaultFails.waitForCompletion(false));
    String reasons = "";
    for (TaskCompletionEvent event : byDefaultFails.getTaskCompletionEvents(0, 100)) {
      reasons += String.join("\n", byDefaultFails.getTaskDiagnostics(event.getTaskAttemptId()));
    }
    assertTrue(reasons.contains("CoalescedSplit cannot be cast"), reasons);
    assertTrue(namesJob("apart", "/names-apart").waitForCompletion(false));
    assertEquals(
        expected, JobRun.lines(cluster.fs(), new org.apache.hadoop.fs.Path("/names-apart")));
  }

  /**
   * What YARN runs at once is what was planned for, also where memory, heap and limits say
   * different things.
   */
  @Test
  @Order(8)
  void maximumIsOneWaveOnTheSlotsThatYarnGives() throws Exception {
    JobRun byHeap =
        JobRun.run(
            cluster,
            LONG,
            TextInputFormat.class,
            JobRun.Splitting.MAXIMUM,
            job -> {
              Workloads.sleep(
                      400, // 20 s a map: even on a busy machine the last has begun by then
                      cluster.slotsPerNode,
                      "",
                      false,
                      NodeNames.name(0),
                      FOLDER.resolve("spindles"))
                  .configure(job);
              job.getConfiguration()
                  .unset(
                      "mapreduce.map.memory.mb"); // 300 / 0.8 is 375 MB, rounded up to 512: by
                                                  // default 1024
              job.getConfiguration()
                  .set(
                      "mapreduce.map.java.opts",
                      job.getConfiguration()
                          .get("mapreduce.map.java.opts")
                          .replace("-Xmx256m", "-Xmx300m"));
            });
    assertEquals(cluster.slots(), byHeap.maps());
    assertEquals(LINES, byHeap.output().size());
    assertEquals(
        1.0, byHeap.waves(), "by the job's history, a map started after another had ended");
    JobRun limited =
        JobRun.run(
            cluster,
            LONG,
            TextInputFormat.class,
            JobRun.Splitting.MAXIMUM,
            job -> {
              Workloads.sleep(
                      200,
                      cluster.slotsPerNode,
                      "",
                      false,
                      NodeNames.name(0),
                      FOLDER.resolve("spindles"))
                  .configure(job);
              job.getConfiguration().setInt("mapreduce.job.running.map.limit", 2);
            });
    assertEquals(2, limited.maps());
    assertEquals(1.0, limited.waves());
  }

  /** Fails once it has written some of its records, the first time that it is tried. */
  public static final class FailsOnceMapper
      extends Mapper<LongWritable, Text, LongWritable, NullWritable> {
    private int records;

    @Override
    protected void map(LongWritable key, Text value, Context context)
        throws java.io.IOException, InterruptedException {
      if (++records == 20
          && context.getTaskAttemptID().getTaskID().getId() == 1
          && context.getTaskAttemptID().getId() == 0) {
        throw new java.io.IOException("the first attempt fails, as the test wants");
      }
      context.write(key, NullWritable.get());
    }
  }

  private static Job longLines(String output, Class<? extends Mapper<?, ?, ?, ?>> mapper)
      throws Exception {
    Job job = Job.getInstance(cluster.conf());
    FileInputFormat.setInputPaths(job, LONG);
    FileOutputFormat.setOutputPath(job, new org.apache.hadoop.fs.Path(output));
    job.setInputFormatClass(CoalescingInputFormat.class);
    job.setMapperClass(mapper);
    job.setOutputKeyClass(LongWritable.class);
    job.setOutputValueClass(NullWritable.class);
    job.setNumReduceTasks(0);
    return job;
  }

  private static void assertEveryLineOnce(String output) throws Exception {
    List<Long> expected = new ArrayList<>();
    for (long i = 0; i < LINES; i++) expected.add(i << 16);
    List<Long> found = new ArrayList<>();
    for (String line : JobRun.lines(cluster.fs(), new org.apache.hadoop.fs.Path(output)))
      found.add(Long.parseLong(line));
    Collections.sort(found);
    assertEquals(expected, found);
  }

  /**
   * A retry repeats its whole split, all parts from the first; nothing is lost and nothing comes
   * twice.
   */
  @Test
  @Order(9)
  void aFailedAttemptIsRepeatedWhole() throws Exception {
    Job job = longLines("/failed-once", FailsOnceMapper.class);
    job.getConfiguration().setInt(Settings.SLOTS_PER_NODE, 1);
    assertTrue(job.waitForCompletion(false));
    assertEquals(1, job.getCounters().findCounter(JobCounter.NUM_FAILED_MAPS).getValue());
    assertEquals(2 + 1, job.getCounters().findCounter(JobCounter.TOTAL_LAUNCHED_MAPS).getValue());
    assertEveryLineOnce("/failed-once");
  }

  /**
   * Far slower than the others in the first attempt of one task; at its own speed if that is tried
   * again.
   */
  public static final class SlowOnceMapper
      extends Mapper<LongWritable, Text, LongWritable, NullWritable> {
    static final int SLOW_TASK = 1;

    @Override
    protected void map(LongWritable key, Text value, Context context)
        throws java.io.IOException, InterruptedException {
      boolean slow =
          context.getTaskAttemptID().getTaskID().getId() == SLOW_TASK
              && context.getTaskAttemptID().getId() == 0;
      Thread.sleep(slow ? 5000 : 20);
      context.write(key, NullWritable.get());
    }
  }

  /**
   * One full wave leaves a copy of a slow task no slot until another task has ended; then it gets
   * one, and ends first.
   */
  @Test
  @Order(10)
  void aSlowTaskIsCopiedOnceTheWaveHasASlotFree() throws Exception {
    Job job = longLines("/slow-once", SlowOnceMapper.class);
    job.getConfiguration().setBoolean("mapreduce.map.speculative", true);
    job.getConfiguration().setInt("mapreduce.task.progress-report.interval", 500);
    assertTrue(job.waitForCompletion(false));
    // On a busy machine other tasks seem slow, too, and are copied: one more was seen. How many
    // attempts the counters call killed depends on how far the job was when it ended: 0 and 2 were
    // seen for one copy.
    long launched = job.getCounters().findCounter(JobCounter.TOTAL_LAUNCHED_MAPS).getValue();
    assertTrue(launched > cluster.slots(), launched + " attempts: the slow task was not copied");
    boolean copyWon = false;
    for (TaskCompletionEvent event : job.getTaskCompletionEvents(0, 100)) {
      boolean isCopyOfSlow =
          event.isMapTask()
              && event.getTaskAttemptId().getTaskID().getId() == SlowOnceMapper.SLOW_TASK
              && event.getTaskAttemptId().getId() > 0;
      copyWon |= isCopyOfSlow && event.getStatus() == TaskCompletionEvent.Status.SUCCEEDED;
    }
    assertTrue(copyWon, "the slow task's copy did not end first");
    assertEveryLineOnce("/slow-once");
    List<long[]> spans = JobRun.mapSpans(job, cluster);
    long copyStarted = spans.stream().mapToLong(span -> span[0]).max().orElseThrow();
    long firstEnded = spans.stream().mapToLong(span -> span[1]).min().orElseThrow();
    assertTrue(
        copyStarted >= firstEnded,
        "a copy started " + (firstEnded - copyStarted) + " ms before a task had ended");
  }

  /** Passes keys on, slowly enough for two jobs to meet. */
  public static final class KeyMapper
      extends Mapper<LongWritable, Text, LongWritable, NullWritable> {
    @Override
    protected void map(LongWritable key, Text value, Context context)
        throws java.io.IOException, InterruptedException {
      Thread.sleep(20);
      context.write(key, NullWritable.get());
    }
  }

  /**
   * Each plans for the whole cluster, so one waits for the other's containers; both end, and with
   * all records.
   */
  @Test
  @Order(11)
  void twoJobsAtOnceBothEnd() throws Exception {
    Job first = longLines("/two-first", KeyMapper.class);
    Job second = longLines("/two-second", KeyMapper.class);
    first.submit();
    second.submit();
    assertTrue(first.monitorAndPrintJob());
    assertTrue(second.monitorAndPrintJob());
    assertEveryLineOnce("/two-first");
    assertEveryLineOnce("/two-second");
  }

  /** Removes a file of the input once the splits are made. */
  public static final class GoneAfterPlanning extends CoalescingInputFormat<LongWritable, Text> {
    @Override
    public List<InputSplit> getSplits(org.apache.hadoop.mapreduce.JobContext context)
        throws java.io.IOException, InterruptedException {
      List<InputSplit> splits = super.getSplits(context);
      org.apache.hadoop.fs.Path gone = new org.apache.hadoop.fs.Path("/going/f7");
      gone.getFileSystem(context.getConfiguration()).delete(gone, false);
      return splits;
    }
  }
}
