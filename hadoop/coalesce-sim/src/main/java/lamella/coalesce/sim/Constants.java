package lamella.coalesce.sim;

/**
 * The modelled cluster. "given": the dissertation says so. "fitted": chosen so that the one figure
 * named comes out; that figure then proves nothing, the others do. "assumed": it says nothing, and
 * this is ordinary for such machines.
 */
final class Constants {
  static final int NODES = 32; // given
  static final int SLOTS_PER_NODE = 8; // given
  static final int REPLICAS = 3; // given
  static final double BLOCK_MB = 128; // given
  static final double MASTER_START_S = 1.51; // given
  static final double CONTAINER_START_S = 6.58; // given
  static final double SCHEDULING_S =
      1.28; // given: between a free slot and a container's start request, on average

  /** assumed: YARN's default; half of it, on average, is part of {@link #SCHEDULING_S}. */
  static final double HEARTBEAT_S = 1;

  /** assumed: how long a job waits for a node with its data, in offers declined; one per node. */
  static final int OFFERS_DECLINED_MAX = NODES;

  /** given as Hadoop's default: reducers start when this share of the maps has ended. */
  static final double SLOW_START = 0.05;

  /**
   * given as Hadoop's default: reducers hold at most this share of a job's slots while it has maps
   * to start.
   */
  static final double REDUCE_RAMP_UP_MAX = 0.5;

  /**
   * fitted: Grep's fastest node takes 92 s with maximum coalescing (figure 6b); one disk per node
   * carries HDFS.
   */
  static final double DISK_MB_PER_S = 99;

  /**
   * assumed: disks differ; the slowest gives this share of the fastest, the others lie evenly
   * between.
   */
  static final double DISK_SLOWEST_SHARE = 0.7;

  /** assumed: what a task gets from another node's disk at most. */
  static final double REMOTE_MB_PER_S = 30;

  /**
   * given: 19 and 13 nodes behind two switches joined at a gigabit (110 MB/s of data); a quarter of
   * a shuffle goes each way.
   */
  static final double SHUFFLE_MB_PER_S = 110 / (19.0 / 32 * 13 / 32);

  private Constants() {}
}
