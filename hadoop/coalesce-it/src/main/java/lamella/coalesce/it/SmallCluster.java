package lamella.coalesce.it;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.logging.LogManager;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.mapreduce.v2.MiniMRYarnCluster;
import org.apache.hadoop.net.NetUtils;
import org.apache.hadoop.yarn.api.records.NodeState;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.nodemanager.NodeManager;
import org.apache.log4j.Level;
import org.apache.log4j.Logger;

/**
 * A real HDFS and a real YARN in this process, whose containers are real processes. Every node is a
 * data node and a node manager under one name of its own. What each unusual setting is for stands
 * beside it; most were found by a job that hung.
 */
public final class SmallCluster implements AutoCloseable {
  private static final int CONTAINER_MB = 512;

  public final int nodeCount;
  public final int slotsPerNode;
  private final MiniDFSCluster dfs;
  private final MiniMRYarnCluster yarn;
  private final List<NodeManager> nodeManagers = new ArrayList<>();

  /**
   * Nodes with memory for {@code slotsPerNode} containers and half as many vcores, which YARN's
   * default scheduler does not count.
   */
  public SmallCluster(int nodeCount, int slotsPerNode, Path folder)
      throws IOException, InterruptedException {
    this(nodeCount, slotsPerNode, slotsPerNode / 2, false, folder);
  }

  /** With a scheduler that counts vcores, or one that does not. */
  public SmallCluster(
      int nodeCount, int containersByMemory, int vcores, boolean countVcores, Path folder)
      throws IOException, InterruptedException {
    this.nodeCount = nodeCount;
    slotsPerNode = countVcores ? Math.min(containersByMemory, vcores) : containersByMemory;
    String hosts = NodeNames.install(folder);
    LogManager.getLogManager().reset(); // the web servers' talk, which goes by java.util.logging
    System.setProperty("test.build.data", folder.resolve("data").toString());
    System.setProperty(MiniDFSCluster.PROP_TEST_BUILD_DATA, folder.resolve("dfs").toString());

    Configuration conf = new YarnConfiguration();
    conf.setLong("dfs.blocksize", 1 << 20);
    conf.setInt("dfs.replication", Math.min(2, nodeCount));
    conf.setBoolean(
        "dfs.namenode.redundancy.considerLoad",
        false); // else a node that is named for a file is passed over while it has more to do
    conf.set("dfs.namenode.edits.noeditlogchannelflush", "true");
    List<String> names = NodeNames.names(nodeCount);
    dfs =
        new MiniDFSCluster.Builder(conf)
            .numDataNodes(nodeCount)
            .hosts(names.toArray(new String[0]))
            .build();
    dfs.waitActive();
    // The DFS resolved the names to localhost for itself; with that left in place, tasks never find
    // their node managers.
    for (String name : names) NetUtils.addStaticResolution(name, name);

    configureYarn(conf, hosts, containersByMemory, vcores);
    String calculator = countVcores ? "DominantResourceCalculator" : "DefaultResourceCalculator";
    conf.set(
        "yarn.scheduler.capacity.resource-calculator",
        "org.apache.hadoop.yarn.util.resource." + calculator);
    yarn =
        new MiniMRYarnCluster("small", 0); // with node managers of its own, all would be one host
    yarn.init(conf);
    yarn.start();
    for (String name : names) startNodeManager(name, folder);
    waitForNodes();
  }

  private void configureYarn(Configuration conf, String hosts, int containersByMemory, int vcores) {
    conf.set("fs.defaultFS", dfs.getURI().toString());
    conf.set("yarn.app.mapreduce.am.staging-dir", "/staging");
    conf.setInt("yarn.scheduler.minimum-allocation-mb", CONTAINER_MB);
    conf.setInt("yarn.scheduler.maximum-allocation-mb", CONTAINER_MB * containersByMemory);
    conf.setInt("yarn.nodemanager.resource.memory-mb", CONTAINER_MB * containersByMemory);
    conf.setInt("yarn.nodemanager.resource.cpu-vcores", vcores);
    conf.setBoolean(
        "yarn.nodemanager.log-container-debug-info.enabled",
        false); // a find and an ls for each container
    conf.setBoolean("yarn.nodemanager.pmem-check-enabled", false);
    conf.setBoolean("yarn.nodemanager.vmem-check-enabled", false);
    conf.set(
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage", "99.5");
    conf.setInt(
        "yarn.nodemanager.log.retain-seconds",
        0); // this and the next two: else stopping takes most of a minute
    conf.setInt("yarn.nodemanager.process-kill-wait.ms", 100);
    conf.setInt("yarn.nodemanager.sleep-delay-before-sigkill.ms", 50);
    conf.setInt("yarn.resourcemanager.nodemanagers.heartbeat-interval-ms", 250);
    conf.setInt("yarn.app.mapreduce.am.scheduler.heartbeat.interval-ms", 250);
    conf.setInt(
        "mapreduce.client.completion.pollinterval",
        100); // 5 s by default, which would be most of a difference
    conf.set(
        "yarn.resourcemanager.scheduler.class",
        "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler");
    conf.set("yarn.scheduler.capacity.root.queues", "default");
    conf.set("yarn.scheduler.capacity.root.default.capacity", "100");
    conf.set("yarn.scheduler.capacity.maximum-am-resource-percent", "1.0");
    conf.setInt("mapreduce.shuffle.port", 0);
    conf.set("lamella.coalesce.split.bytes.min", "0"); // blocks are a hundredth of the usual ones

    // They live for seconds, so what is left out is what takes its time at a start: a second
    // compiler, collections before there is garbage, and another look at what javac wrote.
    String java =
        "-Xms128m -Xmx256m -XX:MetaspaceSize=128m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
            + " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
            + " --add-opens java.base/java.lang=ALL-UNNAMED "
            + hosts;
    String home = "JAVA_HOME=" + System.getProperty("java.home");
    for (String task : List.of("mapreduce.map", "mapreduce.reduce")) {
      conf.setInt(task + ".memory.mb", CONTAINER_MB);
      conf.set(task + ".java.opts", java);
      conf.set(task + ".env", home);
      conf.setBoolean(task + ".speculative", false);
    }
    conf.setInt("mapreduce.task.io.sort.mb", 64);
    conf.setInt("yarn.app.mapreduce.am.resource.mb", CONTAINER_MB);
    conf.set("yarn.app.mapreduce.am.command-opts", java);
    conf.set("yarn.app.mapreduce.am.env", home);
  }

  private void startNodeManager(String name, Path folder) throws IOException {
    Configuration conf = new YarnConfiguration(yarn.getConfig());
    conf.set("yarn.nodemanager.bind-host", name);
    conf.set("yarn.nodemanager.hostname", name);
    for (String service : List.of("", ".localizer", ".webapp", ".collector-service")) {
      conf.set("yarn.nodemanager" + service + ".address", name + ":0");
    }
    for (String kind : List.of("local", "log")) {
      Path dir = folder.resolve(kind).resolve(name).toAbsolutePath();
      Files.createDirectories(dir);
      conf.set("yarn.nodemanager." + kind + "-dirs", dir.toString());
    }
    NodeManager nodeManager = new NodeManager();
    nodeManagers.add(nodeManager);
    nodeManager.init(conf);
    nodeManager.start();
  }

  private void waitForNodes() throws IOException, InterruptedException {
    for (int tries = 0; tries < 300; tries++) {
      long running =
          yarn.getResourceManager().getRMContext().getRMNodes().values().stream()
              .filter(node -> node.getState() == NodeState.RUNNING)
              .count();
      if (running == nodeCount) return;
      Thread.sleep(100);
    }
    throw new IOException("after 30 s not all of " + nodeCount + " node managers had registered");
  }

  /** The options that make names of nodes known to a JVM. */
  public String hostsOption() {
    return "-Djdk.net.hosts.file=" + System.getProperty("jdk.net.hosts.file");
  }

  /** For a job: a copy that the caller may change. */
  public Configuration conf() {
    return new Configuration(yarn.getConfig());
  }

  public FileSystem fs() throws IOException {
    return dfs.getFileSystem();
  }

  /** Where a node's replicas are written to, as {@link Data#text} takes it. */
  public InetSocketAddress storage(int node) {
    return dfs.getDataNodes().get(node).getXferAddress();
  }

  /** Slots for maps: all but the application master's. */
  public int slots() {
    return nodeCount * slotsPerNode - 1;
  }

  @Override
  public void close() {
    Logger.getLogger("org.apache.hadoop")
        .setLevel(Level.OFF); // every daemon reports that it was interrupted
    for (NodeManager nodeManager : nodeManagers) nodeManager.stop();
    yarn.stop();
    dfs.shutdown(true);
  }
}
