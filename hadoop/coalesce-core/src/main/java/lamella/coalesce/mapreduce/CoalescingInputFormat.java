package lamella.coalesce.mapreduce;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import lamella.coalesce.Settings;
import lamella.coalesce.plan.ClusterShape;
import lamella.coalesce.plan.Policy;
import lamella.coalesce.plan.SplitPlan;
import lamella.coalesce.plan.SplitPlanner;
import lamella.coalesce.plan.Unit;
import lamella.coalesce.shape.Shapes;
import org.apache.hadoop.mapreduce.InputFormat;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.RecordReader;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reads what the input format named by lamella.coalesce.delegate would read, in fewer and larger splits. See
 * {@link Settings} for the keys.
 *
 * <p>F1: a job's maps together get exactly the delegate's records. F2: with the scheme none, with no splits, and where
 * nothing can be coalesced, the delegate's own splits come back.
 *
 * @param <K> the delegate's keys
 * @param <V> the delegate's values
 */
public class CoalescingInputFormat<K, V> extends InputFormat<K, V> {
  private static final Logger LOG = LoggerFactory.getLogger(CoalescingInputFormat.class);

  /**
   * Asks the delegate for its splits and groups them.
   *
   * @throws lamella.coalesce.InvalidSettingException if a key has a value that it must not have
   * @throws IOException if the input cannot be listed, or no cluster can be found to plan for
   */
  @Override
  public List<InputSplit> getSplits(JobContext context) throws IOException, InterruptedException {
    Policy policy = Settings.policy(context.getConfiguration());
    Input input = Input.of(context);
    if (policy.scheme() == Policy.Scheme.NONE || input.splits().isEmpty()) return input.splits();

    long started = System.nanoTime();
    List<Unit> unplaced = input.units();
    ClusterShape shape = Shapes.find(context.getConfiguration(), unplaced);
    List<Unit> units = Input.withoutLoopback(unplaced, shape);
    SplitPlan plan = SplitPlanner.plan(units, shape, policy);
    List<InputSplit> splits = new ArrayList<>(plan.splits().size());
    for (SplitPlan.Split split : plan.splits()) splits.add(input.coalesce(split));
    LOG.info("{} splits of {} coalesced into {} ({}) for {} slots on {} nodes from {}; {} % local; planned in {} ms",
        input.splits().size(), input.delegateName(), splits.size(), policy.scheme(), shape.slots(), shape.nodes().size(),
        shape.source(), Math.round(100 * plan.localShare()), (System.nanoTime() - started) / 1_000_000);
    return splits;
  }

  @Override
  public RecordReader<K, V> createRecordReader(InputSplit split, TaskAttemptContext context)
      throws IOException, InterruptedException {
    return new CoalescedRecordReader<>(Input.<K, V>newDelegate(context.getConfiguration()));
  }
}
