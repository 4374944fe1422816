package lamella.coalesce.mapreduce;

import java.util.ArrayList;
import java.util.List;
import lamella.coalesce.Delimiters;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.lib.input.FileInputFormat;
import org.apache.hadoop.mapreduce.lib.input.FileSplit;

/** Neighbouring ranges of one file, made one: opened once, and no record is looked for twice at the seam. */
final class Ranges {
  private Ranges() {}

  /**
   * Whether a format may be handed other ranges of a file than it chose. Those that leave the choice to FileInputFormat
   * must take any, for it cuts wherever block size and settings say; one with a getSplits of its own may count on its cuts.
   * And where a record's end is ambiguous, the cuts decide: see {@link Delimiters}.
   */
  static boolean areArbitrary(Class<?> format, Configuration conf) {
    try {
      return format.getMethod("getSplits", JobContext.class).getDeclaringClass() == FileInputFormat.class
          && !Delimiters.overlapThemselves(conf);
    } catch (NoSuchMethodException e) {
      throw new IllegalStateException("an InputFormat without getSplits", e);
    }
  }

  static List<InputSplit> merged(List<InputSplit> parts) {
    List<InputSplit> merged = new ArrayList<>(parts.size());
    for (InputSplit part : parts) {
      InputSplit last = merged.isEmpty() ? null : merged.get(merged.size() - 1);
      if (last != null && continues(last, part)) {
        FileSplit head = (FileSplit) last;
        long length = head.getLength() + ((FileSplit) part).getLength();
        merged.set(merged.size() - 1, new FileSplit(head.getPath(), head.getStart(), length, new String[0]));
      } else {
        merged.add(part);
      }
    }
    return merged;
  }

  /** Only of FileSplit itself: what a subclass adds is not known here. */
  private static boolean continues(InputSplit last, InputSplit next) {
    if (last.getClass() != FileSplit.class || next.getClass() != FileSplit.class) return false;
    FileSplit a = (FileSplit) last;
    FileSplit b = (FileSplit) next;
    long end = b.getStart() + b.getLength();
    return a.getPath().equals(b.getPath()) && a.getStart() + a.getLength() == b.getStart() && a.getLength() >= 0
        && end >= b.getStart();
  }
}
