package lamella.coalesce;

import org.apache.hadoop.conf.Configuration;

/**
 * Record delimiters of text. One whose end is also its start ("aa", "aba") is ambiguous: in "aaa"
 * the delimiter may begin at the first or at the second byte, and Hadoop's reader answers by where
 * its range begins. There the delegate's ranges are read as they are, so that the records are those
 * of the delegate; otherwise neighbouring ranges are read as one.
 */
public final class Delimiters {
  private static final String KEY = "textinputformat.record.delimiter";

  private Delimiters() {}

  public static boolean overlapThemselves(Configuration conf) {
    String delimiter = conf.get(KEY);
    if (delimiter == null) return false;
    for (int n = 1; n < delimiter.length(); n++) {
      if (delimiter.regionMatches(0, delimiter, delimiter.length() - n, n)) return true;
    }
    return false;
  }
}
