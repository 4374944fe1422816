package lamella.coalesce;

/** A configuration key has a value that it must not have. */
public final class InvalidSettingException extends IllegalArgumentException {
  private static final long serialVersionUID = 1;

  public InvalidSettingException(String key, String value, String allowed) {
    super(key + " is '" + value + "'; expected " + allowed);
  }
}
