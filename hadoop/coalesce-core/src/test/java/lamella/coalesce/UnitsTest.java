package lamella.coalesce;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import lamella.coalesce.plan.ClusterShape;
import lamella.coalesce.plan.Policy;
import lamella.coalesce.plan.SplitPlan;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.Test;

class UnitsTest {
  /** What some formats answer for a part whose place they do not know. */
  @Test
  void aHostWithoutANameIsNoHost() throws Exception {
    Configuration conf = new Configuration(false);
    conf.set(Settings.SHAPE, "splits");
    Units units = new Units(conf);
    for (String[] hosts : List.of(new String[] {""}, new String[] {"a"}, new String[] {" ", "a"}))
      units.add(1 << 20, hosts, null, null);
    ClusterShape shape = units.shape();
    assertEquals(1, shape.nodes().size());
    assertEquals("a", shape.nodes().get(0).host());
    SplitPlan plan = units.plan(shape, Policy.of(Policy.Scheme.NONE));
    assertEquals(List.of(), plan.splits().get(0).hosts());
    assertEquals(List.of("a"), plan.splits().get(2).hosts());
  }
}
