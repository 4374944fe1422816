package lamella.coalesce.it;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

/** Containers start with this process's class path; scripts/bench_hadoop.sh takes it from here. */
class ClassPathTest {
  @Test
  void namesWhatAJobNeeds() throws Exception {
    String path = System.getProperty("java.class.path");
    for (String part :
        new String[] {"hadoop-mapreduce-client-core", "coalesce-core", "coalesce-yarn"}) {
      assertTrue(path.contains(part), part + " is missing from " + path);
    }
    String file = System.getProperty("lamella.class.path.file");
    if (file != null) Files.writeString(Path.of(file), path);
  }
}
