package lamella.coalesce.mapreduce;

import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.lib.input.FileSplit;

/** Neighbouring ranges of one file, made one: opened once, and no record is looked for twice at the seam. */
final class Ranges {
  private Ranges() {}

  static List<InputSplit> merged(List<InputSplit> parts) {
    List<InputSplit> merged = new ArrayList<>(parts.size());
    for (InputSplit part : parts) {
      InputSplit last = merged.isEmpty() ? null : merged.get(merged.size() - 1);
      if (last != null && continues(last, part)) {
        FileSplit head = (FileSplit) last;
        long length = Math.addExact(head.getLength(), ((FileSplit) part).getLength());
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
    return a.getPath().equals(b.getPath()) && a.getStart() + a.getLength() == b.getStart();
  }
}
