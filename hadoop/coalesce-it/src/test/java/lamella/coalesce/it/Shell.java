package lamella.coalesce.it;

import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;

/**
 * A user's shell on the small cluster: a folder with the jars that the document names, a
 * configuration, and a command {@code hadoop} that does what Hadoop's does for {@code hadoop jar}.
 * Neither it nor the containers have this project's classes from anywhere but the jar.
 */
final class Shell {
  private static final String JAR = "lamella-coalesce-0.1.0-all.jar";
  static final Path DOCUMENT = Path.of("..", "..", "docs", "COALESCING.md");

  private final Path folder;

  Shell(SmallCluster cluster, Path folder) throws IOException {
    this.folder = folder.toAbsolutePath();
    List<String> hadoop =
        Arrays.stream(System.getProperty("java.class.path").split(File.pathSeparator))
            .filter(
                entry ->
                    entry.endsWith(".jar")
                        && !Path.of(entry).getFileName().toString().startsWith("lamella"))
            .collect(Collectors.toList());
    Files.createDirectories(folder.resolve("bin"));
    Files.createDirectories(folder.resolve("conf"));
    Files.copy(deployed(), folder.resolve(JAR), StandardCopyOption.REPLACE_EXISTING);
    for (String jobs : List.of("hadoop-mapreduce-examples", "hadoop-streaming")) {
      String jar =
          hadoop.stream()
              .filter(entry -> entry.contains("/" + jobs + "-"))
              .findFirst()
              .orElseThrow();
      Files.copy(Path.of(jar), folder.resolve(jobs + ".jar"), StandardCopyOption.REPLACE_EXISTING);
    }

    Configuration conf = cluster.conf();
    conf.setBoolean("yarn.is.minicluster", false); // else containers get this process's class path
    conf.set("mapreduce.application.classpath", String.join(",", hadoop));
    for (String part :
        List.of("core", "hdfs", "yarn", "mapred")) { // each overrides the defaults of its own part
      try (OutputStream out =
          Files.newOutputStream(folder.resolve("conf").resolve(part + "-site.xml"))) {
        conf.writeXml(out);
      }
    }
    Files.writeString(
        folder.resolve("conf").resolve("log4j.properties"),
        String.join(
            "\n",
            "log4j.rootLogger=INFO,console",
            "log4j.appender.console=org.apache.log4j.ConsoleAppender",
            "log4j.appender.console.target=System.err",
            "log4j.appender.console.layout=org.apache.log4j.PatternLayout",
            "log4j.appender.console.layout.ConversionPattern=%p %c{1}: %m%n"));
    Path command = folder.resolve("bin").resolve("hadoop");
    Files.writeString(
        command,
        "#!/bin/bash\n[[ $1 == jar ]] || exit 64\nshift\nexec "
            + System.getProperty("java.home")
            + "/bin/java -XX:TieredStopAtLevel=1 --add-opens java.base/java.lang=ALL-UNNAMED "
            + cluster.hostsOption()
            + " -cp \""
            + this.folder.resolve("conf")
            + ":"
            + String.join(":", hadoop)
            + ":$HADOOP_CLASSPATH\""
            + " org.apache.hadoop.util.RunJar \"$@\"\n");
    command.toFile().setExecutable(true);
  }

  /** The jar that the document says to build, where it says. */
  static Path deployed() throws IOException {
    if (!Files.readString(DOCUMENT).contains("hadoop/coalesce-yarn/target/" + JAR))
      throw new IOException(DOCUMENT + " does not name " + JAR);
    Path jar = Path.of("..", "coalesce-yarn", "target", JAR);
    if (!Files.exists(jar))
      throw new IOException(jar + " is missing: the build did not make what the document names");
    return jar;
  }

  /** The fenced blocks of shell commands that hold a text, as they stand in the document. */
  static String documented(String text) throws IOException {
    Matcher block =
        Pattern.compile("```sh\n(.*?)```", Pattern.DOTALL).matcher(Files.readString(DOCUMENT));
    while (block.find()) {
      if (block.group(1).contains(text)) return block.group(1);
    }
    throw new IOException(DOCUMENT + " has no block of commands with " + text);
  }

  record Result(int status, String output) {}

  Result run(String commands) throws IOException, InterruptedException {
    List<String> line = new ArrayList<>(List.of("bash", "-euo", "pipefail", "-c", commands));
    ProcessBuilder builder =
        new ProcessBuilder(line).directory(folder.toFile()).redirectErrorStream(true);
    builder.environment().put("PATH", folder.resolve("bin") + ":" + System.getenv("PATH"));
    builder.environment().remove("HADOOP_CLASSPATH");
    Path output = folder.resolve("output");
    Process process = builder.redirectOutput(output.toFile()).start();
    if (!process.waitFor(150, TimeUnit.SECONDS)) {
      try (Stream<ProcessHandle> children = process.descendants()) {
        children.forEach(ProcessHandle::destroyForcibly);
      }
      process.destroyForcibly();
      throw new IOException("not ended after 150 s: " + commands + "\n" + Files.readString(output));
    }
    return new Result(process.exitValue(), Files.readString(output));
  }
}
