package lamella.coalesce.yarn;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import lamella.coalesce.plan.ClusterShape;
import lamella.coalesce.shape.ShapeProvider;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapreduce.MRConfig;
import org.apache.hadoop.yarn.api.records.NodeReport;
import org.apache.hadoop.yarn.api.records.NodeState;
import org.apache.hadoop.yarn.client.api.YarnClient;
import org.apache.hadoop.yarn.exceptions.YarnException;

/**
 * Asks YARN's resource manager for its running nodes. What they hold of a job, {@link YarnShape}
 * computes.
 */
public final class YarnShapeProvider implements ShapeProvider {
  @Override
  public String name() {
    return "yarn";
  }

  @Override
  public boolean appliesTo(Configuration conf) {
    return MRConfig.YARN_FRAMEWORK_NAME.equals(conf.get(MRConfig.FRAMEWORK_NAME));
  }

  @Override
  public ClusterShape shape(Configuration conf) throws IOException {
    try (YarnClient client = YarnClient.createYarnClient()) {
      client.init(conf);
      client.start();
      List<NodeReport> reports = client.getNodeReports(NodeState.RUNNING);
      List<YarnShape.Room> rooms = new ArrayList<>();
      for (NodeReport report : reports) {
        rooms.add(
            new YarnShape.Room(
                report.getNodeId().getHost(),
                report.getCapability().getMemorySize(),
                report.getCapability().getVirtualCores()));
      }
      return YarnShape.of(rooms, conf);
    } catch (YarnException e) {
      throw new IOException("YARN does not say which nodes it has: " + e.getMessage(), e);
    }
  }
}
