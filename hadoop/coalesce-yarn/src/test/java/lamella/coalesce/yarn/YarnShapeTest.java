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
      List.of(new YarnShape.Room("a", 1024, 8), new YarnShape.Room("b", 1024, 8), new YarnShape.Room("c", 1024, 8));

  @Test
  void theApplicationMastersSlotIsReserved() throws IOException {
    ClusterShape shape = YarnShape.of(THREE, conf());
    assertEquals(5, shape.slots());
    assertArrayEquals(new int[] {2, 2, 1}, shape.slotsPerNode());
  }

  @Test
  void aSmallApplicationMasterMayDisplaceNothing() throws IOException {
    List<YarnShape.Room> rooms = List.of(new YarnShape.Room("a", 1400, 8));
    assertEquals(1, YarnShape.of(rooms, conf("mapreduce.map.memory.mb", "1024", "yarn.scheduler.minimum-allocation-mb", "128",
        "yarn.app.mapreduce.am.resource.mb", "256")).slots());
  }

  @Test
  void theScarcerOfMemoryAndVcoresDecides() throws IOException {
    List<YarnShape.Room> rooms = List.of(new YarnShape.Room("a", 8192, 3));
    assertEquals(2, YarnShape.of(rooms, conf()).slots());  // 3 vcores, one of them the master's
    assertEquals(7, YarnShape.of(List.of(new YarnShape.Room("a", 8192, 8)), conf("mapreduce.map.memory.mb", "1024")).slots());
  }

  @Test
  void memoryIsRoundedUpAsTheSchedulerDoes() throws IOException {
    assertEquals(2, YarnShape.of(THREE, conf("mapreduce.map.memory.mb", "513")).slots());
  }

  @Test
  void reducersCountOnlyIfTheyStartWithTheMaps() throws IOException {
    assertEquals(5, YarnShape.of(THREE, conf("mapreduce.job.reduces", "2")).slots());
    assertEquals(3, YarnShape.of(THREE, conf("mapreduce.job.reduces", "2", "mapreduce.reduce.memory.mb", "512",
        "mapreduce.job.reduce.slowstart.completedmaps", "0")).slots());
  }

  @Test
  void settingsOverrideWhatNodesHave() throws IOException {
    ClusterShape shape = YarnShape.of(THREE, conf(Settings.SLOTS_PER_NODE, "4", Settings.SLOTS_RESERVED, "0"));
    assertEquals(12, shape.slots());
  }

  @Test
  void noNodesIsSaidWithTheKeyThatHelps() {
    IOException e = assertThrows(IOException.class, () -> YarnShape.of(List.of(), conf()));
    assertTrue(e.getMessage().contains(Settings.NODES), e.getMessage());
  }

  @Test
  void aContainerLargerThanAnyNodeIsRefused() {
    InvalidSettingException e = assertThrows(
        InvalidSettingException.class, () -> YarnShape.of(THREE, conf("mapreduce.map.memory.mb", "2048")));
    assertTrue(e.getMessage().contains("mapreduce.map.memory.mb") && e.getMessage().contains("1024"), e.getMessage());
  }

  @Test
  void theProviderIsFound() {
    List<String> names = ServiceLoader.load(ShapeProvider.class).stream().map(found -> found.get().name()).toList();
    assertEquals(List.of("yarn"), names);
  }
}
