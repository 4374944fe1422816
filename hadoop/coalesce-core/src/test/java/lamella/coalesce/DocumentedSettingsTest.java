package lamella.coalesce;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/** docs/COALESCING.md has a line of its table for every key, and for nothing else. */
class DocumentedSettingsTest {
  @Test
  void theDocumentListsExactlyTheKeys() throws Exception {
    TreeSet<String> keys = new TreeSet<>();
    for (Field field : Settings.class.getFields()) {
      if (field.get(null) instanceof String value && value.startsWith("lamella.")) keys.add(value);
    }
    String text = Files.readString(Path.of("..", "..", "docs", "COALESCING.md"));
    TreeSet<String> documented = new TreeSet<>();
    Matcher line = Pattern.compile("(?m)^\\| `(lamella\\.coalesce\\.[a-z.]+)` \\|").matcher(text);
    while (line.find()) documented.add(line.group(1));
    assertEquals(keys, documented);
  }
}
