package lamella.coalesce.mapred;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import lamella.coalesce.Delimiters;
import lamella.coalesce.InvalidSettingException;
import lamella.coalesce.Settings;
import lamella.coalesce.Units;
import lamella.coalesce.plan.Policy;
import lamella.coalesce.plan.SplitPlan;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapred.FileInputFormat;
import org.apache.hadoop.mapred.FileSplit;
import org.apache.hadoop.mapred.InputFormat;
import org.apache.hadoop.mapred.InputSplit;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.RecordReader;
import org.apache.hadoop.mapred.Reporter;
import org.apache.hadoop.mapred.lib.DelegatingInputFormat;
import org.apache.hadoop.util.ReflectionUtils;

/**
 * The same as {@link lamella.coalesce.mapreduce.CoalescingInputFormat} for Hadoop's old interface,
 * {@code org.apache.hadoop.mapred}: streaming, Spark's {@code hadoopFile}, jobs of JobConf. The delegate is a format of that interface, by default its
 * TextInputFormat.
 *
 * @param <K> the delegate's keys
 * @param <V> the delegate's values
 */
public class CoalescingInputFormat<K, V> implements InputFormat<K, V> {
  @Override
  public InputSplit[] getSplits(JobConf job, int splitsWanted) throws IOException {
    Policy policy = Settings.policy(job);
    InputFormat<K, V> delegate = newDelegate(job);
    InputSplit[] splits = delegate.getSplits(job, splitsWanted);
    if (policy.scheme() == Policy.Scheme.NONE || splits.length == 0) return splits;
    Units units = new Units(job);
    for (InputSplit split : splits) {
      Path file = split instanceof FileSplit ? ((FileSplit) split).getPath() : null;
      units.add(split.getLength(), split.getLocations(), file, null);
    }
    List<InputSplit> coalesced = new ArrayList<>();
    boolean merge = rangesAreArbitrary(delegate.getClass(), job);
    for (SplitPlan.Split planned : units.plan(delegate.getClass().getSimpleName()).splits()) {
      coalesced.add(coalesce(splits, planned, merge, job));
    }
    return coalesced.toArray(new InputSplit[0]);
  }

  private static InputSplit coalesce(InputSplit[] splits, SplitPlan.Split planned, boolean merge, Configuration conf)
      throws IOException {
    if (planned.unitCount() == 1) return splits[planned.units()[0]];
    List<InputSplit> parts = new ArrayList<>(planned.unitCount());
    boolean files = true;
    for (int u : planned.units()) {
      InputSplit last = parts.isEmpty() ? null : parts.get(parts.size() - 1);
      files &= splits[u] instanceof FileSplit;
      if (merge && last != null && continues(last, splits[u])) {
        FileSplit head = (FileSplit) last;
        parts.set(parts.size() - 1,
            new FileSplit(head.getPath(), head.getStart(), head.getLength() + splits[u].getLength(), new String[0]));
      } else {
        parts.add(splits[u]);
      }
    }
    Parts content = new Parts(parts, planned.hosts());
    boolean asFile = files && (content.isOneFile() || Settings.files(conf) == Settings.Files.FOLLOW);
    return asFile ? new CoalescedFileSplit(content) : new CoalescedSplit(content);
  }

  /** Neighbouring ranges of one file, of FileSplit itself: what a subclass adds is not known here. */
  private static boolean continues(InputSplit last, InputSplit next) {
    if (last.getClass() != FileSplit.class || next.getClass() != FileSplit.class) return false;
    FileSplit a = (FileSplit) last;
    FileSplit b = (FileSplit) next;
    return a.getPath().equals(b.getPath()) && a.getLength() >= 0 && a.getStart() + a.getLength() == b.getStart()
        && b.getStart() + b.getLength() >= b.getStart();
  }

  /** As in the new interface: formats that leave the cutting to FileInputFormat. */
  private static boolean rangesAreArbitrary(Class<?> format, Configuration conf) {
    try {
      return format.getMethod("getSplits", JobConf.class, int.class).getDeclaringClass() == FileInputFormat.class
          && !Delimiters.overlapThemselves(conf);
    } catch (NoSuchMethodException e) {
      throw new IllegalStateException("an InputFormat without getSplits", e);
    }
  }

  @Override
  public RecordReader<K, V> getRecordReader(InputSplit split, JobConf job, Reporter reporter) throws IOException {
    return new CoalescedRecordReader<>(newDelegate(job), split, job, reporter);
  }

  @SuppressWarnings("unchecked")
  private InputFormat<K, V> newDelegate(JobConf job) {
    Class<?> type = Settings.mapredDelegate(job);
    if (DelegatingInputFormat.class.isAssignableFrom(type)) {
      throw new InvalidSettingException(Settings.DELEGATE, type.getName(),
          "another format: MultipleInputs are coalesced only through org.apache.hadoop.mapreduce");
    }
    try {
      return (InputFormat<K, V>) ReflectionUtils.newInstance(type, job);
    } catch (RuntimeException e) {
      InvalidSettingException told = new InvalidSettingException(
          Settings.DELEGATE, type.getName(), "a class with a constructor without parameters that succeeds: " + e.getMessage());
      told.initCause(e);
      throw told;
    }
  }
}
