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
    List<String> all = new ArrayList<>(
        List.of("-D", Settings.NODES + "=localhost:8", "-D", "fs.defaultFS=file:///"));
    all.addAll(List.of(args));
    PlanCommand command = new PlanCommand(
        new PrintStream(out, true, StandardCharsets.UTF_8), new PrintStream(err, true, StandardCharsets.UTF_8));
    return ToolRunner.run(new Configuration(), command, all.toArray(new String[0]));
  }

  @Test
  void theTableHasALineForEachScheme() throws Exception {
    assertEquals(0, plan(folder.toString()), err.toString());
    String text = out.toString();
    assertTrue(text.contains("in 64 splits; 8 slots on 1 nodes"), text);
    for (String start : List.of("none ", "maximum ", "assorted* ", "fixed ")) assertTrue(text.contains("\n" + start), text);
    assertTrue(text.contains("4x8, 4x4, 4x2, 8x1"), text);  // Algorithm 1 on 8 slots
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
}
