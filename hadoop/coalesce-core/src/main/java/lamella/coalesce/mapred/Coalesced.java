package lamella.coalesce.mapred;

import java.util.List;
import org.apache.hadoop.mapred.InputSplit;

/** As {@link lamella.coalesce.mapreduce.Coalesced}, for the old interface. */
public interface Coalesced {
  /** The delegate's splits, in the order in which they are read. */
  List<InputSplit> parts();

  /** Called by the record reader as it goes on to part {@code index}. */
  void moveTo(int index);
}
