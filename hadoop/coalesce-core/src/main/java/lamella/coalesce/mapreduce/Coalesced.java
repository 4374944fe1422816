package lamella.coalesce.mapreduce;

import java.io.IOException;
import java.util.Collections;
import java.util.List;
import lamella.coalesce.Settings;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapreduce.InputSplit;

/**
 * A split made of several, for either of Hadoop's interfaces.
 *
 * <p>C1: a split of one file is a FileSplit of its interface ({@link CoalescedFileSplit}): mappers
 * that cast theirs to FileSplit go on working, and whatever they ask of its path, and whenever, is
 * true of every record. C2: a split of several files is a {@link CoalescedSplit}, on which that
 * cast fails, unless the job said that its mappers ask at every record ({@link
 * Settings.Files#FOLLOW}).
 *
 * <p>Threads: as an InputSplit, one at a time; the record reader moves {@link #current()} on.
 *
 * @param <S> what it is made of: InputSplit of org.apache.hadoop.mapreduce, or that of
 *     org.apache.hadoop.mapred
 */
public interface Coalesced<S> {
  /** The delegate's splits, in the order in which they are read. */
  List<S> parts();

  /** The part that is being read: the first before reading starts, the last after it ended. */
  S current();

  /** Called by the record reader as it goes on to part {@code index}. */
  void moveTo(int index);

  /**
   * A {@link CoalescedFileSplit}, or a {@link CoalescedSplit}, which is a split of both interfaces.
   */
  static <S> InputSplit of(List<S> parts, List<String> hosts, Configuration conf)
      throws IOException, InterruptedException {
    Parts<S> content = new Parts<>(parts, hosts);
    boolean files = parts.stream().allMatch(AnySplit::isFile);
    boolean asFile =
        files
            && (isOneFile(parts)
                || Settings.files(conf) == Settings.Files.FOLLOW); // keeps C1 and C2
    return asFile ? new CoalescedFileSplit<>(content, conf) : new CoalescedSplit<>(content, conf);
  }

  /** Those of a coalesced split; any other is its own only part. */
  @SuppressWarnings("unchecked")
  static <S> List<S> partsOf(S split) {
    return split instanceof Coalesced
        ? ((Coalesced<S>) split).parts()
        : Collections.singletonList(split);
  }

  /**
   * Whether what is asked of a file's name has one answer for all parts: there is one part, or they
   * are ranges of one file.
   */
  static boolean isOneFile(List<?> parts) {
    return parts.size() == 1
        || parts.stream()
            .allMatch(
                part ->
                    AnySplit.isFile(part)
                        && AnySplit.path(part).equals(AnySplit.path(parts.get(0))));
  }
}
