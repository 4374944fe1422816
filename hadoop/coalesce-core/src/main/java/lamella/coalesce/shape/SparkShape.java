package lamella.coalesce.shape;

import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.List;
import lamella.coalesce.Settings;
import lamella.coalesce.plan.ClusterShape;
import org.apache.hadoop.conf.Configuration;

/**
 * The slots of the Spark application that runs in this process: the tasks that each of its
 * executors runs at once, on the executors' hosts. Spark reuses its executors' processes, so it is
 * they that count, not the containers that the cluster could hold. Asked by reflection, so that the
 * jar needs no Spark and fits any since 2.3.
 *
 * <p>K1: executors are those that there are when splits are computed. Where Spark adds more later
 * (dynamic allocation), lamella.coalesce.nodes says how many there will be.
 */
final class SparkShape {
  private static final String DRIVER = "driver";

  private SparkShape() {}

  /** Null if no Spark application runs here. */
  static ClusterShape find(Configuration conf) throws IOException {
    Object context = activeContext(conf);
    if (context == null) return null;
    try {
      List<ClusterShape.Node> nodes = executors(context, Settings.slotsPerNode(conf, 0));
      if (nodes.isEmpty()) {
        throw new IOException(
            "this Spark application has no executors yet. Wait for them, or set "
                + Settings.NODES
                + " to one or more of host or host:slots, separated by commas");
      }
      return new ClusterShape(nodes, Settings.slotsReserved(conf, 0), "Spark's executors");
    } catch (ReflectiveOperationException e) {
      throw new IOException(
          "this Spark does not tell its executors as those from 2.3 to 4.0 do ("
              + e
              + "); set "
              + Settings.NODES
              + " to one or more of host or host:slots, separated by commas",
          e);
    }
  }

  /** SparkContext.getActive, of Scala's companion object. */
  private static Object activeContext(Configuration conf) {
    Class<?> type = null;
    for (ClassLoader loader :
        new ClassLoader[] {Thread.currentThread().getContextClassLoader(), conf.getClassLoader()}) {
      try {
        if (type == null && loader != null)
          type = Class.forName("org.apache.spark.SparkContext$", true, loader);
      } catch (ClassNotFoundException | LinkageError e) {
        // not with this loader
      }
    }
    if (type == null) return null;
    try {
      Object active = call(type.getField("MODULE$").get(null), "getActive");
      return call(active, "isDefined").equals(true) ? call(active, "get") : null;
    } catch (ReflectiveOperationException | LinkageError e) {
      return null; // Spark's classes, but no application
    }
  }

  private static List<ClusterShape.Node> executors(Object context, int slotsGiven)
      throws ReflectiveOperationException {
    Object store = call(context, "statusStore");
    Object summaries =
        store.getClass().getMethod("executorList", boolean.class).invoke(store, true);
    List<ClusterShape.Node> executors = new ArrayList<>();
    List<ClusterShape.Node> local = new ArrayList<>();
    for (Object i = call(summaries, "iterator"); call(i, "hasNext").equals(true); ) {
      Object summary = call(i, "next");
      String hostPort = (String) call(summary, "hostPort");
      int slots = slotsGiven > 0 ? slotsGiven : (Integer) call(summary, "maxTasks");
      if (slots < 1)
        continue; // the driver of a cluster runs no tasks; in local mode it runs them all
      int colon = hostPort.lastIndexOf(':');
      ClusterShape.Node node =
          new ClusterShape.Node(colon < 0 ? hostPort : hostPort.substring(0, colon), slots);
      (DRIVER.equals(call(summary, "id")) ? local : executors).add(node);
    }
    return executors.isEmpty() ? local : executors;
  }

  private static Object call(Object target, String name) throws ReflectiveOperationException {
    try {
      java.lang.reflect.Method method = target.getClass().getMethod(name);
      method.setAccessible(true); // Scala's collections are often private classes
      return method.invoke(target);
    } catch (InvocationTargetException e) {
      throw new ReflectiveOperationException(name + ": " + e.getCause(), e);
    }
  }
}
