package lamella.coalesce.mapred;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.io.WritableUtils;
import org.apache.hadoop.mapred.FileSplit;
import org.apache.hadoop.mapred.InputSplit;
import org.apache.hadoop.util.ReflectionUtils;

/** What a coalesced split of the old interface holds, and its bytes: version, class names once each, parts, hosts. */
final class Parts {
  private static final int VERSION = 1;

  final List<InputSplit> splits;
  final String[] hosts;
  final long length;
  int current;

  Parts(List<InputSplit> splits, List<String> hosts) throws IOException {
    this.splits = Collections.unmodifiableList(new ArrayList<>(splits));
    this.hosts = hosts.toArray(new String[0]);
    long sum = 0;
    for (InputSplit split : splits) {
      sum += Math.max(0, split.getLength());  // a negative one: its format does not know it
      if (sum < 0) sum = Long.MAX_VALUE;
    }
    length = sum;
  }

  InputSplit current() {
    return splits.get(current);
  }

  /** Whether all parts are ranges of the same file. */
  boolean isOneFile() {
    return splits.stream().allMatch(part -> part instanceof FileSplit
        && ((FileSplit) part).getPath().equals(((FileSplit) splits.get(0)).getPath()));
  }

  void write(DataOutput out) throws IOException {
    WritableUtils.writeVInt(out, VERSION);
    Map<Class<?>, Integer> numbers = new LinkedHashMap<>();
    for (InputSplit split : splits) numbers.putIfAbsent(split.getClass(), numbers.size());
    WritableUtils.writeVInt(out, numbers.size());
    for (Class<?> type : numbers.keySet()) Text.writeString(out, type.getName());
    WritableUtils.writeVInt(out, splits.size());
    for (InputSplit split : splits) {
      WritableUtils.writeVInt(out, numbers.get(split.getClass()));
      split.write(out);
    }
    WritableUtils.writeVInt(out, hosts.length);
    for (String host : hosts) Text.writeString(out, host);
  }

  static Parts read(DataInput in, Configuration given) throws IOException {
    Configuration conf = given == null ? new Configuration(false) : given;
    int version = WritableUtils.readVInt(in);
    if (version != VERSION) {
      throw new IOException("a coalesced split of version " + version + "; this code reads version " + VERSION
          + ". Give the client and its tasks the same lamella-coalesce jar");
    }
    List<Class<?>> types = new ArrayList<>();
    for (int left = WritableUtils.readVInt(in); left > 0; left--) {
      String name = Text.readString(in);
      try {
        types.add(conf.getClassByName(name));
      } catch (ClassNotFoundException e) {
        throw new IOException("the delegate's split class " + name + " is not in the class path of this process", e);
      }
    }
    List<InputSplit> splits = new ArrayList<>();
    for (int left = WritableUtils.readVInt(in); left > 0; left--) {
      InputSplit split = (InputSplit) ReflectionUtils.newInstance(types.get(WritableUtils.readVInt(in)), conf);
      split.readFields(in);
      splits.add(split);
    }
    List<String> hosts = new ArrayList<>();
    for (int left = WritableUtils.readVInt(in); left > 0; left--) hosts.add(Text.readString(in));
    return new Parts(splits, hosts);
  }

  @Override
  public String toString() {
    return splits.size() + " parts, " + length + " bytes, from " + splits.get(0) + " to " + splits.get(splits.size() - 1);
  }
}
