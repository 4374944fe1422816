package lamella.coalesce.plan;

/** How to coalesce. Immutable; the {@code with} methods give changed copies. */
public final class Policy {
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
  public static final long SPLIT_BYTES_MIN = 50L << 20; // Tez's grouping has these two
  public static final long SPLIT_BYTES_MAX = 1L << 30;
  public static final double RATIO = 0.5;
  public static final double SHARE = 0.5;
  public static final double REMOTE_SHARE_MAX = 0.1;
  public static final int FIXED_UNITS = 8;

  private final Scheme scheme;
  private final long openCostBytes;
  private final long splitBytesMin;
  private final long splitBytesMax;
  private final double ratio;
  private final double share;
  private final double remoteShareMax;
  private final int fixedUnits;

  private Policy(
      Scheme scheme,
      long openCostBytes,
      long splitBytesMin,
      long splitBytesMax,
      double ratio,
      double share,
      double remoteShareMax,
      int fixedUnits) {
    if (scheme == null) throw new IllegalArgumentException("a policy without a scheme");
    if (openCostBytes < 0)
      throw new IllegalArgumentException(
          "openCostBytes is " + openCostBytes + "; expected 0 or more");
    if (splitBytesMin < 0)
      throw new IllegalArgumentException(
          "splitBytesMin is " + splitBytesMin + "; expected 0 or more");
    if (splitBytesMax < Math.max(1, splitBytesMin)) {
      throw new IllegalArgumentException(
          "splitBytesMax is "
              + splitBytesMax
              + "; expected 1 or more, and no less than splitBytesMin, "
              + splitBytesMin);
    }
    checkShare("ratio", ratio);
    checkShare("share", share);
    checkShare("remoteShareMax", remoteShareMax);
    if (fixedUnits < 1)
      throw new IllegalArgumentException("fixedUnits is " + fixedUnits + "; expected 1 or more");
    this.scheme = scheme;
    this.openCostBytes = openCostBytes;
    this.splitBytesMin = splitBytesMin;
    this.splitBytesMax = splitBytesMax;
    this.ratio = ratio;
    this.share = share;
    this.remoteShareMax = remoteShareMax;
    this.fixedUnits = fixedUnits;
  }

  public static Policy of(Scheme scheme) {
    return new Policy(
        scheme,
        OPEN_COST_BYTES,
        SPLIT_BYTES_MIN,
        SPLIT_BYTES_MAX,
        RATIO,
        SHARE,
        REMOTE_SHARE_MAX,
        FIXED_UNITS);
  }

  public static Policy fixed(int units) {
    return of(Scheme.FIXED).withFixedUnits(units);
  }

  public static Policy assorted(double ratio, double share) {
    return of(Scheme.ASSORTED).withAssorted(ratio, share, REMOTE_SHARE_MAX);
  }

  /**
   * What opening one more unit costs, as bytes read in the same time; added to each unit's weight;
   * 0 or more.
   */
  public Policy withOpenCostBytes(long bytes) {
    return new Policy(
        scheme, bytes, splitBytesMin, splitBytesMax, ratio, share, remoteShareMax, fixedUnits);
  }

  /**
   * The least weight that is worth a container (0: any; a unit's weight is its bytes and what
   * opening it costs), and the most bytes that several units may have in one split.
   */
  public Policy withSplitBytes(long min, long max) {
    return new Policy(scheme, openCostBytes, min, max, ratio, share, remoteShareMax, fixedUnits);
  }

  /**
   * Each size of split is {@code ratio} times the one before and gets {@code share} of the slots
   * that are left on a node; {@code remoteShareMax} of a split may lie on other nodes. All in
   * (0,1).
   */
  public Policy withAssorted(double ratio, double share, double remoteShareMax) {
    return new Policy(
        scheme,
        openCostBytes,
        splitBytesMin,
        splitBytesMax,
        ratio,
        share,
        remoteShareMax,
        fixedUnits);
  }

  /** Units in a split of the scheme fixed, 1 or more. */
  public Policy withFixedUnits(int units) {
    return new Policy(
        scheme, openCostBytes, splitBytesMin, splitBytesMax, ratio, share, remoteShareMax, units);
  }

  public Scheme scheme() {
    return scheme;
  }

  public long openCostBytes() {
    return openCostBytes;
  }

  public long splitBytesMin() {
    return splitBytesMin;
  }

  public long splitBytesMax() {
    return splitBytesMax;
  }

  public double ratio() {
    return ratio;
  }

  public double share() {
    return share;
  }

  public double remoteShareMax() {
    return remoteShareMax;
  }

  public int fixedUnits() {
    return fixedUnits;
  }

  private static void checkShare(String name, double value) {
    if (!(value > 0 && value < 1)) {
      throw new IllegalArgumentException(
          name + " is " + value + "; expected a number above 0 and below 1");
    }
  }

  @Override
  public String toString() {
    return scheme
        + ", open cost "
        + openCostBytes
        + ", split bytes "
        + splitBytesMin
        + " to "
        + splitBytesMax
        + ", ratio "
        + ratio
        + ", share "
        + share
        + ", remote "
        + remoteShareMax
        + ", fixed "
        + fixedUnits;
  }
}
