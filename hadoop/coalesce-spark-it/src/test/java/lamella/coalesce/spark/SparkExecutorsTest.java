package lamella.coalesce.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import lamella.coalesce.Settings;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.TextOutputFormat;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaPairRDD;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.python.PythonRDD;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Spark with executors of their own processes, which get the coalescing classes only as {@code
 * --jars} would give them, and a shape that is asked of Spark itself.
 */
class SparkExecutorsTest {
  private static final int FILES = 300;

  @TempDir static Path folder;
  private static JavaSparkContext spark;
  private static final List<String> expected = new ArrayList<>();

  @BeforeAll
  static void start() throws Exception {
    Path jars = Files.createDirectories(Path.of(System.getenv("SPARK_HOME"), "jars"));
    try (Stream<Path> old = Files.list(jars)) {
      for (Path link : old.toList()) Files.delete(link);
    }
    for (String entry : System.getProperty("java.class.path").split(File.pathSeparator)) {
      Path jar = Path.of(entry).toAbsolutePath();
      boolean own = jar.getFileName().toString().startsWith("lamella");
      if (entry.endsWith(".jar") && !own && !Files.exists(jars.resolve(jar.getFileName()))) {
        Files.createSymbolicLink(jars.resolve(jar.getFileName()), jar);
      }
    }
    Path input = Files.createDirectories(folder.resolve("input"));
    for (int i = 0; i < FILES; i++) {
      StringBuilder text = new StringBuilder();
      for (int line = 0; line < 20; line++) {
        text.append("file ").append(i).append(" line ").append(line).append('\n');
        expected.add("file " + i + " line " + line);
      }
      Files.writeString(input.resolve("f" + i), text);
    }
    Collections.sort(expected);
    Path jar = Path.of("..", "coalesce-yarn", "target", "lamella-coalesce-0.1.0-all.jar");
    assertTrue(Files.exists(jar), jar + " is missing: run maven's package phase");
    spark =
        new JavaSparkContext(
            new SparkConf()
                .setMaster("local-cluster[2,2,512]")
                .setAppName("executors")
                .set("spark.ui.enabled", "false")
                .set("spark.driver.bindAddress", "127.0.0.1")
                .set("spark.driver.host", "127.0.0.1")
                .set("spark.executor.memory", "512m")
                .set("spark.cores.max", "4")
                .set("spark.scheduler.minRegisteredResourcesRatio", "1.0")
                .setJars(new String[] {jar.toString()}));
    // Executors come when they are needed or ready; the first job waits for all of them.
    spark.textFile(input.toString(), 4).count();
  }

  @AfterAll
  static void stop() {
    if (spark != null) spark.stop();
  }

  private static String input() {
    return folder.resolve("input").toUri().toString();
  }

  private static Configuration conf() {
    Configuration conf = new Configuration(spark.hadoopConfiguration());
    conf.set(Settings.SPLIT_BYTES_MIN, "0");
    return conf;
  }

  /** By Spark to files, and read from there: executors know none of the test's classes. */
  private static List<String> written(JavaPairRDD<LongWritable, Text> records, String name)
      throws Exception {
    records.saveAsHadoopFile(
        folder.resolve(name).toUri().toString(),
        LongWritable.class,
        Text.class,
        TextOutputFormat.class);
    List<String> lines = new ArrayList<>();
    try (Stream<Path> parts = Files.list(folder.resolve(name))) {
      for (Path part :
          parts.filter(path -> path.getFileName().toString().startsWith("part-")).toList()) {
        Files.readAllLines(part).forEach(line -> lines.add(line.substring(line.indexOf('\t') + 1)));
      }
    }
    Collections.sort(lines);
    return lines;
  }

  @Test
  @SuppressWarnings("unchecked")
  void theShapeIsTheExecutors() throws Exception {
    JavaPairRDD<LongWritable, Text> records =
        spark.newAPIHadoopFile(
            input(),
            (Class<lamella.coalesce.mapreduce.CoalescingInputFormat<LongWritable, Text>>)
                (Class<?>) lamella.coalesce.mapreduce.CoalescingInputFormat.class,
            LongWritable.class,
            Text.class,
            conf());
    assertEquals(4, records.getNumPartitions()); // two executors of two cores
    assertEquals(expected, written(records, "out-new"));
  }

  @Test
  void theOldInterfaceWorksToo() throws Exception {
    JobConf conf = new JobConf(conf());
    JavaPairRDD<LongWritable, Text> records = hadoopFile(conf);
    assertEquals(4, records.getNumPartitions());
    assertEquals(expected, written(records, "out-old"));
  }

  @SuppressWarnings("unchecked")
  private static JavaPairRDD<LongWritable, Text> hadoopFile(JobConf conf) {
    org.apache.hadoop.mapred.FileInputFormat.setInputPaths(conf, input());
    return spark.hadoopRDD(
        conf,
        (Class<lamella.coalesce.mapred.CoalescingInputFormat<LongWritable, Text>>)
            (Class<?>) lamella.coalesce.mapred.CoalescingInputFormat.class,
        LongWritable.class,
        Text.class,
        2);
  }

  /** What SparkContext.newAPIHadoopFile of PySpark calls, with strings and a dictionary. */
  @Test
  void pythonsCallWorks() {
    HashMap<String, String> conf = new HashMap<>(Map.of(Settings.SPLIT_BYTES_MIN, "0"));
    JavaRDD<byte[]> pickled =
        PythonRDD.newAPIHadoopFile(
            spark,
            input(),
            "lamella.coalesce.mapreduce.CoalescingInputFormat",
            "org.apache.hadoop.io.LongWritable",
            "org.apache.hadoop.io.Text",
            null,
            null,
            conf,
            10);
    assertEquals(4, pickled.getNumPartitions());
    StringBuilder all = new StringBuilder();
    for (byte[] bytes : pickled.collect())
      all.append(new String(bytes, StandardCharsets.ISO_8859_1));
    for (String line : List.of(expected.get(0), expected.get(expected.size() - 1)))
      assertTrue(all.indexOf(line) >= 0, line);
  }

  /** What it gains: printed, never asserted in seconds. */
  @Test
  void manySmallFilesAreFewTasks() {
    int plain = spark.textFile(input()).getNumPartitions();
    long[] ms = new long[2];
    for (int turn = 0; turn < 3; turn++) {
      long started = System.nanoTime();
      assertEquals(expected.size(), spark.textFile(input()).count());
      ms[0] = (System.nanoTime() - started) / 1_000_000;
      started = System.nanoTime();
      JavaPairRDD<LongWritable, Text> coalesced = hadoopFile(new JobConf(conf()));
      assertEquals(expected.size(), coalesced.count());
      ms[1] = (System.nanoTime() - started) / 1_000_000;
      System.out.printf(
          "spark, %d small files: textFile %d tasks %d ms, coalesced %d tasks %d ms%n",
          FILES, plain, ms[0], coalesced.getNumPartitions(), ms[1]);
      assertTrue(plain >= FILES && coalesced.getNumPartitions() == 4);
    }
  }
}
