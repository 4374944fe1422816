package lamella.coalesce.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.DataInputStream;
import java.util.Collections;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import org.junit.jupiter.api.Test;

/**
 * The jar to deploy: for Java 8, with its licence, its command and its provider, and nothing of
 * anyone else.
 */
class DeployedJarTest {
  private static final int JAVA_8 = 52;

  @Test
  void holdsWhatAClusterNeeds() throws Exception {
    try (JarFile jar = new JarFile(Shell.deployed().toFile())) {
      int classes = 0;
      for (JarEntry entry : Collections.list(jar.entries())) {
        if (!entry.getName().endsWith(".class")) continue;
        assertTrue(entry.getName().startsWith("lamella/coalesce/"), entry.getName());
        try (DataInputStream in = new DataInputStream(jar.getInputStream(entry))) {
          assertEquals(0xCAFEBABE, in.readInt());
          in.readUnsignedShort();
          assertEquals(JAVA_8, in.readUnsignedShort(), entry.getName());
        }
        classes++;
      }
      assertTrue(classes > 40, classes + " classes");
      assertEquals(
          "lamella.coalesce.Main", jar.getManifest().getMainAttributes().getValue("Main-Class"));
      assertNotNull(jar.getEntry("META-INF/LICENSE"));
      assertNotNull(jar.getEntry("META-INF/services/lamella.coalesce.shape.ShapeProvider"));
      assertNotNull(jar.getEntry("lamella/coalesce/mapred/CoalescingInputFormat.class"));
    }
  }
}
