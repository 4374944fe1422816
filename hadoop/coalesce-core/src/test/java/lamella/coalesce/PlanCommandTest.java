package lamella.coalesce;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.util.ToolRunner;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class PlanCommandTest {
  @TempDir Path folder;
  private final ByteArrayOutputStream out = new ByteArrayOutputStream();
  private final ByteArrayOutputStream err = new ByteArrayOutputStream();

  @BeforeEach
  void write() throws Exception {
    for (int i = 0; i < 64; i++) Files.writeString(folder.resolve("f" + i), "x".repeat(1000));
  }

  private int plan(String... args) throws Exception {
    List<String> all =
        new ArrayList<>(
            List.of(
                "-D",
                Settings.NODES + "=localhost:8",
                "-D",
                "fs.defaultFS=file:///",
                "-D",
                Settings.SPLIT_BYTES_MIN + "=0"));
    all.addAll(List.of(args));
    PlanCommand command =
        new PlanCommand(
            new PrintStream(out, true, StandardCharsets.UTF_8),
            new PrintStream(err, true, StandardCharsets.UTF_8));
    return ToolRunner.run(new Configuration(), command, all.toArray(new String[0]));
  }

  @Test
  void theTableHasALineForEachScheme() throws Exception {
    assertEquals(0, plan(folder.toString()), err.toString());
    String text = out.toString();
    assertTrue(text.contains("in 64 splits; 8 slots on 1 nodes"), text);
    for (String start : List.of("none ", "maximum* ", "assorted ", "fixed "))
      assertTrue(text.contains("\n" + start), text);
    assertTrue(text.contains("4x8, 4x4, 4x2, 8x1"), text); // Algorithm 1 on 8 slots
  }

  @Test
  void theJsonSaysTheSame() throws Exception {
    assertEquals(0, plan("--json", folder.toString()), err.toString());
    JsonNode json = new ObjectMapper().readTree(out.toString());
    assertEquals(64000, json.get("bytes").asLong());
    assertEquals(8, json.get("cluster").get("slots").asInt());
    JsonNode maximum = json.get("schemes").get(1);
    assertEquals("maximum", maximum.get("scheme").asText());
    assertEquals(8, maximum.get("splits").asInt());
    assertEquals(1.0, maximum.get("waves").asDouble());
    assertEquals(1.0, maximum.get("local_share").asDouble());
    assertEquals(64000, maximum.get("bytes_by_node").get("localhost").asLong());
  }

  @Test
  void mistakesHaveAStatusAndAMessage() throws Exception {
    assertEquals(2, plan());
    assertEquals(2, plan("--yaml", folder.toString()));
    assertEquals(2, plan("-D", Settings.SCHEME + "=most", folder.toString()));
    assertTrue(err.toString().contains(Settings.SCHEME), err.toString());
    assertEquals(1, plan(folder.resolve("nowhere").toString()));
    assertTrue(err.toString().contains("nowhere"), err.toString());
  }

  @Test
  void anUnknownHostIsOneLine() throws Exception {
    assertEquals(1, plan("hdfs://no-such-host.invalid/in"));
    assertTrue(err.toString().contains("no-such-host.invalid"), err.toString());
    assertEquals(1, err.toString().lines().count(), err.toString());
  }

  @Test
  void aWordThatIsNoPathIsOneLine() throws Exception {
    assertEquals(1, plan("a:b"));
    assertTrue(err.toString().startsWith("plan: ") && err.toString().contains("a:b"));
    assertEquals(1, err.toString().lines().count(), err.toString());
  }

  @Test
  void hostsThatAreNoNodesAreTold() throws Exception {
    assertEquals(
        0,
        plan(
            "-D",
            Settings.NODES + "=node1:8,node2:8",
            "-D",
            Settings.DELEGATE + "=" + Elsewhere.class.getName(),
            folder.toString()));
    assertTrue(
        err.toString().contains("10.0.0.1")
            && err.toString().contains("node1")
            && err.toString().contains(Settings.NODES),
        err.toString());
  }

  /** Its splits are on a host that is no node of the cluster. */
  public static final class Elsewhere
      extends org.apache.hadoop.mapreduce.lib.input.TextInputFormat {
    @Override
    public List<org.apache.hadoop.mapreduce.InputSplit> getSplits(
        org.apache.hadoop.mapreduce.JobContext context) throws java.io.IOException {
      List<org.apache.hadoop.mapreduce.InputSplit> splits = new ArrayList<>();
      for (var split : super.getSplits(context)) {
        var file = (org.apache.hadoop.mapreduce.lib.input.FileSplit) split;
        splits.add(
            new org.apache.hadoop.mapreduce.lib.input.FileSplit(
                file.getPath(), file.getStart(), file.getLength(), new String[] {"10.0.0.1"}));
      }
      return splits;
    }
  }
}
