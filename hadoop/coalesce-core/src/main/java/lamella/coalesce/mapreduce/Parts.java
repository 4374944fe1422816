package lamella.coalesce.mapreduce;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
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
import org.apache.hadoop.io.Writable;
import org.apache.hadoop.io.WritableUtils;
import org.apache.hadoop.io.serializer.Deserializer;
import org.apache.hadoop.io.serializer.SerializationFactory;
import org.apache.hadoop.io.serializer.Serializer;
import org.apache.hadoop.util.ReflectionUtils;

/**
 * What a coalesced split of either interface holds, and its bytes between client and task: version,
 * class names once each, then per part its class and its own bytes, then hosts. Parts that are not
 * Writable go through the serializations that the job configures.
 */
final class Parts<S> {
  private static final int VERSION = 1;

  final List<S> splits;
  final String[] hosts;
  final long length;
  int current;

  Parts(List<S> splits, List<String> hosts) throws IOException, InterruptedException {
    this.splits = Collections.unmodifiableList(new ArrayList<>(splits));
    this.hosts = hosts.toArray(new String[0]);
    long sum = 0;
    for (S split : splits) {
      sum += Math.max(0, AnySplit.length(split)); // a negative one: its format does not know it
      if (sum < 0) sum = Long.MAX_VALUE;
    }
    length = sum;
  }

  void write(DataOutput out, Configuration conf) throws IOException {
    WritableUtils.writeVInt(out, VERSION);
    Map<Class<?>, Integer> numbers = new LinkedHashMap<>();
    for (S split : splits) numbers.putIfAbsent(split.getClass(), numbers.size());
    WritableUtils.writeVInt(out, numbers.size());
    for (Class<?> type : numbers.keySet()) Text.writeString(out, type.getName());
    WritableUtils.writeVInt(out, splits.size());
    for (S split : splits) {
      WritableUtils.writeVInt(out, numbers.get(split.getClass()));
      if (split instanceof Writable) {
        ((Writable) split).write(out);
      } else {
        writeSerialized(out, split, conf);
      }
    }
    WritableUtils.writeVInt(out, hosts.length);
    for (String host : hosts) Text.writeString(out, host);
  }

  @SuppressWarnings("unchecked")
  static <S> Parts<S> read(DataInput in, Configuration given) throws IOException {
    Configuration conf = given == null ? new Configuration(false) : given;
    int version = WritableUtils.readVInt(in);
    if (version != VERSION) {
      throw new IOException(
          "a coalesced split of version "
              + version
              + "; this code reads version "
              + VERSION
              + ". Give the client and its tasks the same lamella-coalesce jar");
    }
    List<Class<?>> types = new ArrayList<>();
    for (int left = WritableUtils.readVInt(in); left > 0; left--)
      types.add(classNamed(Text.readString(in), conf));
    List<S> splits = new ArrayList<>();
    for (int left = WritableUtils.readVInt(in); left > 0; left--) {
      Class<?> type = types.get(WritableUtils.readVInt(in));
      if (Writable.class.isAssignableFrom(type)) {
        Writable split = (Writable) ReflectionUtils.newInstance(type, conf);
        split.readFields(in);
        splits.add((S) split);
      } else {
        splits.add((S) readSerialized(in, type, conf));
      }
    }
    List<String> hosts = new ArrayList<>();
    for (int left = WritableUtils.readVInt(in); left > 0; left--) hosts.add(Text.readString(in));
    try {
      return new Parts<>(splits, hosts);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IOException("interrupted while asking a split for its length", e);
    }
  }

  private static Class<?> classNamed(String name, Configuration conf) throws IOException {
    try {
      return conf.getClassByName(name);
    } catch (ClassNotFoundException e) {
      throw new IOException(
          "the delegate's split class " + name + " is not in the class path of this process", e);
    }
  }

  @SuppressWarnings("unchecked")
  private static void writeSerialized(DataOutput out, Object split, Configuration conf)
      throws IOException {
    Serializer<Object> serializer =
        (Serializer<Object>) new SerializationFactory(conf).getSerializer(split.getClass());
    if (serializer == null)
      throw new IOException(
          "io.serializations has nothing for splits of " + split.getClass().getName());
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    serializer.open(bytes);
    serializer.serialize(split);
    serializer.close();
    WritableUtils.writeVInt(out, bytes.size());
    out.write(bytes.toByteArray());
  }

  @SuppressWarnings("unchecked")
  private static Object readSerialized(DataInput in, Class<?> type, Configuration conf)
      throws IOException {
    byte[] bytes = new byte[WritableUtils.readVInt(in)];
    in.readFully(bytes);
    Deserializer<Object> deserializer =
        (Deserializer<Object>) new SerializationFactory(conf).getDeserializer(type);
    if (deserializer == null)
      throw new IOException("io.serializations has nothing for splits of " + type.getName());
    deserializer.open(new ByteArrayInputStream(bytes));
    Object split = deserializer.deserialize(null);
    deserializer.close();
    return split;
  }

  @Override
  public String toString() {
    return splits.size()
        + " parts, "
        + length
        + " bytes, from "
        + splits.get(0)
        + " to "
        + splits.get(splits.size() - 1);
  }
}
