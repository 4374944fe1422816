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
import org.apache.hadoop.mapreduce.lib.input.InvalidInputException;
import org.apache.hadoop.util.ReflectionUtils;

/**
 * A job's input as the delegate splits it: the units of a plan, and the way back from a plan to
 * splits.
 *
 * @param <S> as in {@link Coalesced}
 */
public final class Input<S> {
  private final Configuration conf;
  private final Class<?> delegate;
  private final List<S> splits;

  /** {@code splits} as a format of the class {@code delegate} made them. */
  public Input(Configuration conf, Class<?> delegate, List<S> splits) {
    this.conf = conf;
    this.delegate = delegate;
    this.splits = splits;
  }

  /**
   * Has the delegate list the input; what goes wrong there is told with the key that names the
   * input.
   */
  public static Input<InputSplit> of(JobContext context) throws IOException, InterruptedException {
    Configuration conf = context.getConfiguration();
    InputFormat<?, ?> delegate = newDelegate(conf);
    try {
      return new Input<>(conf, delegate.getClass(), delegate.getSplits(context));
    } catch (IOException e) {
      throw delegate instanceof FileInputFormat ? withKey(conf, e) : e;
    }
  }

  private static IOException withKey(Configuration conf, IOException cause) {
    String message =
        FileInputFormat.INPUT_DIR
            + " is '"
            + conf.get(FileInputFormat.INPUT_DIR, "")
            + "'; expected one or more existing, readable paths: "
            + cause.getMessage();
    IOException told = new IOException(message, cause);
    // Its message is told's.
    if (cause instanceof InvalidInputException)
      return new InvalidInputException(Collections.singletonList(told));
    if (!(cause instanceof FileNotFoundException)) return told;
    FileNotFoundException gone = new FileNotFoundException(message);
    gone.initCause(cause);
    return gone;
  }

  @SuppressWarnings("unchecked")
  static <K, V> InputFormat<K, V> newDelegate(Configuration conf) {
    return newFormat(conf, (Class<? extends InputFormat<K, V>>) Settings.delegate(conf));
  }

  static <K, V> InputFormat<K, V> newFormat(
      Configuration conf, Class<? extends InputFormat<K, V>> type) {
    try {
      return ReflectionUtils.newInstance(type, conf);
    } catch (RuntimeException e) {
      InvalidSettingException told =
          new InvalidSettingException(
              Settings.DELEGATE,
              type.getName(),
              "a class with a constructor without parameters that succeeds: " + e.getMessage());
      told.initCause(e);
      throw told;
    }
  }

  public List<S> splits() {
    return splits;
  }

  public String delegateName() {
    return delegate.getSimpleName();
  }

  /** The splits as units, in their order. */
  public Units units() throws IOException, InterruptedException {
    Units units = new Units(conf);
    for (S split : splits) {
      Path file = AnySplit.path(Tagged.untagged(split));
      Object tag = Tagged.is(split) ? Tagged.tag(split) : null;
      units.add(AnySplit.length(split), AnySplit.hosts(split), file, tag);
    }
    return units;
  }

  /** The split that a plan asks for, of several units; one alone stays the delegate's own. */
  public InputSplit coalesce(SplitPlan.Split planned) throws IOException, InterruptedException {
    S first = splits.get(planned.units()[0]);
    List<S> parts = new ArrayList<>(planned.unitCount());
    for (int unit : planned.units()) parts.add(Tagged.untagged(splits.get(unit)));
    if (Ranges.areArbitrary(Tagged.is(first) ? Tagged.format(first) : delegate, conf))
      parts = Ranges.merged(parts);
    InputSplit coalesced = Coalesced.of(parts, planned.hosts(), conf);
    return Tagged.is(first) ? Tagged.of(coalesced, first, conf) : coalesced;
  }
}
