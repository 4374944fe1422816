package lamella.coalesce.mapred;

import java.util.List;
import lamella.coalesce.mapreduce.Coalesced;
import org.apache.hadoop.conf.Configurable;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapred.FileSplit;
import org.apache.hadoop.mapred.InputSplit;

/**
 * The new interface's split of that name as a FileSplit of the old one, whose every answer that one
 * gives.
 */
public final class CoalescedFileSplit extends FileSplit
    implements Coalesced<InputSplit>, Configurable {
  private final lamella.coalesce.mapreduce.CoalescedFileSplit<InputSplit> same;

  /** For deserialization: setConf and readFields follow. */
  public CoalescedFileSplit() {
    this(new lamella.coalesce.mapreduce.CoalescedFileSplit<>());
  }

  CoalescedFileSplit(lamella.coalesce.mapreduce.CoalescedFileSplit<InputSplit> same) {
    super(same);
    this.same = same;
  }

  @Override
  public List<InputSplit> parts() {
    return same.parts();
  }

  @Override
  public InputSplit current() {
    return same.current();
  }

  @Override
  public void moveTo(int index) {
    same.moveTo(index);
  }

  @Override
  public void setConf(Configuration conf) {
    same.setConf(conf);
  }

  @Override
  public Configuration getConf() {
    return same.getConf();
  }
}
