package lamella.coalesce.it;

import java.io.IOException;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * Names for the loopback addresses 127.0.0.2, 127.0.0.3 ..., so that each node of the small cluster
 * is a host of its own and locality means something. The JDK reads them from a file that a system
 * property names; this process sets it before anything looks a name up, containers get it as an
 * option.
 */
final class NodeNames {
  private static final String PROPERTY = "jdk.net.hosts.file";
  private static final int NODES_MAX = 16;

  private NodeNames() {}

  static String name(int node) {
    return "node" + (node + 1);
  }

  static List<String> names(int count) {
    List<String> names = new ArrayList<>();
    for (int n = 0; n < count; n++) names.add(name(n));
    return names;
  }

  /**
   * Call before anything else in the process: the JDK reads the property once. Returns the option
   * for other processes.
   */
  static synchronized String install(Path folder) throws IOException {
    if (System.getProperty(PROPERTY) == null) {
      StringBuilder text = new StringBuilder("127.0.0.1 localhost\n");
      String self = Files.readString(Path.of("/proc/sys/kernel/hostname")).trim();
      text.append("127.0.0.1 ").append(self).append('\n');
      for (int n = 0; n < NODES_MAX; n++)
        text.append("127.0.0.").append(n + 2).append(' ').append(name(n)).append('\n');
      Files.createDirectories(folder);
      Path file = folder.resolve("hosts").toAbsolutePath();
      Files.writeString(file, text.toString());
      System.setProperty(PROPERTY, file.toString());
    }
    String file = System.getProperty(PROPERTY);
    String found = InetAddress.getByName(name(0)).getHostAddress();
    if (!found.equals("127.0.0.2")) {
      throw new IOException(
          name(0)
              + " is "
              + found
              + ", expected 127.0.0.2: names were looked up before "
              + PROPERTY
              + " was set. Start this JVM with -D"
              + PROPERTY
              + "="
              + file);
    }
    return "-D" + PROPERTY + "=" + file;
  }
}
