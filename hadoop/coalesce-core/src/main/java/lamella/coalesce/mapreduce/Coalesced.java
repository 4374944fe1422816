package lamella.coalesce.mapreduce;

import java.io.IOException;
import java.util.List;
import lamella.coalesce.Settings;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.lib.input.FileSplit;

/**
 * A split made of several.
 *
 * <p>C1: a split of one file is a {@link CoalescedFileSplit}: mappers that cast {@code context.getInputSplit()} to FileSplit go
 * on working, and whatever they ask of its path, and whenever, is true of every record. C2: a split of several files is a
 * {@link CoalescedSplit}, on which that cast fails, unless the job said that its mappers ask at every record
 * ({@link Settings.Files#FOLLOW}).
 *
 * <p>Threads: as an InputSplit, one at a time; the record reader moves {@link #current()} on.
 */
public interface Coalesced {
  /** The delegate's splits, in the order in which they are read. */
  List<InputSplit> parts();

  /** The part that is being read: the first before reading starts, the last after it ended. */
  InputSplit current();

  /** Called by the record reader as it goes on to part {@code index}. */
  void moveTo(int index);

  static InputSplit of(List<InputSplit> parts, List<String> hosts, Configuration conf)
      throws IOException, InterruptedException {
    Parts content = new Parts(parts, hosts);
    boolean files = parts.stream().allMatch(part -> part instanceof FileSplit);
    boolean asFile = files && (isOneFile(parts) || Settings.files(conf) == Settings.Files.FOLLOW);  // keeps C1 and C2
    return asFile ? new CoalescedFileSplit(content, conf) : new CoalescedSplit(content, conf);
  }

  /** Whether all parts are ranges of the same file. */
  static boolean isOneFile(List<InputSplit> parts) {
    return parts.stream().allMatch(part -> part instanceof FileSplit
        && ((FileSplit) part).getPath().equals(((FileSplit) parts.get(0)).getPath()));
  }
}
