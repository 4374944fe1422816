package lamella.coalesce.yarn;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import lamella.coalesce.InvalidSettingException;
import lamella.coalesce.Settings;
import lamella.coalesce.plan.ClusterShape;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapreduce.MRJobConfig;

/**
 * How many maps of a job run at once on nodes with this much room.
 *
 * <p>Y1: a node's slots are the map containers that fit it, by memory and, where the scheduler
 * counts them, by vcores, whichever are fewer. Y2: the slots that the application master's
 * container displaces are reserved; it may land anywhere, so the node where it displaces most
 * counts. Without this a wave of as many maps as slots becomes two. Y3: reducers are reserved for
 * only where they start together with the maps (a slow start of 0): with any later start they are
 * asked for after a first map has ended, when a single wave of maps has long got its containers.
 * They take at most half of the slots, which is where MapReduce's ramp-up limit is by default. Y4:
 * a job that limits its running maps has no more slots than that.
 *
 * <p>The whole cluster is taken to be the job's: a queue's share and other jobs are not looked at.
 * Who knows better says so with lamella.coalesce.slots.per.node or lamella.coalesce.slots.reserved.
 */
final class YarnShape {
  /** What one running node has in all. */
  static final class Room {
    final String host;
    final long memoryMb;
    final int vcores;

    Room(String host, long memoryMb, int vcores) {
      this.host = host;
      this.memoryMb = memoryMb;
      this.vcores = vcores;
    }

    private int containers(Ask ask, boolean countVcores) {
      long byMemory = Math.max(0, memoryMb) / ask.memoryMb;
      return (int)
          Math.min(
              Integer.MAX_VALUE,
              countVcores ? Math.min(byMemory, Math.max(0, vcores) / ask.vcores) : byMemory);
    }

    private Room without(Ask ask) {
      return new Room(host, memoryMb - ask.memoryMb, vcores - ask.vcores);
    }
  }

  /** mapred-default.xml's. */
  private static final float SLOW_START_DEFAULT = 0.05f;

  private YarnShape() {}

  static ClusterShape of(List<Room> rooms, Configuration conf) throws IOException {
    if (rooms.isEmpty()) {
      throw new IOException(
          "YARN reports no running nodes. Start node managers, or set "
              + Settings.NODES
              + " to one or more of host or host:slots, separated by commas");
    }
    Ask map = Ask.map(conf);
    boolean countVcores = Scheduler.countsVcores(conf);
    int slotsGiven = Settings.slotsPerNode(conf, 0);
    List<ClusterShape.Node> nodes = new ArrayList<>();
    for (Room room : rooms) {
      int slots = slotsGiven > 0 ? slotsGiven : room.containers(map, countVcores);
      if (slots > 0) nodes.add(new ClusterShape.Node(room.host, slots));
    }
    if (nodes.isEmpty()) {
      Room largest = rooms.stream().max((a, b) -> Long.compare(a.memoryMb, b.memoryMb)).get();
      throw new InvalidSettingException(
          map.told().getKey(),
          map.told().getValue(),
          "what fits a node; the largest of "
              + rooms.size()
              + " has "
              + largest.memoryMb
              + " MB and "
              + largest.vcores
              + " vcores");
    }
    int slots = nodes.stream().mapToInt(ClusterShape.Node::slots).sum();
    int reserved =
        Settings.slotsReserved(
            conf,
            displacedByMaster(rooms, map, countVcores, conf)
                + displacedByReducers(slots, map, countVcores, conf));
    int limit =
        conf.getInt(MRJobConfig.JOB_RUNNING_MAP_LIMIT, MRJobConfig.DEFAULT_JOB_RUNNING_MAP_LIMIT);
    if (limit > 0) reserved = Math.max(reserved, slots - limit); // keeps Y4
    return new ClusterShape(nodes, reserved, "YARN");
  }

  /** Keeps Y2. */
  private static int displacedByMaster(
      List<Room> rooms, Ask map, boolean countVcores, Configuration conf) {
    Ask master = Ask.master(conf);
    int most = 0;
    for (Room room : rooms) {
      if (room.containers(master, countVcores) == 0) continue; // it cannot land there
      most =
          Math.max(
              most,
              room.containers(map, countVcores)
                  - room.without(master).containers(map, countVcores));
    }
    return most;
  }

  /** Keeps Y3. */
  private static int displacedByReducers(
      int slots, Ask map, boolean countVcores, Configuration conf) {
    if (conf.getFloat(MRJobConfig.COMPLETED_MAPS_FOR_REDUCE_SLOWSTART, SLOW_START_DEFAULT) > 0)
      return 0;
    Ask reduce = Ask.reduce(conf);
    double slotsEach = (double) reduce.memoryMb / map.memoryMb;
    if (countVcores) slotsEach = Math.max(slotsEach, (double) reduce.vcores / map.vcores);
    return (int)
        Math.min(slots / 2, Math.ceil(conf.getInt(MRJobConfig.NUM_REDUCES, 1) * slotsEach));
  }
}
