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
import java.util.Map;
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
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapreduce.InputFormat;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.Mapper;
import org.apache.hadoop.mapreduce.RecordReader;
import org.apache.hadoop.mapreduce.RecordWriter;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.apache.hadoop.mapreduce.lib.input.CombineTextInputFormat;
import org.apache.hadoop.mapreduce.lib.input.DelegatingInputFormat;
import org.apache.hadoop.mapreduce.lib.input.DelegatingMapper;
import org.apache.hadoop.mapreduce.lib.input.FileInputFormat;
import org.apache.hadoop.mapreduce.lib.input.FileSplit;
import org.apache.hadoop.mapreduce.lib.input.MultipleInputs;
import org.apache.hadoop.mapreduce.lib.input.NLineInputFormat;
import org.apache.hadoop.mapreduce.lib.input.SequenceFileInputFormat;
import org.apache.hadoop.mapreduce.lib.input.TextInputFormat;
import org.apache.hadoop.mapreduce.lib.map.WrappedMapper;
import org.apache.hadoop.mapreduce.task.MapContextImpl;
import org.apache.hadoop.mapreduce.task.TaskAttemptContextImpl;
import org.apache.hadoop.util.ReflectionUtils;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * The input format over real files of the local file system, with splits sent through their bytes
 * as a job does.
 */
class CoalescingInputFormatTest {
  @TempDir java.nio.file.Path folder;
  private Configuration conf;
  private FileSystem fs;

  @BeforeEach
  void start() throws IOException {
    conf = new Configuration();
    conf.set("fs.defaultFS", "file:///");
    conf.set(Settings.NODES, "localhost:3");
    conf.set(Settings.SPLIT_BYTES_MIN, "0"); // so that little input makes several splits
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
    try (OutputStream raw = fs.create(path(name));
        OutputStream out = codec == null ? raw : codec.createOutputStream(raw)) {
      StringBuilder content = new StringBuilder();
      while (content.length() < bytes) {
        content.append(name).append(' ').append(random.nextInt());
        for (int i = random.nextInt(60); i > 0; i--)
          content.append((char) ('a' + random.nextInt(26)));
        content.append(random.nextInt(20) == 0 ? "\r\n" : "\n");
      }
      content.setLength(bytes); // so the last line often has no end
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

  /**
   * What was set of a configuration: Hadoop's reader looks through all of it at each file that it
   * opens.
   */
  private static JobConf withoutDefaults(Configuration conf) {
    JobConf set = new JobConf(false);
    for (Map.Entry<String, String> entry : conf) {
      String[] sources = conf.getPropertySources(entry.getKey());
      boolean isDefault = sources != null && sources[sources.length - 1].endsWith("-default.xml");
      if (!isDefault) set.set(entry.getKey(), entry.getValue());
    }
    return set;
  }

  /** Every record, sorted; each split written and read again as between client and task. */
  private static <K, V> List<String> read(InputFormat<K, V> format, Job job) throws Exception {
    List<String> records = new ArrayList<>();
    TaskAttemptContext context =
        new TaskAttemptContextImpl(withoutDefaults(job.getConfiguration()), new TaskAttemptID());
    for (InputSplit split : format.getSplits(job)) {
      InputSplit sent = sent(split, context.getConfiguration());
      try (RecordReader<K, V> reader = format.createRecordReader(sent, context)) {
        reader.initialize(sent, context);
        while (reader.nextKeyValue()) {
          records.add(reader.getCurrentKey() + "\t" + reader.getCurrentValue());
          float progress = reader.getProgress();
          boolean ours =
              format
                  instanceof
                  CoalescingInputFormat; // Hadoop's own answers anything past a short range
          assertTrue(!ours || progress >= 0 && progress <= 1, "progress " + progress);
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
      for (int i = random.nextInt(4); i >= 0; i--)
        text("plain" + i, random.nextInt(20_000), random);
      text("packed.gz", random.nextInt(20_000), random);
      text("packed.bz2", random.nextInt(20_000), random);
      fs.create(path("empty")).close();
      Job job = job(TextInputFormat.class, scheme);
      FileInputFormat.setMaxInputSplitSize(job, 100 + random.nextInt(4000));
      assertEquals(
          read(new TextInputFormat(), job),
          read(new CoalescingInputFormat<LongWritable, Text>(), job),
          "seed " + seed);
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"maximum", "assorted", "fixed"})
  void sequenceFilesGiveTheSameRecords(String scheme) throws Exception {
    for (SequenceFile.CompressionType compression : SequenceFile.CompressionType.values()) {
      try (SequenceFile.Writer writer =
          SequenceFile.createWriter(
              conf,
              SequenceFile.Writer.file(path("f" + compression)),
              SequenceFile.Writer.keyClass(LongWritable.class),
              SequenceFile.Writer.valueClass(Text.class),
              SequenceFile.Writer.compression(compression))) {
        for (int i = 0; i < 5000; i++) writer.append(new LongWritable(i), new Text("value " + i));
      }
    }
    Job job = job(SequenceFileInputFormat.class, scheme);
    FileInputFormat.setMaxInputSplitSize(job, 7000);
    assertEquals(
        read(new SequenceFileInputFormat<LongWritable, Text>(), job),
        read(new CoalescingInputFormat<LongWritable, Text>(), job));
  }

  @Test
  void delegatesWithSplitsOfTheirOwnWork() throws Exception {
    for (int i = 0; i < 20; i++) text("f" + i, 3000, new Random(i));
    Job job = job(CombineTextInputFormat.class, "maximum");
    FileInputFormat.setMaxInputSplitSize(job, 5000);
    assertEquals(
        read(new CombineTextInputFormat(), job),
        read(new CoalescingInputFormat<LongWritable, Text>(), job));
    Job lines = job(NLineInputFormat.class, "maximum");
    NLineInputFormat.setNumLinesPerSplit(lines, 3);
    assertEquals(
        read(new NLineInputFormat(), lines),
        read(new CoalescingInputFormat<LongWritable, Text>(), lines));
  }

  @Test
  void maximumMakesASplitASlotAndMergesNeighbours() throws Exception {
    text("f", 30_000, new Random(1));
    Job job = job(TextInputFormat.class, "maximum");
    FileInputFormat.setMaxInputSplitSize(job, 1000);
    List<InputSplit> splits = new CoalescingInputFormat<LongWritable, Text>().getSplits(job);
    assertEquals(3, splits.size());
    for (InputSplit split : splits)
      assertEquals(1, ((Coalesced<?>) split).parts().size(), split.toString());
  }

  @Test
  void splitsOfADelegateThatCutsItselfAreNotMerged() throws Exception {
    text("f", 30_000, new Random(1));
    Job job = job(NLineInputFormat.class, "maximum");
    NLineInputFormat.setNumLinesPerSplit(job, 10);
    int lines = new NLineInputFormat().getSplits(job).size();
    int parts = 0;
    for (InputSplit split : new CoalescingInputFormat<LongWritable, Text>().getSplits(job)) {
      parts += ((Coalesced<?>) split).parts().size();
    }
    assertEquals(lines, parts);
  }

  /**
   * What a mapper is told at setup, at each record and at cleanup; the file's name begins each of
   * its first lines.
   */
  private record Told(
      InputSplit split,
      String atSetup,
      List<String> atRecords,
      List<String> files,
      String atCleanup) {}

  private List<Told> told(Job job) throws Exception {
    CoalescingInputFormat<LongWritable, Text> format = new CoalescingInputFormat<>();
    List<Told> told = new ArrayList<>();
    for (InputSplit given : format.getSplits(job)) {
      TaskAttemptContext context =
          new TaskAttemptContextImpl(
              new Configuration(job.getConfiguration()), new TaskAttemptID());
      InputSplit split = sent(given, context.getConfiguration());
      Configuration seen = context.getConfiguration();
      try (RecordReader<LongWritable, Text> reader = format.createRecordReader(split, context)) {
        reader.initialize(split, context);
        String atSetup = seen.get("mapreduce.map.input.file");
        List<String> atRecords = new ArrayList<>();
        List<String> files = new ArrayList<>();
        while (reader.nextKeyValue()) {
          if (reader.getCurrentKey().get() != 0) continue;
          atRecords.add(new Path(seen.get("mapreduce.map.input.file")).getName());
          files.add(reader.getCurrentValue().toString().split(" ")[0]);
          assertEquals("0", seen.get("mapreduce.map.input.start"));
          assertEquals("500", seen.get("mapreduce.map.input.length"));
          if (split instanceof FileSplit file)
            assertEquals(files.get(files.size() - 1), file.getPath().getName());
        }
        told.add(new Told(split, atSetup, atRecords, files, seen.get("mapreduce.map.input.file")));
      }
    }
    return told;
  }

  @Test
  void aMapperThatAsksForItsFileIsToldTheRightOneOrFails() throws Exception {
    for (int i = 0; i < 9; i++) text("f" + i, 500, new Random(i));
    List<Told> told = told(job(TextInputFormat.class, "maximum"));
    assertEquals(3, told.size());
    for (Told one : told) {
      assertEquals(3, one.files().size());
      assertEquals(one.files(), one.atRecords());
      assertEquals(CoalescedSplit.class, one.split().getClass());
      assertThrows(ClassCastException.class, () -> FileSplit.class.cast(one.split()));
      assertEquals(null, one.atSetup()); // one file's name would be wrong for the others' records
      assertEquals(null, one.atCleanup());
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"maximum", "assorted", "fixed"})
  void filesKeptApartAreNeverInOneSplit(String scheme) throws Exception {
    for (int i = 0; i < 9; i++) text("f" + i, 500, new Random(i));
    Job job = job(TextInputFormat.class, scheme);
    job.getConfiguration().set(Settings.FILES, "apart");
    FileInputFormat.setMaxInputSplitSize(job, 100);
    int files = 0;
    for (InputSplit split : new CoalescingInputFormat<LongWritable, Text>().getSplits(job)) {
      FileSplit file = assertInstanceOf(FileSplit.class, split); // the cast that mappers make
      if (split instanceof Coalesced<?> several) {
        for (Object part : several.parts())
          assertEquals(file.getPath(), ((FileSplit) part).getPath());
      }
      files++;
    }
    assertTrue(scheme.equals("maximum") ? files == 9 : files < 45, files + " splits");
    assertEquals(
        read(new TextInputFormat(), job),
        read(new CoalescingInputFormat<LongWritable, Text>(), job));
  }

  @Test
  void aSplitOfOneFileIsAFileSplitOfIt() throws Exception {
    text("f", 3000, new Random(1));
    Job job = job(NLineInputFormat.class, "maximum");
    NLineInputFormat.setNumLinesPerSplit(job, 3);
    for (InputSplit split : new CoalescingInputFormat<LongWritable, Text>().getSplits(job)) {
      assertEquals("f", assertInstanceOf(CoalescedFileSplit.class, split).getPath().getName());
    }
  }

  @Test
  void aSplitMayFollowTheFileThatIsReadIfTheJobSaysSo() throws Exception {
    for (int i = 0; i < 9; i++) text("f" + i, 500, new Random(i));
    Job job = job(TextInputFormat.class, "maximum");
    job.getConfiguration().set(Settings.FILES, "follow");
    for (Told one : told(job)) {
      assertInstanceOf(FileSplit.class, one.split());
      assertEquals(one.files(), one.atRecords());
    }
  }

  /** Two inputs, two formats, two mappers: as MultipleInputs sets a job up. */
  private Job multiple() throws IOException {
    Job job = job(TextInputFormat.class, "maximum");
    MultipleInputs.addInputPath(job, path("a"), TextInputFormat.class, MapperA.class);
    MultipleInputs.addInputPath(job, path("b"), NLineInputFormat.class, MapperB.class);
    assertEquals(
        DelegatingInputFormat.class.getName(),
        job.getConfiguration().get("mapreduce.job.inputformat.class"));
    job.getConfiguration().set(Settings.DELEGATE, DelegatingInputFormat.class.getName());
    NLineInputFormat.setNumLinesPerSplit(job, 3);
    FileInputFormat.setMaxInputSplitSize(job, 400);
    return job;
  }

  public static class MapperA extends Mapper<LongWritable, Text, Text, Text> {
    @Override
    protected void map(LongWritable key, Text value, Context context)
        throws IOException, InterruptedException {
      context.write(new Text(getClass().getSimpleName()), value);
    }
  }

  public static final class MapperB extends MapperA {}

  @ParameterizedTest
  @ValueSource(strings = {"checked", "apart", "follow"})
  void multipleInputsKeepTheirMappers(String files) throws Exception {
    for (int i = 0; i < 6; i++) {
      text("a/f" + i, 1000, new Random(i));
      text("b/f" + i, 1000, new Random(i));
    }
    Job job = multiple();
    job.getConfiguration().set(Settings.FILES, files);
    CoalescingInputFormat<LongWritable, Text> format = new CoalescingInputFormat<>();
    List<InputSplit> splits = format.getSplits(job);
    assertTrue(splits.size() <= (files.equals("apart") ? 12 : 4), splits.size() + " splits");
    List<String> found = new ArrayList<>();
    for (InputSplit split : splits) {
      Configuration own = new Configuration(job.getConfiguration());
      TaskAttemptContext context = new TaskAttemptContextImpl(own, new TaskAttemptID());
      InputSplit sent = sent(split, own);
      try (RecordReader<LongWritable, Text> reader = format.createRecordReader(sent, context)) {
        reader.initialize(sent, context);
        RecordWriter<Text, Text> writer =
            new RecordWriter<>() {
              @Override
              public void write(Text key, Text value) {
                found.add(key + " " + value);
              }

              @Override
              public void close(TaskAttemptContext context) {}
            };
        Mapper<LongWritable, Text, Text, Text> mapper =
            new DelegatingMapper<>(); // casts the split to Hadoop's own class
        mapper.run(
            new WrappedMapper<LongWritable, Text, Text, Text>()
                .getMapContext(
                    new MapContextImpl<>(
                        own, new TaskAttemptID(), reader, writer, null, null, sent)));
      }
    }
    List<String> expected = new ArrayList<>();
    for (InputSplit split : new DelegatingInputFormat<LongWritable, Text>().getSplits(job)) {
      TaskAttemptContext context =
          new TaskAttemptContextImpl(job.getConfiguration(), new TaskAttemptID());
      try (RecordReader<LongWritable, Text> reader =
          new DelegatingInputFormat<LongWritable, Text>().createRecordReader(split, context)) {
        reader.initialize(split, context);
        boolean a = Tagged.tag(split).get(1) == MapperA.class;
        while (reader.nextKeyValue())
          expected.add((a ? "MapperA " : "MapperB ") + reader.getCurrentValue());
      }
    }
    Collections.sort(found);
    Collections.sort(expected);
    assertEquals(expected, found);
  }

  /**
   * Delimiters that overlap themselves are cut by ranges, so ranges must stay; then records are the
   * delegate's.
   */
  @ParameterizedTest
  @ValueSource(strings = {"a", "ab", "aa", "aaa", "aba", "abab", "xyx", "\n\n", "||"})
  void recordsEndWhereTheDelegateEndsThem(String delimiter) throws Exception {
    for (long seed = 0; seed < 30; seed++) {
      Random random = new Random(seed);
      fs.delete(input(), true);
      StringBuilder content = new StringBuilder();
      for (int i = 200 + random.nextInt(800); i > 0; i--)
        content.append("abxy|\n".charAt(random.nextInt(random.nextInt(6) + 1)));
      try (OutputStream out = fs.create(path("f"))) {
        out.write(content.toString().getBytes(StandardCharsets.UTF_8));
      }
      Job job = job(TextInputFormat.class, "maximum");
      job.getConfiguration().set("textinputformat.record.delimiter", delimiter);
      FileInputFormat.setMaxInputSplitSize(job, 1 + random.nextInt(60));
      assertEquals(
          read(new TextInputFormat(), job),
          read(new CoalescingInputFormat<LongWritable, Text>(), job),
          "seed " + seed);
    }
  }

  /** Says of a split's length what formats say that do not know it. */
  public static class Unknown extends TextInputFormat {
    long length() {
      return -1;
    }

    @Override
    public List<InputSplit> getSplits(org.apache.hadoop.mapreduce.JobContext context)
        throws IOException {
      List<InputSplit> splits = new ArrayList<>();
      for (InputSplit split : super.getSplits(context)) {
        FileSplit file = (FileSplit) split;
        splits.add(new SplitOfUnknownLength(file, length()));
      }
      return splits;
    }
  }

  public static final class Huge extends Unknown {
    @Override
    long length() {
      return Long.MAX_VALUE;
    }
  }

  public static final class SplitOfUnknownLength extends InputSplit implements Writable {
    private FileSplit file = new FileSplit();
    private long length;

    public SplitOfUnknownLength() {}

    SplitOfUnknownLength(FileSplit file, long length) {
      this.file = file;
      this.length = length;
    }

    @Override
    public long getLength() {
      return length;
    }

    @Override
    public String[] getLocations() throws IOException {
      return file.getLocations();
    }

    @Override
    public void write(java.io.DataOutput out) throws IOException {
      file.write(out);
      out.writeLong(length);
    }

    @Override
    public void readFields(java.io.DataInput in) throws IOException {
      file.readFields(in);
      length = in.readLong();
    }
  }

  @ParameterizedTest
  @ValueSource(classes = {Unknown.class, Huge.class})
  void lengthsThatAFormatDoesNotKnowAreSurvived(Class<?> delegate) throws Exception {
    for (int i = 0; i < 9; i++) text("f" + i, 500, new Random(i));
    List<InputSplit> splits =
        new CoalescingInputFormat<LongWritable, Text>().getSplits(job(delegate, "maximum"));
    assertTrue(splits.size() <= 9 && !splits.isEmpty(), splits.size() + " splits");
    for (InputSplit split : splits) {
      assertTrue(
          split.getLength() >= 0 || !(split instanceof Coalesced<?>),
          "length " + split.getLength());
      sent(split, conf);
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"maximum", "assorted", "fixed", "none"})
  void onlyEmptyFilesAreOrdinaryInput(String scheme) throws Exception {
    for (int i = 0; i < 5; i++) fs.create(path("f" + i)).close();
    conf.unset(Settings.NODES);
    assertEquals(
        List.of(),
        read(new CoalescingInputFormat<LongWritable, Text>(), job(TextInputFormat.class, scheme)));
  }

  @Test
  void aFileThatDisappearsFailsTheTaskAsTheDelegateWould() throws Exception {
    for (int i = 0; i < 9; i++) text("f" + i, 500, new Random(i));
    Job job = job(TextInputFormat.class, "maximum");
    CoalescingInputFormat<LongWritable, Text> format = new CoalescingInputFormat<>();
    List<InputSplit> splits = format.getSplits(job);
    fs.delete(path("f4"), false);
    assertThrows(
        FileNotFoundException.class,
        () -> {
          for (InputSplit split : splits) {
            TaskAttemptContext context =
                new TaskAttemptContextImpl(job.getConfiguration(), new TaskAttemptID());
            try (RecordReader<LongWritable, Text> reader =
                format.createRecordReader(split, context)) {
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
    assertEquals(
        List.of(),
        new CoalescingInputFormat<LongWritable, Text>()
            .getSplits(job(TextInputFormat.class, "maximum")));
  }

  private String complaint(Class<? extends Exception> type, Job job) {
    return assertThrows(type, () -> new CoalescingInputFormat<LongWritable, Text>().getSplits(job))
        .getMessage();
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        Settings.SCHEME + "=biggest",
        Settings.SCHEME + "=",
        Settings.OPEN_COST_BYTES + "=-1",
        Settings.OPEN_COST_BYTES + "=4x",
        Settings.ASSORTED_RATIO + "=0",
        Settings.ASSORTED_RATIO + "=1",
        Settings.ASSORTED_RATIO + "=half",
        Settings.ASSORTED_SHARE + "=1.5",
        Settings.ASSORTED_SHARE + "=NaN",
        Settings.ASSORTED_REMOTE_SHARE_MAX + "=-0.1",
        Settings.ASSORTED_REMOTE_SHARE_MAX + "=0",
        Settings.FIXED_UNITS + "=0",
        Settings.SLOTS_PER_NODE + "=0",
        Settings.SLOTS_PER_NODE + "=-3",
        Settings.SLOTS_PER_NODE + "=99999999999",
        Settings.SLOTS_RESERVED + "=-1",
        Settings.NODES + "=a:0",
        Settings.NODES + "=:4",
        Settings.NODES + "=",
        Settings.SHAPE + "=guess",
        Settings.SHAPE + "=yarn",
        Settings.SHAPE + "=spark",
        Settings.FILES + "=together",
        Settings.SLOTS_VCORES + "=2",
        Settings.SPLIT_BYTES_MIN + "=-1",
        Settings.SPLIT_BYTES_MAX + "=0",
        Settings.SPLIT_BYTES_MAX + "=much",
        Settings.DELEGATE + "=no.such.Format",
        Settings.DELEGATE + "=java.lang.String",
        Settings.DELEGATE + "=lamella.coalesce.mapreduce.CoalescingInputFormat",
        Settings.DELEGATE + "=org.apache.hadoop.mapreduce.lib.input.FileInputFormat"
      })
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
    public List<InputSplit> getSplits(org.apache.hadoop.mapreduce.JobContext context)
        throws IOException {
      throw new org.apache.hadoop.security.AccessControlException(
          "Permission denied: user=someone, access=READ_EXECUTE");
    }
  }

  @Test
  void unreadableInputIsSaidWithItsKey() throws Exception {
    String message = complaint(IOException.class, job(Unreadable.class, "maximum"));
    assertTrue(
        message.contains(FileInputFormat.INPUT_DIR) && message.contains("Permission denied"),
        message);
  }

  /** Its splits name no hosts, as those of a database's format would. */
  public static final class Hostless extends TextInputFormat {
    @Override
    public List<InputSplit> getSplits(org.apache.hadoop.mapreduce.JobContext context)
        throws IOException {
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
