package lamella.coalesce.mapreduce;

import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapreduce.InputFormat;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.Mapper;

/**
 * The splits of MultipleInputs: another split, with the input format that reads it and the mapper
 * that gets its records. Hadoop's class for them is not public, but its mapper casts to it; so a
 * coalesced split of them has to be one too.
 */
final class Tagged {
  private static final String NAME = "org.apache.hadoop.mapreduce.lib.input.TaggedInputSplit";

  private Tagged() {}

  static boolean is(Object split) {
    return split.getClass().getName().equals(NAME);
  }

  static InputSplit inner(Object tagged) {
    return (InputSplit) get(tagged, "getInputSplit");
  }

  /** Itself if it is not tagged. */
  @SuppressWarnings("unchecked")
  static <S> S untagged(S split) {
    return is(split) ? (S) inner(split) : split;
  }

  @SuppressWarnings("unchecked")
  static Class<? extends InputFormat<?, ?>> format(Object tagged) {
    return (Class<? extends InputFormat<?, ?>>) get(tagged, "getInputFormatClass");
  }

  /** Splits whose tags are equal go to the same mapper, by the same format. */
  static List<Object> tag(Object tagged) {
    return Arrays.asList(get(tagged, "getInputFormatClass"), get(tagged, "getMapperClass"));
  }

  /** {@code inner} with the tag of {@code like}. */
  static InputSplit of(InputSplit inner, Object like, Configuration conf) {
    try {
      Constructor<?> constructor =
          like.getClass()
              .getConstructor(InputSplit.class, Configuration.class, Class.class, Class.class);
      constructor.setAccessible(true);
      return (InputSplit)
          constructor.newInstance(inner, conf, format(like), get(like, "getMapperClass"));
    } catch (ReflectiveOperationException e) {
      throw unlike(e);
    }
  }

  private static Object get(Object tagged, String what) {
    try {
      Method method = tagged.getClass().getMethod(what);
      method.setAccessible(true);
      return method.invoke(tagged);
    } catch (ReflectiveOperationException e) {
      throw unlike(e);
    }
  }

  private static IllegalStateException unlike(ReflectiveOperationException e) {
    return new IllegalStateException(
        "this Hadoop's "
            + NAME
            + " is not like that of 3.3 and 3.4, so MultipleInputs cannot be "
            + "coalesced; set lamella.coalesce.scheme to none ("
            + Mapper.class.getPackage().getImplementationVersion()
            + ")",
        e);
  }
}
