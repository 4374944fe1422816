package lamella.coalesce.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.zip.GZIPOutputStream;
import lamella.coalesce.Settings;
import lamella.coalesce.mapreduce.CoalescingInputFormat;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapreduce.lib.input.TextInputFormat;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaPairRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A real Spark over a real HDFS of three named data nodes. */
class SparkReadsCoalescedTest {
  private static final String NODES = "spark1:4,spark2:4,spark3:4";

  private static MiniDFSCluster dfs;
  private static JavaSparkContext spark;
  private static String input;
  private static List<String> expected;

  @BeforeAll
  static void start() throws IOException {
    System.setProperty(MiniDFSCluster.PROP_TEST_BUILD_DATA, "target/dfs");
    Configuration conf = new Configuration();
    conf.setLong("dfs.blocksize", 1 << 20);
    conf.setInt("dfs.replication", 2);
    dfs =
        new MiniDFSCluster.Builder(conf)
            .numDataNodes(3)
            .hosts(new String[] {"spark1", "spark2", "spark3"})
            .build();
    dfs.waitActive();
    FileSystem fs = dfs.getFileSystem();
    input = dfs.getURI() + "/input";
    try (OutputStream out = fs.create(new Path("/input/a.txt"))) {
      for (int i = 0; i < 600_000; i++) {
        out.write(
            ("line " + i * 7919L % 600_011 + " of the input file\n")
                .getBytes(StandardCharsets.UTF_8));
      }
    }
    try (OutputStream out = new GZIPOutputStream(fs.create(new Path("/input/b.txt.gz")))) {
      for (int i = 0; i < 50_000; i++)
        out.write(("packed " + i + "\n").getBytes(StandardCharsets.UTF_8));
    }
    spark =
        new JavaSparkContext(
            new SparkConf()
                .setMaster("local[2]")
                .setAppName("coalesced")
                .set("spark.ui.enabled", "false")
                .set("spark.driver.bindAddress", "127.0.0.1")
                .set("spark.driver.host", "127.0.0.1"));
    expected =
        lines(
            spark.newAPIHadoopFile(
                input, TextInputFormat.class, LongWritable.class, Text.class, conf()));
  }

  @AfterAll
  static void stop() {
    if (spark != null) spark.stop();
    if (dfs != null) dfs.shutdown(true);
  }

  private static Configuration conf(String... pairs) {
    Configuration conf = new Configuration(spark.hadoopConfiguration());
    conf.set(Settings.NODES, NODES);
    conf.set(Settings.SPLIT_BYTES_MIN, "0"); // blocks are a hundredth of the usual ones
    for (int i = 0; i < pairs.length; i += 2) conf.set(pairs[i], pairs[i + 1]);
    return conf;
  }

  /** Spark cannot name the type parameters of an input format's class. */
  @SuppressWarnings("unchecked")
  private static JavaPairRDD<LongWritable, Text> coalesced(Configuration conf) {
    return spark.newAPIHadoopFile(
        input,
        (Class<CoalescingInputFormat<LongWritable, Text>>) (Class<?>) CoalescingInputFormat.class,
        LongWritable.class,
        Text.class,
        conf);
  }

  private static List<String> lines(JavaPairRDD<LongWritable, Text> records) {
    return records.map(record -> record._2().toString()).sortBy(line -> line, true, 4).collect();
  }

  @ParameterizedTest
  @ValueSource(strings = {"maximum", "assorted", "fixed", "none"})
  void everySchemeGivesTheSameLines(String scheme) {
    JavaPairRDD<LongWritable, Text> records =
        coalesced(conf(Settings.SCHEME, scheme, Settings.FIXED_UNITS, "4"));
    assertEquals(expected, lines(records));
    System.out.printf("spark, %s: %d partitions%n", scheme, records.getNumPartitions());
  }

  @Test
  void maximumMakesAPartitionASlotWhereItsBlocksAre() {
    JavaPairRDD<LongWritable, Text> plain =
        spark.newAPIHadoopFile(
            input, TextInputFormat.class, LongWritable.class, Text.class, conf());
    JavaPairRDD<LongWritable, Text> records = coalesced(conf(Settings.SCHEME, "maximum"));
    assertTrue(
        plain.getNumPartitions() > 16, plain.getNumPartitions() + " partitions without coalescing");
    assertTrue(records.getNumPartitions() <= 12, records.getNumPartitions() + " partitions");
    int placed = 0;
    for (var partition : records.rdd().partitions()) {
      placed += records.rdd().preferredLocations(partition).size() > 0 ? 1 : 0;
    }
    assertEquals(records.getNumPartitions(), placed);
  }

  @Test
  void badSettingsAreToldBeforeAnythingRuns() {
    Exception e =
        assertThrows(
            Exception.class,
            () ->
                coalesced(conf(Settings.SCHEME, "maximum", Settings.SLOTS_PER_NODE, "0"))
                    .getNumPartitions());
    assertTrue(e.getMessage().contains(Settings.SLOTS_PER_NODE), e.getMessage());
  }
}
