package lamella.coalesce.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import lamella.coalesce.Settings;
import lamella.coalesce.mapreduce.CoalescingInputFormat;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.SequenceFile;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.TaskCompletionEvent;
import org.apache.hadoop.mapreduce.lib.input.FileInputFormat;
import org.apache.hadoop.mapreduce.lib.input.SequenceFileInputFormat;
import org.apache.hadoop.mapreduce.lib.input.TextInputFormat;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;

/** One real job per scheme and more, on three nodes of four slots. Counts and contents are asserted, never seconds. */
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
class RealJobsTest {
  private static final Path FOLDER = Path.of("target", "small-cluster");
  private static final org.apache.hadoop.fs.Path MIXED = new org.apache.hadoop.fs.Path("/mixed");
  private static final org.apache.hadoop.fs.Path RECORDS = new org.apache.hadoop.fs.Path("/records");
  private static final org.apache.hadoop.fs.Path LONG = new org.apache.hadoop.fs.Path("/long");

  private static SmallCluster cluster;
  private static JobRun byDefault;

  @BeforeAll
  static void start() throws Exception {
    cluster = new SmallCluster(3, 4, FOLDER);
    FileSystem fs = cluster.fs();
    Data.text(fs, new org.apache.hadoop.fs.Path(MIXED, "a.txt"), (18 << 20) + 12345, 1);
    Data.text(fs, new org.apache.hadoop.fs.Path(MIXED, "b.txt.gz"), 8 << 20, 2);
    Data.text(fs, new org.apache.hadoop.fs.Path(MIXED, "c.txt.bz2"), 4 << 20, 3);
    fs.create(new org.apache.hadoop.fs.Path(MIXED, "empty.txt")).close();
    Data.sequence(cluster.conf(), new org.apache.hadoop.fs.Path(RECORDS, "a.seq"), 300_000, 4);
    Data.longLines(fs, new org.apache.hadoop.fs.Path(LONG, "a.txt"), 33 * 16);
  }

  @AfterAll
  static void stop() {
    if (cluster != null) cluster.close();
  }

  private static JobRun grep(JobRun.Splitting splitting) throws Exception {
    JobRun run = JobRun.run(cluster, MIXED, TextInputFormat.class, splitting, Workloads.grep("w1[0-9]*"));
    System.out.printf("grep, %s: %d maps, %d of them local, %d containers, %.1f s%n",
        splitting, run.maps(), run.mapsLocal(), run.containers(), run.seconds());
    assertFalse(run.output().isEmpty());
    return run;
  }

  @Test
  @Order(1)
  void byDefaultEveryBlockIsAContainer() throws Exception {
    byDefault = grep(JobRun.Splitting.DEFAULT);
    assertTrue(byDefault.maps() >= 22, byDefault.maps() + " maps");
  }

  @Test
  @Order(2)
  void maximumGivesTheSameOutputInOneSplitASlot() throws Exception {
    JobRun run = grep(JobRun.Splitting.MAXIMUM);
    assertEquals(byDefault.output(), run.output());
    assertTrue(run.maps() <= cluster.slots(), run.maps() + " maps");
    assertTrue(run.mapsLocal() + 2 >= run.maps(), run.mapsLocal() + " local of " + run.maps());
  }

  @Test
  @Order(3)
  void assortedGivesTheSameOutputInFewerContainers() throws Exception {
    JobRun run = grep(JobRun.Splitting.ASSORTED);
    assertEquals(byDefault.output(), run.output());
    assertTrue(run.maps() < byDefault.maps(), run.maps() + " maps");
    assertTrue(run.mapsLocal() >= 0.7 * run.maps(), run.mapsLocal() + " local of " + run.maps());
  }

  @Test
  @Order(4)
  void combineGivesTheSameOutput() throws Exception {
    assertEquals(byDefault.output(), grep(JobRun.Splitting.COMBINE).output());
  }

  @Test
  @Order(5)
  void sequenceFilesSortToWhatTheyHold() throws Exception {
    List<String> records = new ArrayList<>();
    try (SequenceFile.Reader reader = new SequenceFile.Reader(
        cluster.conf(), SequenceFile.Reader.file(new org.apache.hadoop.fs.Path(RECORDS, "a.seq")))) {
      LongWritable key = new LongWritable();
      Text value = new Text();
      while (reader.next(key, value)) records.add(key + "\t" + value);
    }
    Collections.sort(records);
    JobRun run = JobRun.run(cluster, RECORDS, SequenceFileInputFormat.class, JobRun.Splitting.MAXIMUM, Workloads.sort());
    assertEquals(cluster.slots(), run.maps());
    assertEquals(300_000, records.size());
    assertEquals(records, run.output());
  }

  @Test
  @Order(6)
  void maximumIsOneWave() throws Exception {
    JobRun run = JobRun.run(cluster, LONG, TextInputFormat.class, JobRun.Splitting.MAXIMUM,
        Workloads.sleep(400, cluster.slotsPerNode, "", false, NodeNames.name(0), FOLDER.resolve("spindles")));
    assertEquals(cluster.slots(), run.maps());
    assertEquals(33 * 16, run.output().size());
    assertEquals(1.0, run.waves(), "by the job's history, a map started after another had ended");
  }

  @Test
  @Order(7)
  void aFileThatIsGoneFailsItsTask() throws Exception {
    org.apache.hadoop.fs.Path input = new org.apache.hadoop.fs.Path("/going");
    for (int i = 0; i < 30; i++) Data.text(cluster.fs(), new org.apache.hadoop.fs.Path(input, "f" + i), 1000, i);
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
    assertTrue(String.join("\n", reasons).contains("/going/f7"), () -> "no task says which file is gone: " + reasons);
  }

  /** Removes a file of the input once the splits are made. */
  public static final class GoneAfterPlanning extends CoalescingInputFormat<LongWritable, Text> {
    @Override
    public List<org.apache.hadoop.mapreduce.InputSplit> getSplits(org.apache.hadoop.mapreduce.JobContext context)
        throws java.io.IOException, InterruptedException {
      List<org.apache.hadoop.mapreduce.InputSplit> splits = super.getSplits(context);
      org.apache.hadoop.fs.Path gone = new org.apache.hadoop.fs.Path("/going/f7");
      gone.getFileSystem(context.getConfiguration()).delete(gone, false);
      return splits;
    }
  }
}
