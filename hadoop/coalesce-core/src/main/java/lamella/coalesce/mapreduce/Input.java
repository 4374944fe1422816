package lamella.coalesce.mapreduce;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import lamella.coalesce.InvalidSettingException;
import lamella.coalesce.Settings;
import lamella.coalesce.plan.ClusterShape;
import lamella.coalesce.plan.SplitPlan;
import lamella.coalesce.plan.Unit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.InputFormat;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.lib.input.FileInputFormat;
import org.apache.hadoop.mapreduce.lib.input.FileSplit;
import org.apache.hadoop.mapreduce.lib.input.InvalidInputException;
import org.apache.hadoop.util.ReflectionUtils;

/** A job's input as the delegate splits it: the units of a plan, and the way back from a plan to splits. */
public final class Input {
  private static final String LOOPBACK = "localhost";

  /** More replicas than this are asked for rarely; it is rather a striped file, whose every host holds a part of each block. */
  private static final int REPLICAS_MAX = 3;

  private final Configuration conf;
  private final InputFormat<?, ?> delegate;
  private final List<InputSplit> splits;

  private Input(Configuration conf, InputFormat<?, ?> delegate, List<InputSplit> splits) {
    this.conf = conf;
    this.delegate = delegate;
    this.splits = splits;
  }

  /** Has the delegate list the input; what goes wrong there is told with the key that names the input. */
  public static Input of(JobContext context) throws IOException, InterruptedException {
    Configuration conf = context.getConfiguration();
    InputFormat<?, ?> delegate = newDelegate(conf);
    try {
      return new Input(conf, delegate, delegate.getSplits(context));
    } catch (IOException e) {
      throw delegate instanceof FileInputFormat ? withKey(conf, e) : e;
    }
  }

  private static IOException withKey(Configuration conf, IOException cause) {
    String message = FileInputFormat.INPUT_DIR + " is '" + conf.get(FileInputFormat.INPUT_DIR, "")
        + "'; expected one or more existing, readable paths: " + cause.getMessage();
    IOException told = new IOException(message, cause);
    if (cause instanceof InvalidInputException) return new InvalidInputException(List.of(told));  // its message is told's
    if (!(cause instanceof FileNotFoundException)) return told;
    FileNotFoundException gone = new FileNotFoundException(message);
    gone.initCause(cause);
    return gone;
  }

  @SuppressWarnings("unchecked")
  static <K, V> InputFormat<K, V> newDelegate(Configuration conf) {
    Class<?> type = Settings.delegate(conf);
    try {
      return (InputFormat<K, V>) ReflectionUtils.newInstance(type, conf);
    } catch (RuntimeException e) {
      InvalidSettingException told = new InvalidSettingException(
          Settings.DELEGATE, type.getName(), "a class with a constructor without parameters that succeeds: " + e.getMessage());
      told.initCause(e);
      throw told;
    }
  }

  public List<InputSplit> splits() {
    return splits;
  }

  public String delegateName() {
    return delegate.getClass().getSimpleName();
  }

  /** The splits as units, in their order; striped files without hosts. */
  public List<Unit> units() throws IOException, InterruptedException {
    Map<Path, Boolean> striped = new HashMap<>();
    List<Unit> units = new ArrayList<>(splits.size());
    for (InputSplit split : splits) {
      String[] hosts = split.getLocations();
      if (hosts == null || hosts.length > REPLICAS_MAX && isStriped(split, striped)) hosts = new String[0];
      units.add(new Unit(split.getLength(), List.of(hosts)));
    }
    return units;
  }

  private boolean isStriped(InputSplit split, Map<Path, Boolean> known) throws IOException {
    if (!(split instanceof FileSplit)) return false;
    Path path = ((FileSplit) split).getPath();
    Boolean answer = known.get(path);
    if (answer == null) {
      answer = path.getFileSystem(conf).getFileStatus(path).isErasureCoded();
      known.put(path, answer);
    }
    return answer;
  }

  /** Stores without locality answer localhost: no hint at all, unless a node of the cluster is really called so. */
  public static List<Unit> withoutLoopback(List<Unit> units, ClusterShape shape) {
    if (shape.nodes().stream().anyMatch(node -> node.host().equals(LOOPBACK))) return units;
    return units.stream().map(unit -> !unit.hosts().contains(LOOPBACK)
        ? unit
        : new Unit(unit.bytes(), unit.hosts().stream().filter(host -> !host.equals(LOOPBACK)).toList())).toList();
  }

  /** The split that a plan asks for; a single unit stays the delegate's own. */
  InputSplit coalesce(SplitPlan.Split planned) throws IOException, InterruptedException {
    if (planned.unitCount() == 1) return splits.get(planned.units()[0]);
    List<InputSplit> parts = new ArrayList<>(planned.unitCount());
    for (int unit : planned.units()) parts.add(splits.get(unit));
    if (rangesAreArbitrary()) parts = Ranges.merged(parts);
    return Coalesced.of(parts, planned.hosts(), conf);
  }

  /**
   * Whether the delegate may be handed other ranges of a file than it chose. Those that leave the choice to FileInputFormat
   * must take any, for it cuts wherever block size and settings say; one with a getSplits of its own may count on its cuts.
   */
  private boolean rangesAreArbitrary() {
    try {
      return delegate.getClass().getMethod("getSplits", JobContext.class).getDeclaringClass() == FileInputFormat.class;
    } catch (NoSuchMethodException e) {
      throw new IllegalStateException("an InputFormat without getSplits", e);
    }
  }
}
