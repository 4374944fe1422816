package lamella.coalesce;

import java.util.Arrays;
import java.util.Locale;
import lamella.coalesce.plan.Policy;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapreduce.InputFormat;
import org.apache.hadoop.mapreduce.lib.input.TextInputFormat;

/**
 * The configuration keys, all of them optional. docs/COALESCING.md has the same table for users; a test compares the two.
 *
 * <p>Every reader below checks its value and throws {@link InvalidSettingException}, which names the key, the value found and
 * the values allowed. They are read where splits are computed: before any container starts.
 */
public final class Settings {
  private static final String PREFIX = "lamella.coalesce.";

  /** The input format that is wrapped: it finds the splits and reads them. Default TextInputFormat. */
  public static final String DELEGATE = PREFIX + "delegate";

  /** maximum, assorted, fixed, or none (the delegate's own splits). Default assorted. */
  public static final String SCHEME = PREFIX + "scheme";

  /** What opening a file or a range costs, in bytes read in the same time. Raised: small files pack into fewer per split. */
  public static final String OPEN_COST_BYTES = PREFIX + "open.cost.bytes";

  /** assorted: each size over the one before, in (0,1). Raised: more sizes, more containers. */
  public static final String ASSORTED_RATIO = PREFIX + "assorted.ratio";

  /** assorted: share of a node's remaining slots that each size gets, in (0,1). Raised: fewer containers, worse balance. */
  public static final String ASSORTED_SHARE = PREFIX + "assorted.share";

  /** assorted: how much of a coalesced split may lie on other nodes, in (0,1). Raised: more network, fewer single blocks. */
  public static final String ASSORTED_REMOTE_SHARE_MAX = PREFIX + "assorted.remote.share.max";

  /** fixed: units in a split, 1 or more. */
  public static final String FIXED_UNITS = PREFIX + "fixed.units";

  /** Where the cluster's shape comes from: auto, settings, yarn or splits. See {@link lamella.coalesce.shape.Shapes}. */
  public static final String SHAPE = PREFIX + "shape";

  /** The nodes, as host or host:slots, separated by commas. Setting it makes it the shape. */
  public static final String NODES = PREFIX + "nodes";

  /** Map containers that a node runs at once, 1 or more. Overrides what YARN's nodes seem to have room for. */
  public static final String SLOTS_PER_NODE = PREFIX + "slots.per.node";

  /** Slots that something else of the job holds, 0 or more. On YARN computed if not set; otherwise 0. */
  public static final String SLOTS_RESERVED = PREFIX + "slots.reserved";

  public static final String SCHEME_DEFAULT = "assorted";
  public static final String SHAPE_DEFAULT = "auto";

  /** Slots of a node where nothing says otherwise: the dissertation's nodes have eight cores. */
  public static final int SLOTS_PER_NODE_DEFAULT = 8;

  private Settings() {}

  public static Policy policy(Configuration conf) {
    return policy(conf, scheme(conf));
  }

  /** As {@link #policy(Configuration)}, with another scheme than the configured one. */
  public static Policy policy(Configuration conf, Policy.Scheme scheme) {
    return new Policy(
        scheme,
        openCostBytes(conf),
        share(conf, ASSORTED_RATIO, Policy.RATIO),
        share(conf, ASSORTED_SHARE, Policy.SHARE),
        share(conf, ASSORTED_REMOTE_SHARE_MAX, Policy.REMOTE_SHARE_MAX),
        wholeNumber(conf, FIXED_UNITS, Policy.FIXED_UNITS, 1));
  }

  public static Policy.Scheme scheme(Configuration conf) {
    String value = conf.getTrimmed(SCHEME, SCHEME_DEFAULT);
    for (Policy.Scheme scheme : Policy.Scheme.values()) {
      if (scheme.name().toLowerCase(Locale.ROOT).equals(value)) return scheme;
    }
    throw new InvalidSettingException(SCHEME, value, "one of maximum, assorted, fixed, none");
  }

  public static String shape(Configuration conf) {
    String value = conf.getTrimmed(SHAPE, SHAPE_DEFAULT);
    if (!Arrays.asList("auto", "settings", "yarn", "splits").contains(value)) {
      throw new InvalidSettingException(SHAPE, value, "one of auto, settings, yarn, splits");
    }
    return value;
  }

  public static Class<?> delegate(Configuration conf) {
    String allowed = "the name of a class that extends " + InputFormat.class.getName()
        + ", other than the coalescing one, in the job's class path";
    String name = conf.getTrimmed(DELEGATE);
    if (name == null) return TextInputFormat.class;
    Class<?> type = conf.getClassByNameOrNull(name);
    if (type == null) throw new InvalidSettingException(DELEGATE, name, allowed + "; there is no such class");
    boolean usable = InputFormat.class.isAssignableFrom(type)
        && !lamella.coalesce.mapreduce.CoalescingInputFormat.class.isAssignableFrom(type)
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

  private static long openCostBytes(Configuration conf) {
    String value = conf.getTrimmed(OPEN_COST_BYTES);
    if (value == null || value.isEmpty()) return Policy.OPEN_COST_BYTES;
    try {
      long bytes = conf.getLongBytes(OPEN_COST_BYTES, 0);
      if (bytes >= 0 && bytes <= 1L << 40) return bytes;
    } catch (IllegalArgumentException e) {
      // falls through to the one message
    }
    throw new InvalidSettingException(OPEN_COST_BYTES, value, "a whole number of bytes from 0 to 1t, suffixes k m g t allowed");
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
    throw new InvalidSettingException(key, value, "a number above 0 and below 1, such as " + ifUnset);
  }

  static int wholeNumber(Configuration conf, String key, int ifUnset, int min) {
    String value = conf.getTrimmed(key);
    if (value == null || value.isEmpty()) return ifUnset;
    return wholeNumber(key, value, min);
  }

  /** {@code value} as a number of at least {@code min}; otherwise an exception that names {@code key}. */
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
