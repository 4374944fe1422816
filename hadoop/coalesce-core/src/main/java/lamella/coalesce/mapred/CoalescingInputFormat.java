package lamella.coalesce.mapred;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import lamella.coalesce.InvalidSettingException;
import lamella.coalesce.Settings;
import lamella.coalesce.mapreduce.CoalescedSplit;
import lamella.coalesce.mapreduce.Input;
import lamella.coalesce.plan.Policy;
import lamella.coalesce.plan.SplitPlan;
import org.apache.hadoop.mapred.InputFormat;
import org.apache.hadoop.mapred.InputSplit;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.RecordReader;
import org.apache.hadoop.mapred.Reporter;
import org.apache.hadoop.mapred.TextInputFormat;
import org.apache.hadoop.mapred.lib.DelegatingInputFormat;
import org.apache.hadoop.util.ReflectionUtils;

/**
 * The same as {@link lamella.coalesce.mapreduce.CoalescingInputFormat} for Hadoop's old interface,
 * {@code org.apache.hadoop.mapred}: streaming, Spark's {@code hadoopFile}, jobs of JobConf. The
 * delegate is a format of that interface, by default its TextInputFormat.
 *
 * @param <K> the delegate's keys
 * @param <V> the delegate's values
 */
public class CoalescingInputFormat<K, V> implements InputFormat<K, V> {
  /**
   * Streaming's: whether a mapper gets values alone. Where a job does not say, it does if the job's
   * format is TextInputFormat, by the name of the class, which here is another.
   */
  private static final String IGNORE_KEY = "stream.map.input.ignoreKey";

  /** In a job's client: what is set here goes to the tasks. */
  @Override
  public InputSplit[] getSplits(JobConf job, int splitsWanted) throws IOException {
    Policy policy = Settings.policy(job);
    InputFormat<K, V> delegate = newDelegate(job);
    if (delegate.getClass() == TextInputFormat.class) job.setBooleanIfUnset(IGNORE_KEY, true);
    InputSplit[] splits = delegate.getSplits(job, splitsWanted);
    if (policy.scheme() == Policy.Scheme.NONE || splits.length == 0) return splits;
    try {
      return coalesced(new Input<>(job, delegate.getClass(), Arrays.asList(splits)));
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new InterruptedIOException("interrupted while splits were planned");
    }
  }

  private static InputSplit[] coalesced(Input<InputSplit> input)
      throws IOException, InterruptedException {
    List<InputSplit> coalesced = new ArrayList<>();
    for (SplitPlan.Split split : input.units().plan(input.delegateName()).splits()) {
      coalesced.add(
          split.unitCount() == 1
              ? input.splits().get(split.units()[0])
              : ofThisInterface(input.coalesce(split)));
    }
    return coalesced.toArray(new InputSplit[0]);
  }

  @SuppressWarnings("unchecked")
  private static InputSplit ofThisInterface(org.apache.hadoop.mapreduce.InputSplit coalesced) {
    if (coalesced instanceof CoalescedSplit) return (CoalescedSplit<InputSplit>) coalesced;
    return new CoalescedFileSplit(
        (lamella.coalesce.mapreduce.CoalescedFileSplit<InputSplit>) coalesced);
  }

  @Override
  public RecordReader<K, V> getRecordReader(InputSplit split, JobConf job, Reporter reporter)
      throws IOException {
    return new CoalescedRecordReader<>(newDelegate(job), split, job, reporter);
  }

  @SuppressWarnings("unchecked")
  private InputFormat<K, V> newDelegate(JobConf job) {
    Class<?> type = Settings.mapredDelegate(job);
    if (DelegatingInputFormat.class.isAssignableFrom(type)) {
      throw new InvalidSettingException(
          Settings.DELEGATE,
          type.getName(),
          "another format: MultipleInputs are coalesced only through org.apache.hadoop.mapreduce");
    }
    try {
      return (InputFormat<K, V>) ReflectionUtils.newInstance(type, job);
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
}
