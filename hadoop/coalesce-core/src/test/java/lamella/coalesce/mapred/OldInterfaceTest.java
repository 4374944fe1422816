package lamella.coalesce.mapred;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import lamella.coalesce.InvalidSettingException;
import lamella.coalesce.Settings;
import lamella.coalesce.mapreduce.CoalescedSplit;
import org.apache.hadoop.io.DataInputBuffer;
import org.apache.hadoop.io.DataOutputBuffer;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapred.FileInputFormat;
import org.apache.hadoop.mapred.FileSplit;
import org.apache.hadoop.mapred.InputFormat;
import org.apache.hadoop.mapred.InputSplit;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.KeyValueTextInputFormat;
import org.apache.hadoop.mapred.RecordReader;
import org.apache.hadoop.mapred.Reporter;
import org.apache.hadoop.mapred.TextInputFormat;
import org.apache.hadoop.mapred.lib.DelegatingInputFormat;
import org.apache.hadoop.mapred.lib.NLineInputFormat;
import org.apache.hadoop.util.ReflectionUtils;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * The old interface's format over real files, with splits sent through their bytes as a job does.
 */
class OldInterfaceTest {
  @TempDir Path folder;
  private JobConf job;

  @BeforeEach
  void start() throws IOException {
    job = new JobConf();
    job.set("fs.defaultFS", "file:///");
    job.set("fs.file.impl.disable.cache", "true");
    job.setInt("fs.local.block.size", 1000);
    job.set(Settings.NODES, "localhost:3");
    job.set(Settings.SPLIT_BYTES_MIN, "0");
    FileInputFormat.setInputPaths(job, folder.toString());
    for (int i = 0; i < 9; i++) {
      Random random = new Random(i);
      StringBuilder content = new StringBuilder();
      while (content.length() < 3000 * (i % 3 + 1)) {
        content.append('f').append(i).append('\t').append(random.nextInt()).append('\n');
      }
      Files.writeString(folder.resolve("f" + i), content);
    }
  }

  private static InputSplit sent(InputSplit split, JobConf job) throws IOException {
    DataOutputBuffer out = new DataOutputBuffer();
    split.write(out);
    DataInputBuffer in = new DataInputBuffer();
    in.reset(out.getData(), out.getLength());
    InputSplit copy = ReflectionUtils.newInstance(split.getClass(), job);
    copy.readFields(in);
    assertEquals(out.getLength(), in.getPosition(), "bytes left over");
    assertEquals(split.getLength(), copy.getLength());
    return copy;
  }

  private static <K, V> List<String> read(InputFormat<K, V> format, JobConf job)
      throws IOException {
    List<String> records = new ArrayList<>();
    for (InputSplit split : format.getSplits(job, 2)) {
      RecordReader<K, V> reader = format.getRecordReader(sent(split, job), job, Reporter.NULL);
      K key = reader.createKey();
      V value = reader.createValue();
      while (reader.next(key, value)) {
        records.add(key + "\t" + value);
        if (format instanceof CoalescingInputFormat) {
          assertTrue(
              reader.getProgress() >= 0 && reader.getProgress() <= 1,
              "progress " + reader.getProgress());
        }
      }
      reader.close();
    }
    Collections.sort(records);
    return records;
  }

  @ParameterizedTest
  @ValueSource(strings = {"none", "maximum", "assorted", "fixed"})
  void everySchemeGivesTheSameRecords(String scheme) throws IOException {
    job.set(Settings.SCHEME, scheme);
    List<InputFormat<?, ?>> formats =
        List.of(
            ReflectionUtils.newInstance(TextInputFormat.class, job),
            ReflectionUtils.newInstance(KeyValueTextInputFormat.class, job),
            ReflectionUtils.newInstance(NLineInputFormat.class, job));
    job.setInt("mapreduce.input.lineinputformat.linespermap", 20);
    for (InputFormat<?, ?> format : formats) {
      job.set(Settings.DELEGATE, format.getClass().getName());
      ReflectionUtils.setConf(format, job);
      assertEquals(
          read(format, job), read(new CoalescingInputFormat<>(), job), format.getClass().getName());
    }
  }

  @Test
  void textIsTheDefaultAndMaximumMakesASplitASlot() throws IOException {
    assertEquals(3, new CoalescingInputFormat<LongWritable, Text>().getSplits(job, 2).length);
  }

  @Test
  void streamingGetsTheKeysThatItGetsOfTheDelegate() throws IOException {
    String key = "stream.map.input.ignoreKey";
    for (String scheme : List.of("maximum", "none")) {
      job.set(Settings.SCHEME, scheme);
      job.unset(key);
      new CoalescingInputFormat<LongWritable, Text>().getSplits(job, 2);
      assertEquals("true", job.get(key));
    }
    job.set(key, "false");
    new CoalescingInputFormat<LongWritable, Text>().getSplits(job, 2);
    assertEquals("false", job.get(key));
    job.unset(key);
    job.set(Settings.DELEGATE, KeyValueTextInputFormat.class.getName());
    new CoalescingInputFormat<Text, Text>().getSplits(job, 2);
    assertNull(job.get(key));
  }

  @Test
  void aMapperThatAsksForItsFileIsToldTheRightOneOrFails() throws IOException {
    CoalescingInputFormat<LongWritable, Text> format = new CoalescingInputFormat<>();
    int records = 0;
    for (InputSplit split : format.getSplits(job, 2)) {
      assertInstanceOf(CoalescedSplit.class, split);
      RecordReader<LongWritable, Text> reader = format.getRecordReader(split, job, Reporter.NULL);
      assertNull(job.get("mapreduce.map.input.file"));
      LongWritable key = reader.createKey();
      Text value = reader.createValue();
      for (; reader.next(key, value); records++) {
        String file = job.get("mapreduce.map.input.file");
        assertEquals(value.toString().split("\t")[0], file.substring(file.lastIndexOf('/') + 1));
      }
      assertNull(job.get("mapreduce.map.input.file"));
    }
    assertTrue(records > 1000, records + " records");
    for (String files : List.of("apart", "follow")) {
      job.set(Settings.FILES, files);
      for (InputSplit split : format.getSplits(job, 2)) {
        assertInstanceOf(FileSplit.class, split);
        RecordReader<LongWritable, Text> reader = format.getRecordReader(split, job, Reporter.NULL);
        String first = ((FileSplit) split).getPath().toString();
        LongWritable key = reader.createKey();
        Text value = reader.createValue();
        while (reader.next(key, value)) {
          String path = ((FileSplit) split).getPath().toString();
          if (files.equals("apart")) assertEquals(first, path);
          assertTrue(path.endsWith("/" + value.toString().split("\t")[0]), path);
        }
      }
    }
  }

  @Test
  void whatIsNoFormatOfThisInterfaceIsRefused() {
    for (Class<?> type :
        List.of(
            org.apache.hadoop.mapreduce.lib.input.TextInputFormat.class,
            DelegatingInputFormat.class,
            CoalescingInputFormat.class,
            String.class)) {
      job.set(Settings.DELEGATE, type.getName());
      InvalidSettingException e =
          assertThrows(
              InvalidSettingException.class,
              () -> new CoalescingInputFormat<LongWritable, Text>().getSplits(job, 2));
      assertTrue(e.getMessage().startsWith(Settings.DELEGATE), e.getMessage());
    }
  }
}
