package lamella.coalesce.mapreduce;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import lamella.coalesce.InvalidSettingException;
import lamella.coalesce.Settings;
import lamella.coalesce.Units;
import lamella.coalesce.plan.SplitPlan;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.InputFormat;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.lib.input.FileInputFormat;
import org.apache.hadoop.mapreduce.lib.input.FileSplit;
import org.apache.hadoop.mapreduce.lib.input.InvalidInputException;
import org.apache.hadoop.util.ReflectionUtils;

/** A job's input as the delegate splits it: the units of a plan, and the way back from a plan to splits. */
public final class Input {
  private final Configuration conf;
  private final InputFormat<?, ?> delegate;
  private final List<InputSplit> splits;

  private Input(Configuration conf, InputFormat<?, ?> delegate, List<InputSplit> splits) {
    this.conf = conf;
    this.delegate = delegate;
    this.splits = splits;
  }

  /** Has the delegate list the input; what goes wrong there is told with the key that names the input. */
  public static Input of(JobContext context) throws IOException, InterruptedException {
    Configuration conf = context.getConfiguration();
    InputFormat<?, ?> delegate = newDelegate(conf);
    try {
      return new Input(conf, delegate, delegate.getSplits(context));
    } catch (IOException e) {
      throw delegate instanceof FileInputFormat ? withKey(conf, e) : e;
    }
  }

  private static IOException withKey(Configuration conf, IOException cause) {
    String message = FileInputFormat.INPUT_DIR + " is '" + conf.get(FileInputFormat.INPUT_DIR, "")
        + "'; expected one or more existing, readable paths: " + cause.getMessage();
    IOException told = new IOException(message, cause);
    // Its message is told's.
    if (cause instanceof InvalidInputException) return new InvalidInputException(Collections.singletonList(told));
    if (!(cause instanceof FileNotFoundException)) return told;
    FileNotFoundException gone = new FileNotFoundException(message);
    gone.initCause(cause);
    return gone;
  }

  @SuppressWarnings("unchecked")
  static <K, V> InputFormat<K, V> newDelegate(Configuration conf) {
    return newFormat(conf, (Class<? extends InputFormat<K, V>>) Settings.delegate(conf));
  }

  static <K, V> InputFormat<K, V> newFormat(Configuration conf, Class<? extends InputFormat<K, V>> type) {
    try {
      return ReflectionUtils.newInstance(type, conf);
    } catch (RuntimeException e) {
      InvalidSettingException told = new InvalidSettingException(
          Settings.DELEGATE, type.getName(), "a class with a constructor without parameters that succeeds: " + e.getMessage());
      told.initCause(e);
      throw told;
    }
  }

  public List<InputSplit> splits() {
    return splits;
  }

  public String delegateName() {
    return delegate.getClass().getSimpleName();
  }

  /** The splits as units, in their order. */
  public Units units() throws IOException, InterruptedException {
    Units units = new Units(conf);
    for (InputSplit split : splits) {
      InputSplit plain = Tagged.untagged(split);
      Path file = plain instanceof FileSplit ? ((FileSplit) plain).getPath() : null;
      units.add(split.getLength(), split.getLocations(), file, Tagged.is(split) ? Tagged.tag(split) : null);
    }
    return units;
  }

  /** The split that a plan asks for; a single unit stays the delegate's own. */
  InputSplit coalesce(SplitPlan.Split planned) throws IOException, InterruptedException {
    InputSplit first = splits.get(planned.units()[0]);
    if (planned.unitCount() == 1) return first;
    List<InputSplit> parts = new ArrayList<>(planned.unitCount());
    for (int unit : planned.units()) parts.add(Tagged.untagged(splits.get(unit)));
    Class<?> format = Tagged.is(first) ? Tagged.format(first) : delegate.getClass();
    if (Ranges.areArbitrary(format, conf)) parts = Ranges.merged(parts);
    InputSplit coalesced = Coalesced.of(parts, planned.hosts(), conf);
    return Tagged.is(first) ? Tagged.of(coalesced, first, conf) : coalesced;
  }
}
