package lamella.coalesce.mapreduce;

import java.io.IOException;
import java.util.List;
import org.apache.hadoop.mapreduce.InputFormat;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.RecordReader;
import org.apache.hadoop.mapreduce.TaskAttemptContext;

/**
 * Reads the parts of a split (those of a coalesced one, or the delegate's split itself) one after
 * another, each with a reader of the delegate's own.
 *
 * <p>R1: at most one part is open. R2: at every record mapreduce.map.input.file, .start and .length
 * say which part it is of, and so does the split's {@link Coalesced#current()}. R3: in a split of
 * several files those keys are not set while there is no record: what setup() or cleanup() made of
 * one file would be wrong for the others. R4: what the delegate throws (a file that is gone, say)
 * passes unchanged.
 */
final class CoalescedRecordReader<K, V> extends RecordReader<K, V> {
  private final InputFormat<K, V> delegate;
  private InputSplit split;
  private List<InputSplit> parts;
  private boolean oneFile;
  private TaskAttemptContext context;
  private RecordReader<K, V>
      reader; // of the part that is open; null before the first and after the last
  private int opened; // parts so far
  private boolean announced; // the part that is open
  private long bytesDone; // of parts that are closed
  private long bytesTotal;
  private long bytesOpen;

  CoalescedRecordReader(InputFormat<K, V> delegate) {
    this.delegate = delegate;
  }

  /** Opens the first part: a task whose input is gone fails here, as it would with the delegate. */
  @Override
  public void initialize(InputSplit given, TaskAttemptContext context)
      throws IOException, InterruptedException {
    split =
        Tagged.is(given) && Tagged.inner(given) instanceof Coalesced ? Tagged.inner(given) : given;
    parts = Coalesced.partsOf(split);
    oneFile = Coalesced.isOneFile(parts);
    this.context = context;
    bytesTotal = split.getLength();
    openNext();
    if (oneFile) announce(parts.get(0));
  }

  @Override
  public boolean nextKeyValue() throws IOException, InterruptedException {
    while (reader != null) {
      if (!announced) announce(parts.get(opened - 1)); // keeps R2
      if (reader.nextKeyValue()) return true;
      close();
      bytesDone += bytesOpen;
      bytesOpen = 0;
      if (opened < parts.size()) openNext();
    }
    if (!oneFile) MapInputKeys.unset(context.getConfiguration()); // keeps R3
    return false;
  }

  private void openNext() throws IOException, InterruptedException {
    InputSplit part = parts.get(opened);
    if (split instanceof Coalesced) ((Coalesced<?>) split).moveTo(opened); // keeps R2
    opened++;
    announced = false;
    bytesOpen = Math.max(0, part.getLength());
    reader = delegate.createRecordReader(part, context);
    reader.initialize(part, context);
  }

  private void announce(InputSplit part) {
    announced = true;
    MapInputKeys.set(context.getConfiguration(), part);
  }

  @Override
  public K getCurrentKey() throws IOException, InterruptedException {
    return reader == null ? null : reader.getCurrentKey();
  }

  @Override
  public V getCurrentValue() throws IOException, InterruptedException {
    return reader == null ? null : reader.getCurrentValue();
  }

  @Override
  public float getProgress() throws IOException, InterruptedException {
    if (reader == null) return 1;
    if (bytesTotal <= 0) return (float) opened / parts.size();
    double ofPart =
        Math.max(
            0,
            Math.min(
                1,
                reader.getProgress())); // Hadoop's line reader answers below 0 past a short range
    return (float) Math.min(1, (bytesDone + bytesOpen * ofPart) / bytesTotal);
  }

  @Override
  public void close() throws IOException {
    RecordReader<K, V> open = reader;
    reader = null; // keeps R1 even if closing fails
    if (open != null) open.close();
  }
}
