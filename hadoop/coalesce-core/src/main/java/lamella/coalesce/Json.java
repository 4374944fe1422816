package lamella.coalesce;

/** Writes JSON, with commas where they belong; the caller opens, names and closes. */
final class Json {
  private final StringBuilder text = new StringBuilder();
  private boolean comma;

  Json open(char bracket) {
    separate();
    text.append(bracket);
    comma = false;
    return this;
  }

  Json close(char bracket) {
    text.append(bracket);
    comma = true;
    return this;
  }

  Json key(String key) {
    separate();
    quote(key);
    text.append(':');
    comma = false;
    return this;
  }

  Json string(String value) {
    separate();
    quote(value);
    comma = true;
    return this;
  }

  Json number(long value) {
    separate();
    text.append(value);
    comma = true;
    return this;
  }

  /** A finite number. */
  Json number(double value) {
    separate();
    text.append(Math.round(value * 1e6) / 1e6);
    comma = true;
    return this;
  }

  private void separate() {
    if (comma) text.append(',');
    comma = false;
  }

  private void quote(String value) {
    text.append('"');
    for (char c : value.toCharArray()) {
      if (c == '"' || c == '\\') {
        text.append('\\').append(c);
      } else if (c < 0x20) {
        text.append(String.format("\\u%04x", (int) c));
      } else {
        text.append(c);
      }
    }
    text.append('"');
  }

  @Override
  public String toString() {
    return text.toString();
  }
}
