package lamella.coalesce.mapreduce;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.util.List;
import org.apache.hadoop.conf.Configurable;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.lib.input.FileSplit;

/**
 * A coalesced split of file splits. As a FileSplit it answers for the part that is being read,
 * except for its length.
 *
 * @param <S> as in {@link Coalesced}
 */
public final class CoalescedFileSplit<S> extends FileSplit implements Coalesced<S>, Configurable {
  private Parts<S> content;
  private Configuration conf;

  /** For deserialization: setConf and readFields follow. */
  public CoalescedFileSplit() {}

  CoalescedFileSplit(Parts<S> content, Configuration conf) {
    this.content = content;
    this.conf = conf;
  }

  @Override
  public Path getPath() {
    return AnySplit.path(current());
  }

  @Override
  public long getStart() {
    return AnySplit.start(current());
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
