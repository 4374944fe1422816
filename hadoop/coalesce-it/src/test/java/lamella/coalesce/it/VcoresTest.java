package lamella.coalesce.it;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Path;
import org.apache.hadoop.mapreduce.lib.input.TextInputFormat;
import org.junit.jupiter.api.Test;

/**
 * A cluster whose scheduler counts vcores, of which there are fewer than memory would allow
 * containers.
 */
class VcoresTest {
  private static final Path FOLDER = Path.of("target", "vcores-cluster");
  private static final org.apache.hadoop.fs.Path INPUT = new org.apache.hadoop.fs.Path("/long");

  @Test
  void slotsAreThoseThatYarnGives() throws Exception {
    try (SmallCluster cluster = new SmallCluster(2, 4, 2, true, FOLDER)) {
      Data.longLines(cluster.fs(), new org.apache.hadoop.fs.Path(INPUT, "a.txt"), 6 * 16);
      JobRun run = run(cluster, JobRun.Splitting.MAXIMUM);
      assertEquals(
          3, run.maps()); // two nodes of two vcores, one of the four the application master's
      assertEquals(1.0, run.waves(), "by the job's history, a map started after another had ended");
      JobRun byDefault = run(cluster, JobRun.Splitting.DEFAULT);
      assertEquals(3.0, byDefault.maps() / byDefault.waves(), 1e-9, "maps that YARN ran at once");
    }
  }

  private static JobRun run(SmallCluster cluster, JobRun.Splitting splitting) throws Exception {
    return JobRun.run(
        cluster,
        INPUT,
        TextInputFormat.class,
        splitting,
        Workloads.sleep(500, 4, "", false, NodeNames.name(0), FOLDER.resolve("spindles")));
  }
}
