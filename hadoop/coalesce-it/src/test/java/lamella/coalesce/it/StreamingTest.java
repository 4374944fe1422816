package lamella.coalesce.it;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import lamella.coalesce.mapred.CoalescingInputFormat;
import org.apache.hadoop.mapred.InputFormat;
import org.apache.hadoop.mapred.KeyValueTextInputFormat;
import org.apache.hadoop.mapred.TextInputFormat;
import org.apache.hadoop.streaming.StreamJob;
import org.apache.hadoop.util.ToolRunner;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Jobs of streaming, in this process: a script reads what it reads without coalescing. */
class StreamingTest {
  @TempDir Path folder;

  /** A class after this one, in the same process, may have a cluster. */
  @BeforeAll
  static void nameNodes() throws IOException {
    NodeNames.install(Path.of("target", "streaming"));
  }

  private static void add(List<String> words, String... more) {
    Collections.addAll(words, more);
  }

  /** What a job writes whose mapper hands on what it reads; of how many maps. */
  private record Outcome(int maps, List<String> lines) {}

  private Outcome run(String name, Class<?> format, String... settings) throws Exception {
    Path output = folder.resolve(name);
    List<String> words = new ArrayList<>();
    add(words, "-D", "fs.defaultFS=file:///", "-D", "mapreduce.framework.name=local");
    add(words, "-D", "hadoop.tmp.dir=" + folder.resolve("tmp"), "-D", "mapreduce.job.reduces=0");
    for (String setting : settings) add(words, "-D", setting);
    add(words, "-inputformat", format.getName(), "-input", folder.resolve("in").toString());
    add(words, "-output", output.toString(), "-mapper", "cat");
    assertEquals(0, ToolRunner.run(new StreamJob(), words.toArray(new String[0])), name);
    List<String> lines = new ArrayList<>();
    int maps = 0;
    try (Stream<Path> files = Files.list(output)) {
      for (Path file : files.collect(Collectors.toList())) {
        if (!file.getFileName().toString().startsWith("part-")) continue;
        lines.addAll(Files.readAllLines(file));
        maps++;
      }
    }
    Collections.sort(lines);
    return new Outcome(maps, lines);
  }

  private void expectTheSame(Class<? extends InputFormat<?, ?>> delegate, String... settings)
      throws Exception {
    Outcome alone = run("alone", delegate, settings);
    String[] more = new String[settings.length + 1];
    System.arraycopy(settings, 0, more, 0, settings.length);
    more[settings.length] = "lamella.coalesce.delegate=" + delegate.getName();
    Outcome coalesced = run("coalesced", CoalescingInputFormat.class, more);
    assertEquals(alone.lines(), coalesced.lines());
    assertEquals(3, alone.maps());
    assertEquals(1, coalesced.maps());
  }

  private void makeInput() throws IOException {
    Files.createDirectories(folder.resolve("in"));
    for (int i = 0; i < 3; i++) {
      String lines = "one " + i + "\nkey\tvalue " + i + "\n";
      Files.writeString(folder.resolve("in").resolve("f" + i), lines);
    }
  }

  @Test
  void aScriptReadsTheLinesOfText() throws Exception {
    makeInput();
    expectTheSame(TextInputFormat.class);
  }

  @Test
  void aScriptReadsKeysWhereTheJobSaysSo() throws Exception {
    makeInput();
    expectTheSame(TextInputFormat.class, "stream.map.input.ignoreKey=false");
  }

  @Test
  void aScriptReadsKeysAndValuesOfAnotherFormat() throws Exception {
    makeInput();
    expectTheSame(KeyValueTextInputFormat.class);
  }
}
