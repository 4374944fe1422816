package lamella.coalesce.yarn;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.List;
import java.util.ServiceLoader;
import lamella.coalesce.InvalidSettingException;
import lamella.coalesce.Settings;
import lamella.coalesce.plan.ClusterShape;
import lamella.coalesce.shape.ShapeProvider;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.Test;

class YarnShapeTest {
  private static Configuration conf(String... pairs) {
    Configuration conf = new Configuration(false);
    conf.set("yarn.scheduler.minimum-allocation-mb", "512");
    conf.set("mapreduce.map.memory.mb", "512");
    conf.set("yarn.app.mapreduce.am.resource.mb", "512");
    for (int i = 0; i < pairs.length; i += 2) conf.set(pairs[i], pairs[i + 1]);
    return conf;
  }

  private static final List<YarnShape.Room> THREE =
      List.of(
          new YarnShape.Room("a", 1024, 8),
          new YarnShape.Room("b", 1024, 8),
          new YarnShape.Room("c", 1024, 8));

  @Test
  void theApplicationMastersSlotIsReserved() throws IOException {
    ClusterShape shape = YarnShape.of(THREE, conf());
    assertEquals(5, shape.slots());
    assertArrayEquals(new int[] {2, 2, 1}, shape.slotsPerNode());
  }

  @Test
  void aSmallApplicationMasterMayDisplaceNothing() throws IOException {
    List<YarnShape.Room> rooms = List.of(new YarnShape.Room("a", 1400, 8));
    assertEquals(
        1,
        YarnShape.of(
                rooms,
                conf(
                    "mapreduce.map.memory.mb",
                    "1024",
                    "yarn.scheduler.minimum-allocation-mb",
                    "128",
                    "yarn.app.mapreduce.am.resource.mb",
                    "256"))
            .slots());
  }

  @Test
  void vcoresDecideOnlyWhereTheSchedulerCountsThem() throws IOException {
    List<YarnShape.Room> rooms = List.of(new YarnShape.Room("a", 8192, 3));
    String calculator = "yarn.scheduler.capacity.resource-calculator";
    String dominant = "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator";
    String scheduler = "yarn.resourcemanager.scheduler.class";
    String fair = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fair.FairScheduler";
    String fifo = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler";
    assertEquals(
        15,
        YarnShape.of(rooms, conf())
            .slots()); // the Capacity Scheduler's default counts memory alone
    assertEquals(15, YarnShape.of(rooms, conf(scheduler, fifo, calculator, dominant)).slots());
    assertEquals(
        2,
        YarnShape.of(rooms, conf(calculator, dominant))
            .slots()); // 3 vcores, one of them the master's
    assertEquals(
        2,
        YarnShape.of(rooms, conf(scheduler, fair, "yarn.scheduler.increment-allocation-mb", "512"))
            .slots());
    assertEquals(2, YarnShape.of(rooms, conf(Settings.SLOTS_VCORES, "count")).slots());
    assertEquals(
        15,
        YarnShape.of(rooms, conf(calculator, dominant, Settings.SLOTS_VCORES, "ignore")).slots());
    assertThrows(
        InvalidSettingException.class,
        () -> YarnShape.of(rooms, conf(Settings.SLOTS_VCORES, "yes")));
  }

  @Test
  void theCapacitySchedulersFileIsRead(@org.junit.jupiter.api.io.TempDir java.nio.file.Path folder)
      throws Exception {
    java.nio.file.Files.writeString(
        folder.resolve("capacity-scheduler.xml"),
        "<configuration><property><name>yarn.scheduler.capacity.resource-calculator</name><value>"
            + "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator"
            + "</value></property></configuration>");
    Configuration conf = conf();
    try (java.net.URLClassLoader loader =
        new java.net.URLClassLoader(
            new java.net.URL[] {folder.toUri().toURL()}, getClass().getClassLoader())) {
      conf.setClassLoader(loader);
      assertEquals(2, YarnShape.of(List.of(new YarnShape.Room("a", 8192, 3)), conf).slots());
    }
  }

  @Test
  void memoryThatIsNotSetFollowsTheHeap() throws IOException {
    List<YarnShape.Room> rooms = List.of(new YarnShape.Room("a", 8192, 8));
    Configuration conf = conf("mapreduce.map.java.opts", "-Xmx1600m");
    conf.unset("mapreduce.map.memory.mb");
    assertEquals(
        3,
        YarnShape.of(rooms, conf)
            .slots()); // 1600 / 0.8 = 2000, rounded up to 2048; the master takes of one
    conf.set("mapreduce.map.memory.mb", "-1");
    assertEquals(3, YarnShape.of(rooms, conf).slots());
    conf.unset("mapreduce.map.java.opts");
    assertEquals(7, YarnShape.of(rooms, conf).slots()); // Hadoop's 1024
  }

  @Test
  void theNewerResourceKeysComeFirst() throws IOException {
    assertEquals(2, YarnShape.of(THREE, conf("mapreduce.map.resource.memory-mb", "1024")).slots());
    assertEquals(2, YarnShape.of(THREE, conf("mapreduce.map.resource.memory", "1Gi")).slots());
    assertEquals(
        5,
        YarnShape.of(
                THREE,
                conf("mapreduce.map.memory.mb", "1024", "mapreduce.map.resource.memory-mb", "500"))
            .slots());
    assertEquals(
        4, YarnShape.of(THREE, conf("yarn.app.mapreduce.am.resource.memory-mb", "1Gi")).slots());
    assertEquals(
        3,
        YarnShape.of(
                THREE,
                conf(
                    Settings.SLOTS_VCORES,
                    "count",
                    "mapreduce.map.resource.vcores",
                    "5",
                    "yarn.app.mapreduce.am.resource.vcores",
                    "1",
                    Settings.SLOTS_RESERVED,
                    "0"))
            .slots());
    InvalidSettingException e =
        assertThrows(
            InvalidSettingException.class,
            () -> YarnShape.of(THREE, conf("mapreduce.map.resource.memory-mb", "much")));
    assertTrue(
        e.getMessage().startsWith("mapreduce.map.resource.memory-mb is 'much'"), e.getMessage());
  }

  @Test
  void aLimitOfRunningMapsIsALimitOfSlots() throws IOException {
    assertEquals(3, YarnShape.of(THREE, conf("mapreduce.job.running.map.limit", "3")).slots());
    assertEquals(5, YarnShape.of(THREE, conf("mapreduce.job.running.map.limit", "50")).slots());
    assertEquals(1, YarnShape.of(THREE, conf("mapreduce.job.running.map.limit", "1")).slots());
  }

  @Test
  void theFairSchedulerRoundsToItsIncrement() throws IOException {
    String scheduler = "yarn.resourcemanager.scheduler.class";
    String fair = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fair.FairScheduler";
    assertEquals(
        2, YarnShape.of(THREE, conf(scheduler, fair)).slots()); // 512 is rounded up to 1024
    assertEquals(
        5,
        YarnShape.of(THREE, conf(scheduler, fair, "yarn.scheduler.increment-allocation-mb", "512"))
            .slots());
  }

  @Test
  void withoutVcoresMemoryDecides() throws IOException {
    assertEquals(
        7,
        YarnShape.of(
                List.of(new YarnShape.Room("a", 8192, 8)), conf("mapreduce.map.memory.mb", "1024"))
            .slots());
  }

  @Test
  void memoryIsRoundedUpAsTheSchedulerDoes() throws IOException {
    assertEquals(2, YarnShape.of(THREE, conf("mapreduce.map.memory.mb", "513")).slots());
  }

  @Test
  void reducersCountOnlyIfTheyStartWithTheMaps() throws IOException {
    assertEquals(5, YarnShape.of(THREE, conf("mapreduce.job.reduces", "2")).slots());
    assertEquals(
        3,
        YarnShape.of(
                THREE,
                conf(
                    "mapreduce.job.reduces",
                    "2",
                    "mapreduce.reduce.memory.mb",
                    "512",
                    "mapreduce.job.reduce.slowstart.completedmaps",
                    "0"))
            .slots());
  }

  @Test
  void settingsOverrideWhatNodesHave() throws IOException {
    ClusterShape shape =
        YarnShape.of(THREE, conf(Settings.SLOTS_PER_NODE, "4", Settings.SLOTS_RESERVED, "0"));
    assertEquals(12, shape.slots());
  }

  @Test
  void noNodesIsSaidWithTheKeyThatHelps() {
    IOException e = assertThrows(IOException.class, () -> YarnShape.of(List.of(), conf()));
    assertTrue(e.getMessage().contains(Settings.NODES), e.getMessage());
  }

  @Test
  void aContainerLargerThanAnyNodeIsRefused() {
    InvalidSettingException e =
        assertThrows(
            InvalidSettingException.class,
            () -> YarnShape.of(THREE, conf("mapreduce.map.memory.mb", "2048")));
    assertTrue(
        e.getMessage().contains("mapreduce.map.memory.mb") && e.getMessage().contains("1024"),
        e.getMessage());
  }

  @Test
  void theProviderIsFound() {
    List<String> names =
        ServiceLoader.load(ShapeProvider.class).stream().map(found -> found.get().name()).toList();
    assertEquals(List.of("yarn"), names);
  }
}
