package lamella.coalesce.mapreduce;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.util.List;
import org.apache.hadoop.conf.Configurable;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapreduce.InputSplit;

/**
 * A coalesced split of any parts, for either interface.
 *
 * @param <S> as in {@link Coalesced}
 */
public final class CoalescedSplit<S> extends InputSplit
    implements org.apache.hadoop.mapred.InputSplit, Coalesced<S>, Configurable {
  private Parts<S> content;
  private Configuration conf;

  /** For deserialization: setConf and readFields follow. */
  public CoalescedSplit() {}

  CoalescedSplit(Parts<S> content, Configuration conf) {
    this.content = content;
    this.conf = conf;
  }

  @Override
  public List<S> parts() {
    return content.splits;
  }

  @Override
  public S current() {
    return content.splits.get(content.current);
  }

  @Override
  public void moveTo(int index) {
    content.current = index;
  }

  /** Of all parts: what the job's client sorts by and the progress of the task counts. */
  @Override
  public long getLength() {
    return content.length;
  }

  @Override
  public String[] getLocations() {
    return content.hosts;
  }

  @Override
  public void write(DataOutput out) throws IOException {
    content.write(out, conf);
  }

  @Override
  public void readFields(DataInput in) throws IOException {
    content = Parts.read(in, conf);
  }

  @Override
  public void setConf(Configuration conf) {
    this.conf = conf;
  }

  @Override
  public Configuration getConf() {
    return conf;
  }

  @Override
  public String toString() {
    return content.toString();
  }
}
