package lamella.coalesce.mapreduce;

import java.io.IOException;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.lib.input.FileSplit;

/**
 * What a split of either of Hadoop's interfaces says of itself; a FileSplit of the old one is none
 * of the new one's.
 */
final class AnySplit {
  private AnySplit() {}

  private static boolean isOld(Object split) {
    return split instanceof org.apache.hadoop.mapred.FileSplit;
  }

  private static org.apache.hadoop.mapred.FileSplit old(Object split) {
    return (org.apache.hadoop.mapred.FileSplit) split;
  }

  static boolean isFile(Object split) {
    return split instanceof FileSplit || isOld(split);
  }

  /**
   * Whether it is a range of a file and nothing more: what a subclass of FileSplit adds is not
   * known here.
   */
  static boolean isPlainRange(Object split) {
    return split.getClass() == FileSplit.class
        || split.getClass() == org.apache.hadoop.mapred.FileSplit.class;
  }

  /** Null of what is no file split. */
  static Path path(Object split) {
    if (split instanceof FileSplit) return ((FileSplit) split).getPath();
    return isOld(split) ? old(split).getPath() : null;
  }

  /** Of a file split. */
  static long start(Object split) {
    return isOld(split) ? old(split).getStart() : ((FileSplit) split).getStart();
  }

  static long length(Object split) throws IOException, InterruptedException {
    if (split instanceof InputSplit) return ((InputSplit) split).getLength();
    return ((org.apache.hadoop.mapred.InputSplit) split).getLength();
  }

  /** Of a file split. */
  static long fileLength(Object split) {
    return isOld(split) ? old(split).getLength() : ((FileSplit) split).getLength();
  }

  static String[] hosts(Object split) throws IOException, InterruptedException {
    if (split instanceof InputSplit) return ((InputSplit) split).getLocations();
    return ((org.apache.hadoop.mapred.InputSplit) split).getLocations();
  }

  /** A plain range from where {@code head} starts, of its interface, without hosts. */
  @SuppressWarnings("unchecked")
  static <S> S rangeFrom(S head, long length) {
    String[] nowhere = new String[0];
    if (isOld(head))
      return (S) new org.apache.hadoop.mapred.FileSplit(path(head), start(head), length, nowhere);
    return (S) new FileSplit(path(head), start(head), length, nowhere);
  }
}
