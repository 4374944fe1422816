package lamella.coalesce.mapreduce;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapreduce.MRJobConfig;

/**
 * The keys by which a mapper of either interface asks which file it reads:
 * mapreduce.map.input.file, .start and .length.
 */
public final class MapInputKeys {
  private MapInputKeys() {}

  /** Those of a part; none where that is no file split. */
  public static void set(Configuration conf, Object part) {
    Object plain = Tagged.untagged(part);
    if (!AnySplit.isFile(plain)) {
      unset(conf);
      return;
    }
    conf.set(MRJobConfig.MAP_INPUT_FILE, AnySplit.path(plain).toString());
    conf.setLong(MRJobConfig.MAP_INPUT_START, AnySplit.start(plain));
    conf.setLong(
        MRJobConfig.MAP_INPUT_PATH,
        AnySplit.fileLength(plain)); // Hadoop's name for mapreduce.map.input.length
  }

  public static void unset(Configuration conf) {
    conf.unset(MRJobConfig.MAP_INPUT_FILE);
    conf.unset(MRJobConfig.MAP_INPUT_START);
    conf.unset(MRJobConfig.MAP_INPUT_PATH);
  }
}
