package lamella.coalesce.mapreduce;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import lamella.coalesce.Settings;
import lamella.coalesce.plan.Policy;
import lamella.coalesce.plan.SplitPlan;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapreduce.InputFormat;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.RecordReader;
import org.apache.hadoop.mapreduce.TaskAttemptContext;

/**
 * Reads what the input format named by lamella.coalesce.delegate would read, in fewer and larger
 * splits. See {@link Settings} for the keys.
 *
 * <p>F1: a job's maps together get exactly the delegate's records. F2: with the scheme none, with
 * no splits, and where nothing can be coalesced, the delegate's own splits come back. F3: a mapper
 * that asks for its file is told the right one or fails; see {@link Coalesced}.
 *
 * @param <K> the delegate's keys
 * @param <V> the delegate's values
 */
public class CoalescingInputFormat<K, V> extends InputFormat<K, V> {
  /**
   * Asks the delegate for its splits and groups them.
   *
   * @throws lamella.coalesce.InvalidSettingException if a key has a value that it must not have
   * @throws IOException if the input cannot be listed, or no cluster can be found to plan for
   */
  @Override
  public List<InputSplit> getSplits(JobContext context) throws IOException, InterruptedException {
    Policy policy = Settings.policy(context.getConfiguration());
    Input<InputSplit> input = Input.of(context);
    if (policy.scheme() == Policy.Scheme.NONE || input.splits().isEmpty()) return input.splits();
    SplitPlan plan = input.units().plan(input.delegateName());
    List<InputSplit> splits = new ArrayList<>(plan.splits().size());
    for (SplitPlan.Split split : plan.splits()) {
      splits.add(
          split.unitCount() == 1 ? input.splits().get(split.units()[0]) : input.coalesce(split));
    }
    return splits;
  }

  @Override
  public RecordReader<K, V> createRecordReader(InputSplit split, TaskAttemptContext context)
      throws IOException, InterruptedException {
    return new CoalescedRecordReader<>(formatOf(split, context.getConfiguration()));
  }

  /**
   * What reads the parts: of a coalesced split of MultipleInputs the format that its tag names,
   * else the delegate.
   */
  @SuppressWarnings("unchecked")
  private static <K, V> InputFormat<K, V> formatOf(InputSplit split, Configuration conf) {
    if (!Tagged.is(split) || !(Tagged.inner(split) instanceof Coalesced))
      return Input.newDelegate(conf);
    return Input.newFormat(conf, (Class<? extends InputFormat<K, V>>) Tagged.format(split));
  }
}
