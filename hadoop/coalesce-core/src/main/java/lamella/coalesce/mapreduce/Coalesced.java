package lamella.coalesce.mapreduce;

import java.io.IOException;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.lib.input.FileSplit;

/**
 * A split made of several. Where all parts are file splits it is a {@link CoalescedFileSplit}, so that mappers that cast
 * {@code context.getInputSplit()} to FileSplit go on working; otherwise a {@link CoalescedSplit}.
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
    return files ? new CoalescedFileSplit(content, conf) : new CoalescedSplit(content, conf);
  }
}
