package lamella.coalesce;

import java.util.Arrays;
import java.util.Locale;
import lamella.coalesce.plan.Policy;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapreduce.InputFormat;
import org.apache.hadoop.mapreduce.lib.input.TextInputFormat;

/**
 * The configuration keys, all of them optional. docs/COALESCING.md has the same table for users; a
 * test compares the two.
 *
 * <p>Every reader below checks its value and throws {@link InvalidSettingException}, which names
 * the key, the value found and the values allowed. They are read where splits are computed: before
 * any container starts.
 */
public final class Settings {
  private static final String PREFIX = "lamella.coalesce.";

  /**
   * The input format that is wrapped: it finds the splits and reads them. Default TextInputFormat.
   */
  public static final String DELEGATE = PREFIX + "delegate";

  /** maximum, assorted, fixed, or none (the delegate's own splits). Default maximum. */
  public static final String SCHEME = PREFIX + "scheme";

  /**
   * Whether several files may share a split: checked, apart or follow. See {@link Files}. Default
   * checked.
   */
  public static final String FILES = PREFIX + "files";

  /**
   * The least that is worth a container, in bytes and opens together. Raised: fewer, larger splits
   * of little input.
   */
  public static final String SPLIT_BYTES_MIN = PREFIX + "split.bytes.min";

  /**
   * The most bytes of several units in one split. Lowered: more, smaller splits, and less to repeat
   * if one fails.
   */
  public static final String SPLIT_BYTES_MAX = PREFIX + "split.bytes.max";

  /**
   * What opening a file or a range costs, in bytes read in the same time. Raised: small files pack
   * into fewer per split.
   */
  public static final String OPEN_COST_BYTES = PREFIX + "open.cost.bytes";

  /** assorted: each size over the one before, in (0,1). Raised: more sizes, more containers. */
  public static final String ASSORTED_RATIO = PREFIX + "assorted.ratio";

  /**
   * assorted: share of a node's remaining slots that each size gets, in (0,1). Raised: fewer
   * containers, worse balance.
   */
  public static final String ASSORTED_SHARE = PREFIX + "assorted.share";

  /**
   * assorted: how much of a coalesced split may lie on other nodes, in (0,1). Raised: more network,
   * fewer single blocks.
   */
  public static final String ASSORTED_REMOTE_SHARE_MAX = PREFIX + "assorted.remote.share.max";

  /** fixed: units in a split, 1 or more. */
  public static final String FIXED_UNITS = PREFIX + "fixed.units";

  /**
   * Where the cluster's shape comes from: auto, settings, spark, yarn or splits. See {@link
   * lamella.coalesce.shape.Shapes}.
   */
  public static final String SHAPE = PREFIX + "shape";

  /** The nodes, as host or host:slots, separated by commas. Setting it makes it the shape. */
  public static final String NODES = PREFIX + "nodes";

  /**
   * Map containers that a node runs at once, 1 or more. Overrides what YARN's nodes seem to have
   * room for.
   */
  public static final String SLOTS_PER_NODE = PREFIX + "slots.per.node";

  /**
   * Slots that something else of the job holds, 0 or more. On YARN computed if not set; otherwise
   * 0.
   */
  public static final String SLOTS_RESERVED = PREFIX + "slots.reserved";

  /**
   * Whether YARN's scheduler counts vcores when it places containers: auto, count or ignore.
   * Default auto.
   */
  public static final String SLOTS_VCORES = PREFIX + "slots.vcores";

  public static final String SCHEME_DEFAULT = "maximum";
  public static final String SHAPE_DEFAULT = "auto";

  /** Slots of a node where nothing says otherwise: the dissertation's nodes have eight cores. */
  public static final int SLOTS_PER_NODE_DEFAULT = 8;

  /** What {@link #FILES} may say. */
  public enum Files {
    /**
     * Several files may share a split; such a split is no FileSplit, so that a mapper that casts it
     * fails, as with Hadoop's CombineTextInputFormat, and mapreduce.map.input.file is set only
     * while there is a record, to the file of that record.
     */
    CHECKED,
    /** A split is of one file. */
    APART,
    /**
     * Several files may share a split, which is a FileSplit that follows what is read: for mappers
     * that ask at every record.
     */
    FOLLOW
  }

  /** What {@link #SLOTS_VCORES} may say. */
  public enum Vcores {
    AUTO,
    COUNT,
    IGNORE
  }

  private Settings() {}

  public static Policy policy(Configuration conf) {
    return policy(conf, scheme(conf));
  }

  /** As {@link #policy(Configuration)}, with another scheme than the configured one. */
  public static Policy policy(Configuration conf, Policy.Scheme scheme) {
    files(conf); // a bad value is an error even where it would not be used
    long min = bytes(conf, SPLIT_BYTES_MIN, Policy.SPLIT_BYTES_MIN, 0);
    long max = bytes(conf, SPLIT_BYTES_MAX, Math.max(min, Policy.SPLIT_BYTES_MAX), 1);
    if (max < min) {
      throw new InvalidSettingException(
          SPLIT_BYTES_MAX,
          conf.getTrimmed(SPLIT_BYTES_MAX),
          SPLIT_BYTES_MIN + ", which is " + min + ", or more");
    }
    return Policy.of(scheme)
        .withOpenCostBytes(bytes(conf, OPEN_COST_BYTES, Policy.OPEN_COST_BYTES, 0))
        .withSplitBytes(min, max)
        .withAssorted(
            share(conf, ASSORTED_RATIO, Policy.RATIO),
            share(conf, ASSORTED_SHARE, Policy.SHARE),
            share(conf, ASSORTED_REMOTE_SHARE_MAX, Policy.REMOTE_SHARE_MAX))
        .withFixedUnits(wholeNumber(conf, FIXED_UNITS, Policy.FIXED_UNITS, 1));
  }

  public static Policy.Scheme scheme(Configuration conf) {
    return oneOf(
        conf,
        SCHEME,
        SCHEME_DEFAULT,
        Policy.Scheme.values(),
        "one of maximum, assorted, fixed, none");
  }

  public static Files files(Configuration conf) {
    return oneOf(conf, FILES, "checked", Files.values(), "one of checked, apart, follow");
  }

  public static Vcores slotsVcores(Configuration conf) {
    return oneOf(conf, SLOTS_VCORES, "auto", Vcores.values(), "one of auto, count, ignore");
  }

  private static <E extends Enum<E>> E oneOf(
      Configuration conf, String key, String ifUnset, E[] all, String allowed) {
    String value = conf.getTrimmed(key, ifUnset);
    for (E one : all) {
      if (one.name().toLowerCase(Locale.ROOT).equals(value)) return one;
    }
    throw new InvalidSettingException(key, value, allowed);
  }

  public static String shape(Configuration conf) {
    String value = conf.getTrimmed(SHAPE, SHAPE_DEFAULT);
    if (!Arrays.asList("auto", "settings", "spark", "yarn", "splits").contains(value)) {
      throw new InvalidSettingException(SHAPE, value, "one of auto, settings, spark, yarn, splits");
    }
    return value;
  }

  /** A format of org.apache.hadoop.mapreduce. */
  public static Class<?> delegate(Configuration conf) {
    return delegate(
        conf,
        InputFormat.class,
        TextInputFormat.class,
        lamella.coalesce.mapreduce.CoalescingInputFormat.class);
  }

  /** A format of org.apache.hadoop.mapred, for jobs of that interface. */
  public static Class<?> mapredDelegate(Configuration conf) {
    return delegate(
        conf,
        org.apache.hadoop.mapred.InputFormat.class,
        org.apache.hadoop.mapred.TextInputFormat.class,
        lamella.coalesce.mapred.CoalescingInputFormat.class);
  }

  private static Class<?> delegate(
      Configuration conf, Class<?> wanted, Class<?> ifUnset, Class<?> coalescing) {
    String allowed =
        "the name of a class that is a "
            + wanted.getName()
            + ", other than the coalescing one, in the job's class path";
    String name = conf.getTrimmed(DELEGATE);
    if (name == null) return ifUnset;
    Class<?> type = conf.getClassByNameOrNull(name);
    if (type == null)
      throw new InvalidSettingException(DELEGATE, name, allowed + "; there is no such class");
    boolean usable =
        wanted.isAssignableFrom(type)
            && !coalescing.isAssignableFrom(type)
            && !java.lang.reflect.Modifier.isAbstract(type.getModifiers());
    if (!usable) throw new InvalidSettingException(DELEGATE, name, allowed);
    return type;
  }

  /** 1 or more, or {@code ifUnset}. */
  public static int slotsPerNode(Configuration conf, int ifUnset) {
    return wholeNumber(conf, SLOTS_PER_NODE, ifUnset, 1);
  }

  /** 0 or more, or {@code ifUnset}. */
  public static int slotsReserved(Configuration conf, int ifUnset) {
    return wholeNumber(conf, SLOTS_RESERVED, ifUnset, 0);
  }

  private static long bytes(Configuration conf, String key, long ifUnset, long min) {
    String value = conf.getTrimmed(key);
    if (value == null || value.isEmpty()) return ifUnset;
    try {
      long bytes = conf.getLongBytes(key, 0);
      if (bytes >= min && bytes <= 1L << 40) return bytes;
    } catch (IllegalArgumentException e) {
      // falls through to the one message
    }
    throw new InvalidSettingException(
        key, value, "a whole number of bytes from " + min + " to 1t, suffixes k m g t allowed");
  }

  private static double share(Configuration conf, String key, double ifUnset) {
    String value = conf.getTrimmed(key);
    if (value == null || value.isEmpty()) return ifUnset;
    try {
      double share = Double.parseDouble(value);
      if (share > 0 && share < 1) return share;
    } catch (NumberFormatException e) {
      // falls through to the one message
    }
    throw new InvalidSettingException(
        key, value, "a number above 0 and below 1, such as " + ifUnset);
  }

  static int wholeNumber(Configuration conf, String key, int ifUnset, int min) {
    String value = conf.getTrimmed(key);
    if (value == null || value.isEmpty()) return ifUnset;
    return wholeNumber(key, value, min);
  }

  /**
   * {@code value} as a number of at least {@code min}; otherwise an exception that names {@code
   * key}.
   */
  public static int wholeNumber(String key, String value, int min) {
    try {
      int number = Integer.parseInt(value);
      if (number >= min && number <= 1_000_000) return number;
    } catch (NumberFormatException e) {
      // falls through to the one message
    }
    throw new InvalidSettingException(key, value, "a whole number from " + min + " to 1000000");
  }
}
