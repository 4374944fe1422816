package lamella.coalesce.mapred;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.util.List;
import org.apache.hadoop.conf.Configurable;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapred.InputSplit;

/** A coalesced split of any parts; of file splits, one of several files. */
public final class CoalescedSplit implements InputSplit, Coalesced, Configurable {
  private Parts content;
  private Configuration conf;

  /** For deserialization: readFields follows. */
  public CoalescedSplit() {}

  CoalescedSplit(Parts content) {
    this.content = content;
  }

  @Override
  public List<InputSplit> parts() {
    return content.splits;
  }

  @Override
  public void moveTo(int index) {
    content.current = index;
  }

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
    content.write(out);
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
