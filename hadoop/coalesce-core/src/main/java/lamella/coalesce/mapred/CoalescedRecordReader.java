package lamella.coalesce.mapred;

import java.io.IOException;
import java.util.List;
import lamella.coalesce.mapreduce.Coalesced;
import lamella.coalesce.mapreduce.MapInputKeys;
import org.apache.hadoop.mapred.InputFormat;
import org.apache.hadoop.mapred.InputSplit;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.RecordReader;
import org.apache.hadoop.mapred.Reporter;

/**
 * Reads the parts of a split one after another, each with a reader of the delegate's own. The
 * promises are those of {@link lamella.coalesce.mapreduce.CoalescedRecordReader the new interface's
 * reader}.
 */
final class CoalescedRecordReader<K, V> implements RecordReader<K, V> {
  private final InputFormat<K, V> delegate;
  private final InputSplit split;
  private final List<InputSplit> parts;
  private final boolean oneFile;
  private final JobConf job;
  private final Reporter reporter;
  private RecordReader<K, V> reader; // of the part that is open, or of the last
  private int opened; // parts so far
  private boolean announced; // the part that is open
  private boolean ended;
  private long bytesDone; // of parts that are closed
  private long posDone;

  CoalescedRecordReader(
      InputFormat<K, V> delegate, InputSplit split, JobConf job, Reporter reporter)
      throws IOException {
    this.delegate = delegate;
    this.split = split;
    this.job = job;
    this.reporter = reporter;
    parts = Coalesced.partsOf(split);
    oneFile = Coalesced.isOneFile(parts);
    openNext();
    if (oneFile) announce();
  }

  private void openNext() throws IOException {
    if (split instanceof Coalesced) ((Coalesced<?>) split).moveTo(opened);
    reader = delegate.getRecordReader(parts.get(opened), job, reporter);
    opened++;
    announced = false;
  }

  @Override
  public boolean next(K key, V value) throws IOException {
    while (!ended) {
      if (!announced) announce();
      if (reader.next(key, value)) return true;
      if (opened == parts.size()) {
        ended = true;
        if (!oneFile) MapInputKeys.unset(job);
        return false;
      }
      posDone += reader.getPos();
      bytesDone += Math.max(0, parts.get(opened - 1).getLength());
      reader.close();
      openNext();
    }
    return false;
  }

  private void announce() {
    announced = true;
    MapInputKeys.set(job, parts.get(opened - 1));
  }

  @Override
  public K createKey() {
    return reader.createKey();
  }

  @Override
  public V createValue() {
    return reader.createValue();
  }

  @Override
  public long getPos() throws IOException {
    return posDone + reader.getPos();
  }

  @Override
  public float getProgress() throws IOException {
    if (ended) return 1;
    long total = split.getLength();
    if (total <= 0) return (float) opened / parts.size();
    double ofPart = Math.max(0, Math.min(1, reader.getProgress()));
    return (float)
        Math.min(1, (bytesDone + Math.max(0, parts.get(opened - 1).getLength()) * ofPart) / total);
  }

  @Override
  public void close() throws IOException {
    reader.close();
  }
}
