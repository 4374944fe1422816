package lamella.coalesce.plan;

/**
 * How to coalesce.
 *
 * @param scheme which of the schemes
 * @param openCostBytes what opening one more unit costs, as bytes read in the same time; added to each unit's weight
 * @param ratio assorted: each size of split is this times the one before, in (0,1)
 * @param share assorted: each size gets this share of the slots that are left on a node, in (0,1)
 * @param remoteShareMax assorted: how much of a coalesced split may lie on other nodes, in (0,1)
 * @param fixedUnits fixed: units in a split, 1 or more
 */
public record Policy(
    Scheme scheme, long openCostBytes, double ratio, double share, double remoteShareMax, int fixedUnits) {

  /** The schemes, by the names that settings use in lower case. */
  public enum Scheme {
    /** Every unit its own split, as without coalescing. */
    NONE,
    /** As many splits as slots, of equal weight: one wave of maps. */
    MAXIMUM,
    /** Splits of falling sizes, single units last. */
    ASSORTED,
    /** The same number of units in every split; for comparison. */
    FIXED
  }

  public static final long OPEN_COST_BYTES = 4L << 20;
  public static final double RATIO = 0.5;
  public static final double SHARE = 0.5;
  public static final double REMOTE_SHARE_MAX = 0.1;
  public static final int FIXED_UNITS = 8;

  public Policy {
    if (scheme == null) throw new IllegalArgumentException("a policy without a scheme");
    if (openCostBytes < 0) throw new IllegalArgumentException("openCostBytes is " + openCostBytes + "; expected 0 or more");
    checkShare("ratio", ratio);
    checkShare("share", share);
    checkShare("remoteShareMax", remoteShareMax);
    if (fixedUnits < 1) throw new IllegalArgumentException("fixedUnits is " + fixedUnits + "; expected 1 or more");
  }

  public static Policy of(Scheme scheme) {
    return new Policy(scheme, OPEN_COST_BYTES, RATIO, SHARE, REMOTE_SHARE_MAX, FIXED_UNITS);
  }

  public static Policy fixed(int units) {
    return new Policy(Scheme.FIXED, OPEN_COST_BYTES, RATIO, SHARE, REMOTE_SHARE_MAX, units);
  }

  public static Policy assorted(double ratio, double share) {
    return new Policy(Scheme.ASSORTED, OPEN_COST_BYTES, ratio, share, REMOTE_SHARE_MAX, FIXED_UNITS);
  }

  private static void checkShare(String name, double value) {
    if (!(value > 0 && value < 1)) {
      throw new IllegalArgumentException(name + " is " + value + "; expected a number above 0 and below 1");
    }
  }
}
