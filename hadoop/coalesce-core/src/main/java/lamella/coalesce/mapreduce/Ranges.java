package lamella.coalesce.mapreduce;

import java.util.ArrayList;
import java.util.List;
import lamella.coalesce.Delimiters;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapreduce.InputFormat;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.lib.input.FileInputFormat;

/**
 * Neighbouring ranges of one file, made one: opened once, and no record is looked for twice at the
 * seam.
 */
final class Ranges {
  private Ranges() {}

  /**
   * Whether a format may be handed other ranges of a file than it chose. Those that leave the
   * choice to FileInputFormat must take any, for it cuts wherever block size and settings say; one
   * with a getSplits of its own may count on its cuts. And where a record's end is ambiguous, the
   * cuts decide: see {@link Delimiters}.
   */
  static boolean areArbitrary(Class<?> format, Configuration conf) {
    boolean left = true; // in every interface that it is a format of
    if (InputFormat.class.isAssignableFrom(format))
      left = hasSplitsOf(FileInputFormat.class, format, JobContext.class);
    if (org.apache.hadoop.mapred.InputFormat.class.isAssignableFrom(format)) {
      left &=
          hasSplitsOf(
              org.apache.hadoop.mapred.FileInputFormat.class, format, JobConf.class, int.class);
    }
    return left && !Delimiters.overlapThemselves(conf);
  }

  private static boolean hasSplitsOf(Class<?> ancestor, Class<?> format, Class<?>... parameters) {
    try {
      return format.getMethod("getSplits", parameters).getDeclaringClass() == ancestor;
    } catch (NoSuchMethodException e) {
      throw new IllegalStateException("an InputFormat without getSplits", e);
    }
  }

  static <S> List<S> merged(List<S> parts) {
    List<S> merged = new ArrayList<>(parts.size());
    for (S part : parts) {
      S last = merged.isEmpty() ? null : merged.get(merged.size() - 1);
      if (last != null && continues(last, part)) {
        long length = AnySplit.fileLength(last) + AnySplit.fileLength(part);
        merged.set(merged.size() - 1, AnySplit.rangeFrom(last, length));
      } else {
        merged.add(part);
      }
    }
    return merged;
  }

  private static boolean continues(Object last, Object next) {
    if (!AnySplit.isPlainRange(last) || !AnySplit.isPlainRange(next)) return false;
    long length = AnySplit.fileLength(last);
    long start = AnySplit.start(next);
    return AnySplit.path(last).equals(AnySplit.path(next))
        && AnySplit.start(last) + length == start
        && length >= 0
        && start + AnySplit.fileLength(next) >= start;
  }
}
