package lamella.coalesce.yarn;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import lamella.coalesce.InvalidSettingException;
import lamella.coalesce.Settings;
import lamella.coalesce.plan.ClusterShape;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapreduce.MRJobConfig;
import org.apache.hadoop.yarn.conf.YarnConfiguration;

/**
 * How many maps of a job run at once on nodes with this much room.
 *
 * <p>Y1: a node's slots are the map containers that fit it, by memory and by vcores, whichever are fewer. Memory is rounded up
 * to the scheduler's smallest allocation, as the scheduler does. Y2: the slots that the application master's container
 * displaces are reserved; it may land anywhere, so the node where it displaces most counts. Without this a wave of as many maps
 * as slots becomes two. Y3: reducers are reserved for only where they start together with the maps (a slow start of 0): with any
 * later start they are asked for after a first map has ended, when a single wave of maps has long got its containers. They take
 * at most half of the slots, which is where MapReduce's ramp-up limit is by default.
 *
 * <p>The whole cluster is taken to be the job's: a queue's share and other jobs are not looked at. Who knows better says so
 * with lamella.coalesce.slots.per.node or lamella.coalesce.slots.reserved.
 */
final class YarnShape {
  /** What one running node has in all. */
  record Room(String host, long memoryMb, int vcores) {
    int containers(Ask ask) {
      return (int) Math.min(memoryMb / ask.memoryMb, vcores / ask.vcores);
    }

    Room without(Ask ask) {
      return new Room(host, memoryMb - ask.memoryMb, vcores - ask.vcores);
    }
  }

  /** mapred-default.xml's. */
  private static final float SLOW_START_DEFAULT = 0.05f;

  private record Ask(long memoryMb, int vcores) {}

  private YarnShape() {}

  static ClusterShape of(List<Room> rooms, Configuration conf) throws IOException {
    if (rooms.isEmpty()) {
      throw new IOException("YARN reports no running nodes. Start node managers, or set " + Settings.NODES
          + " to one or more of host or host:slots, separated by commas");
    }
    Ask map = ask(conf, MRJobConfig.MAP_MEMORY_MB, MRJobConfig.DEFAULT_MAP_MEMORY_MB,
        MRJobConfig.MAP_CPU_VCORES, MRJobConfig.DEFAULT_MAP_CPU_VCORES);
    int slotsGiven = Settings.slotsPerNode(conf, 0);
    List<ClusterShape.Node> nodes = new ArrayList<>();
    for (Room room : rooms) {
      int slots = slotsGiven > 0 ? slotsGiven : room.containers(map);
      if (slots > 0) nodes.add(new ClusterShape.Node(room.host(), slots));
    }
    if (nodes.isEmpty()) {
      Room largest = rooms.stream().max((a, b) -> Long.compare(a.memoryMb(), b.memoryMb())).orElseThrow();
      throw new InvalidSettingException(MRJobConfig.MAP_MEMORY_MB + " (with " + MRJobConfig.MAP_CPU_VCORES + ")",
          map.memoryMb() + "' (with '" + map.vcores(),
          "what fits a node; the largest of " + rooms.size() + " has " + largest.memoryMb() + " MB and " + largest.vcores()
              + " vcores");
    }
    int slots = nodes.stream().mapToInt(ClusterShape.Node::slots).sum();
    int reserved = Settings.slotsReserved(conf, displacedByMaster(rooms, map, conf) + displacedByReducers(slots, map, conf));
    return new ClusterShape(nodes, reserved, "YARN");
  }

  /** Keeps Y2. */
  private static int displacedByMaster(List<Room> rooms, Ask map, Configuration conf) {
    Ask master = ask(conf, MRJobConfig.MR_AM_VMEM_MB, MRJobConfig.DEFAULT_MR_AM_VMEM_MB,
        MRJobConfig.MR_AM_CPU_VCORES, MRJobConfig.DEFAULT_MR_AM_CPU_VCORES);
    int most = 0;
    for (Room room : rooms) {
      if (room.containers(master) == 0) continue;  // it cannot land there
      most = Math.max(most, room.containers(map) - room.without(master).containers(map));
    }
    return most;
  }

  /** Keeps Y3. */
  private static int displacedByReducers(int slots, Ask map, Configuration conf) {
    if (conf.getFloat(MRJobConfig.COMPLETED_MAPS_FOR_REDUCE_SLOWSTART, SLOW_START_DEFAULT) > 0) return 0;
    Ask reduce = ask(conf, MRJobConfig.REDUCE_MEMORY_MB, MRJobConfig.DEFAULT_REDUCE_MEMORY_MB,
        MRJobConfig.REDUCE_CPU_VCORES, MRJobConfig.DEFAULT_REDUCE_CPU_VCORES);
    double slotsEach = Math.max((double) reduce.memoryMb() / map.memoryMb(), (double) reduce.vcores() / map.vcores());
    return (int) Math.min(slots / 2, Math.ceil(conf.getInt(MRJobConfig.NUM_REDUCES, 1) * slotsEach));
  }

  private static Ask ask(Configuration conf, String memoryKey, int memoryDefault, String vcoresKey, int vcoresDefault) {
    long smallest = Math.max(1, conf.getLong(
        YarnConfiguration.RM_SCHEDULER_MINIMUM_ALLOCATION_MB, YarnConfiguration.DEFAULT_RM_SCHEDULER_MINIMUM_ALLOCATION_MB));
    long memory = conf.getLong(memoryKey, memoryDefault);
    if (memory <= 0) memory = memoryDefault;  // Hadoop's -1: derive from the heap or take the default
    int vcores = conf.getInt(vcoresKey, vcoresDefault);
    if (vcores < 1) throw new InvalidSettingException(vcoresKey, Integer.toString(vcores), "a whole number from 1");
    return new Ask((memory + smallest - 1) / smallest * smallest, vcores);
  }
}
