package lamella.coalesce.shape;

import java.io.IOException;
import lamella.coalesce.plan.ClusterShape;
import org.apache.hadoop.conf.Configuration;

/**
 * Asks a resource manager for the shape of its cluster. Found by {@link java.util.ServiceLoader};
 * coalesce-yarn has one. Called in the process that computes splits: a job's client, Spark's
 * driver.
 */
public interface ShapeProvider {
  /** The value of lamella.coalesce.shape that asks for this provider. */
  String name();

  /** Whether a job with this configuration will run where this provider looks. */
  boolean appliesTo(Configuration conf);

  /**
   * The shape.
   *
   * @throws IOException if the resource manager does not answer or has no running nodes
   */
  ClusterShape shape(Configuration conf) throws IOException;
}
