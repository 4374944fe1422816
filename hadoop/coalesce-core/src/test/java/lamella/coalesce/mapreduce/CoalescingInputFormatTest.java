package lamella.coalesce.mapreduce;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import lamella.coalesce.Settings;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.DataInputBuffer;
import org.apache.hadoop.io.DataOutputBuffer;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.SequenceFile;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.io.Writable;
import org.apache.hadoop.io.compress.CompressionCodec;
import org.apache.hadoop.io.compress.CompressionCodecFactory;
import org.apache.hadoop.mapreduce.InputFormat;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.RecordReader;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.apache.hadoop.mapreduce.lib.input.CombineTextInputFormat;
import org.apache.hadoop.mapreduce.lib.input.FileInputFormat;
import org.apache.hadoop.mapreduce.lib.input.FileSplit;
import org.apache.hadoop.mapreduce.lib.input.NLineInputFormat;
import org.apache.hadoop.mapreduce.lib.input.SequenceFileInputFormat;
import org.apache.hadoop.mapreduce.lib.input.TextInputFormat;
import org.apache.hadoop.mapreduce.task.TaskAttemptContextImpl;
import org.apache.hadoop.util.ReflectionUtils;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The input format over real files of the local file system, with splits sent through their bytes as a job does. */
class CoalescingInputFormatTest {
  @TempDir java.nio.file.Path folder;
  private Configuration conf;
  private FileSystem fs;

  @BeforeEach
  void start() throws IOException {
    conf = new Configuration();
    conf.set("fs.defaultFS", "file:///");
    conf.set(Settings.NODES, "localhost:3");
    fs = FileSystem.get(conf);
  }

  private Path input() {
    return new Path(folder.toUri().toString(), "input");
  }

  private Path path(String name) {
    return new Path(input(), name);
  }

  private void text(String name, int bytes, Random random) throws IOException {
    CompressionCodec codec = new CompressionCodecFactory(conf).getCodec(path(name));
    try (OutputStream raw = fs.create(path(name)); OutputStream out = codec == null ? raw : codec.createOutputStream(raw)) {
      StringBuilder content = new StringBuilder();
      while (content.length() < bytes) {
        content.append(name).append(' ').append(random.nextInt());
        for (int i = random.nextInt(60); i > 0; i--) content.append((char) ('a' + random.nextInt(26)));
        content.append(random.nextInt(20) == 0 ? "\r\n" : "\n");
      }
      content.setLength(bytes);  // so the last line often has no end
      out.write(content.toString().getBytes(StandardCharsets.UTF_8));
    }
  }

  private Job job(Class<?> delegate, String scheme) throws IOException {
    Job job = Job.getInstance(conf);
    FileInputFormat.setInputPaths(job, input());
    job.getConfiguration().set(Settings.DELEGATE, delegate.getName());
    job.getConfiguration().set(Settings.SCHEME, scheme);
    return job;
  }

  /** Every record, sorted; each split written and read again as between client and task. */
  private static <K, V> List<String> read(InputFormat<K, V> format, Job job) throws Exception {
    List<String> records = new ArrayList<>();
    for (InputSplit split : format.getSplits(job)) {
      TaskAttemptContext context = new TaskAttemptContextImpl(new Configuration(job.getConfiguration()), new TaskAttemptID());
      InputSplit sent = sent(split, context.getConfiguration());
      try (RecordReader<K, V> reader = format.createRecordReader(sent, context)) {
        reader.initialize(sent, context);
        while (reader.nextKeyValue()) {
          records.add(reader.getCurrentKey() + "\t" + reader.getCurrentValue());
          float progress = reader.getProgress();
          assertTrue(progress >= 0 && progress <= 1, "progress " + progress);
        }
      }
    }
    Collections.sort(records);
    return records;
  }

  private static InputSplit sent(InputSplit split, Configuration conf) throws Exception {
    DataOutputBuffer out = new DataOutputBuffer();
    ((Writable) split).write(out);
    DataInputBuffer in = new DataInputBuffer();
    in.reset(out.getData(), out.getLength());
    InputSplit copy = ReflectionUtils.newInstance(split.getClass(), conf);
    ((Writable) copy).readFields(in);
    assertEquals(out.getLength(), in.getPosition(), "bytes left over");
    assertEquals(split.getLength(), copy.getLength());
    return copy;
  }

  @ParameterizedTest
  @ValueSource(strings = {"none", "maximum", "assorted", "fixed"})
  void textGzipBzip2AndEmptyFilesGiveTheSameRecords(String scheme) throws Exception {
    for (long seed = 0; seed < 12; seed++) {
      Random random = new Random(seed);
      fs.delete(input(), true);
      for (int i = random.nextInt(4); i >= 0; i--) text("plain" + i, random.nextInt(20_000), random);
      text("packed.gz", random.nextInt(20_000), random);
      text("packed.bz2", random.nextInt(20_000), random);
      fs.create(path("empty")).close();
      Job job = job(TextInputFormat.class, scheme);
      FileInputFormat.setMaxInputSplitSize(job, 100 + random.nextInt(4000));
      assertEquals(read(new TextInputFormat(), job), read(new CoalescingInputFormat<LongWritable, Text>(), job),
          "seed " + seed);
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"maximum", "assorted", "fixed"})
  void sequenceFilesGiveTheSameRecords(String scheme) throws Exception {
    for (SequenceFile.CompressionType compression : SequenceFile.CompressionType.values()) {
      try (SequenceFile.Writer writer = SequenceFile.createWriter(conf, SequenceFile.Writer.file(path("f" + compression)),
          SequenceFile.Writer.keyClass(LongWritable.class), SequenceFile.Writer.valueClass(Text.class),
          SequenceFile.Writer.compression(compression))) {
        for (int i = 0; i < 5000; i++) writer.append(new LongWritable(i), new Text("value " + i));
      }
    }
    Job job = job(SequenceFileInputFormat.class, scheme);
    FileInputFormat.setMaxInputSplitSize(job, 7000);
    assertEquals(read(new SequenceFileInputFormat<LongWritable, Text>(), job),
        read(new CoalescingInputFormat<LongWritable, Text>(), job));
  }

  @Test
  void delegatesWithSplitsOfTheirOwnWork() throws Exception {
    for (int i = 0; i < 20; i++) text("f" + i, 3000, new Random(i));
    Job job = job(CombineTextInputFormat.class, "maximum");
    FileInputFormat.setMaxInputSplitSize(job, 5000);
    assertEquals(read(new CombineTextInputFormat(), job), read(new CoalescingInputFormat<LongWritable, Text>(), job));
    Job lines = job(NLineInputFormat.class, "maximum");
    NLineInputFormat.setNumLinesPerSplit(lines, 3);
    assertEquals(read(new NLineInputFormat(), lines), read(new CoalescingInputFormat<LongWritable, Text>(), lines));
  }

  @Test
  void maximumMakesASplitASlotAndMergesNeighbours() throws Exception {
    text("f", 30_000, new Random(1));
    Job job = job(TextInputFormat.class, "maximum");
    FileInputFormat.setMaxInputSplitSize(job, 1000);
    List<InputSplit> splits = new CoalescingInputFormat<LongWritable, Text>().getSplits(job);
    assertEquals(3, splits.size());
    for (InputSplit split : splits) assertEquals(1, ((Coalesced) split).parts().size(), split.toString());
  }

  @Test
  void splitsOfADelegateThatCutsItselfAreNotMerged() throws Exception {
    text("f", 30_000, new Random(1));
    Job job = job(NLineInputFormat.class, "maximum");
    NLineInputFormat.setNumLinesPerSplit(job, 10);
    int lines = new NLineInputFormat().getSplits(job).size();
    int parts = 0;
    for (InputSplit split : new CoalescingInputFormat<LongWritable, Text>().getSplits(job)) {
      parts += ((Coalesced) split).parts().size();
    }
    assertEquals(lines, parts);
  }

  @Test
  void aMapperIsToldWhichPartItReads() throws Exception {
    for (int i = 0; i < 9; i++) text("f" + i, 500, new Random(i));
    Job job = job(TextInputFormat.class, "maximum");
    CoalescingInputFormat<LongWritable, Text> format = new CoalescingInputFormat<>();
    int records = 0;
    for (InputSplit split : format.getSplits(job)) {
      TaskAttemptContext context = new TaskAttemptContextImpl(job.getConfiguration(), new TaskAttemptID());
      FileSplit asFile = assertInstanceOf(FileSplit.class, split);
      try (RecordReader<LongWritable, Text> reader = format.createRecordReader(split, context)) {
        reader.initialize(split, context);
        while (reader.nextKeyValue()) {
          String file = context.getConfiguration().get("mapreduce.map.input.file");
          assertEquals(asFile.getPath().toString(), file);
          assertEquals("0", context.getConfiguration().get("mapreduce.map.input.start"));
          assertEquals("500", context.getConfiguration().get("mapreduce.map.input.length"));
          String name = new Path(file).getName();
          if (reader.getCurrentKey().get() == 0) assertTrue(reader.getCurrentValue().toString().startsWith(name));
          records++;
        }
      }
    }
    assertTrue(records > 9);
  }

  @Test
  void aFileThatDisappearsFailsTheTaskAsTheDelegateWould() throws Exception {
    for (int i = 0; i < 9; i++) text("f" + i, 500, new Random(i));
    Job job = job(TextInputFormat.class, "maximum");
    CoalescingInputFormat<LongWritable, Text> format = new CoalescingInputFormat<>();
    List<InputSplit> splits = format.getSplits(job);
    fs.delete(path("f4"), false);
    assertThrows(FileNotFoundException.class, () -> {
      for (InputSplit split : splits) {
        TaskAttemptContext context = new TaskAttemptContextImpl(job.getConfiguration(), new TaskAttemptID());
        try (RecordReader<LongWritable, Text> reader = format.createRecordReader(split, context)) {
          reader.initialize(split, context);
          while (reader.nextKeyValue()) {
            // only reading
          }
        }
      }
    });
  }

  @Test
  void anEmptyFolderIsAnEmptyInput() throws Exception {
    fs.mkdirs(input());
    assertEquals(List.of(), new CoalescingInputFormat<LongWritable, Text>().getSplits(job(TextInputFormat.class, "maximum")));
  }

  private String complaint(Class<? extends Exception> type, Job job) {
    return assertThrows(type, () -> new CoalescingInputFormat<LongWritable, Text>().getSplits(job)).getMessage();
  }

  @ParameterizedTest
  @ValueSource(strings = {
      Settings.SCHEME + "=biggest", Settings.SCHEME + "=", Settings.OPEN_COST_BYTES + "=-1", Settings.OPEN_COST_BYTES + "=4x",
      Settings.ASSORTED_RATIO + "=0", Settings.ASSORTED_RATIO + "=1", Settings.ASSORTED_RATIO + "=half",
      Settings.ASSORTED_SHARE + "=1.5", Settings.ASSORTED_SHARE + "=NaN", Settings.ASSORTED_REMOTE_SHARE_MAX + "=-0.1",
      Settings.ASSORTED_REMOTE_SHARE_MAX + "=0", Settings.FIXED_UNITS + "=0", Settings.SLOTS_PER_NODE + "=0",
      Settings.SLOTS_PER_NODE + "=-3", Settings.SLOTS_PER_NODE + "=99999999999", Settings.SLOTS_RESERVED + "=-1",
      Settings.NODES + "=a:0", Settings.NODES + "=:4", Settings.NODES + "=", Settings.SHAPE + "=guess",
      Settings.SHAPE + "=yarn", Settings.DELEGATE + "=no.such.Format", Settings.DELEGATE + "=java.lang.String",
      Settings.DELEGATE + "=lamella.coalesce.mapreduce.CoalescingInputFormat",
      Settings.DELEGATE + "=org.apache.hadoop.mapreduce.lib.input.FileInputFormat"})
  void badSettingsAreNamedWithWhatIsAllowed(String setting) throws Exception {
    text("f", 100, new Random(1));
    Job job = job(TextInputFormat.class, "maximum");
    String key = setting.substring(0, setting.indexOf('='));
    if (key.equals(Settings.SHAPE)) job.getConfiguration().unset(Settings.NODES);
    job.getConfiguration().set(key, setting.substring(key.length() + 1));
    String message = complaint(IllegalArgumentException.class, job);
    assertTrue(message.startsWith(key + " is '") && message.contains("expected "), message);
  }

  @Test
  void missingAndUnnamedInputIsSaidWithItsKey() throws Exception {
    Job job = job(TextInputFormat.class, "maximum");
    FileInputFormat.setInputPaths(job, path("nowhere"));
    String message = complaint(IOException.class, job);
    assertTrue(message.contains(FileInputFormat.INPUT_DIR) && message.contains("nowhere"), message);
    job.getConfiguration().unset(FileInputFormat.INPUT_DIR);
    message = complaint(IOException.class, job);
    assertTrue(message.contains(FileInputFormat.INPUT_DIR), message);
  }

  /** Stands for a path that this user may not read; root, who often runs tests, may read all. */
  public static final class Unreadable extends TextInputFormat {
    @Override
    public List<InputSplit> getSplits(org.apache.hadoop.mapreduce.JobContext context) throws IOException {
      throw new org.apache.hadoop.security.AccessControlException("Permission denied: user=someone, access=READ_EXECUTE");
    }
  }

  @Test
  void unreadableInputIsSaidWithItsKey() throws Exception {
    String message = complaint(IOException.class, job(Unreadable.class, "maximum"));
    assertTrue(message.contains(FileInputFormat.INPUT_DIR) && message.contains("Permission denied"), message);
  }

  /** Its splits name no hosts, as those of a database's format would. */
  public static final class Hostless extends TextInputFormat {
    @Override
    public List<InputSplit> getSplits(org.apache.hadoop.mapreduce.JobContext context) throws IOException {
      List<InputSplit> splits = new ArrayList<>();
      for (InputSplit split : super.getSplits(context)) {
        FileSplit file = (FileSplit) split;
        splits.add(new FileSplit(file.getPath(), file.getStart(), file.getLength(), new String[0]));
      }
      return splits;
    }
  }

  @Test
  void noNodesAtAllIsSaidWithTheKeyThatHelps() throws Exception {
    text("f", 100, new Random(1));
    conf.unset(Settings.NODES);
    String message = complaint(IOException.class, job(Hostless.class, "maximum"));
    assertTrue(message.contains(Settings.NODES), message);
  }
}
