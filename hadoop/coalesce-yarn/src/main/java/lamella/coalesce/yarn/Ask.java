package lamella.coalesce.yarn;

import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import lamella.coalesce.InvalidSettingException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapreduce.MRJobConfig;
import org.apache.hadoop.mapreduce.TaskType;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.util.UnitsConversionUtil;

/**
 * What a job asks for one of its containers, as Hadoop reads it: the keys {@code
 * ...resource.memory-mb} and {@code ...resource.vcores} (with units, or not) before the older ones;
 * and of a task whose memory is not set, what holds its heap. Memory is rounded up as the scheduler
 * does.
 */
final class Ask {
  private static final Pattern AMOUNT = Pattern.compile("\\s*(\\d{1,15})\\s*([A-Za-z]*)\\s*");
  private static final String MEGABYTES = "Mi";

  final long memoryMb;
  final int vcores;

  private Ask(Configuration conf, String prefix, long memoryMb, int vcores, String vcoresKey) {
    long memory = amount(conf, prefix + "memory-mb", amount(conf, prefix + "memory", memoryMb));
    this.memoryMb = Math.max(1, roundedUp(conf, memory));
    this.vcores = (int) Math.min(Integer.MAX_VALUE, amount(conf, prefix + "vcores", vcores));
    if (this.vcores < 1) {
      throw new InvalidSettingException(
          vcoresKey, Integer.toString(this.vcores), "a whole number from 1");
    }
  }

  static Ask map(Configuration conf) {
    return new Ask(
        conf,
        "mapreduce.map.resource.",
        new JobConf(conf).getMemoryRequired(TaskType.MAP),
        conf.getInt(MRJobConfig.MAP_CPU_VCORES, MRJobConfig.DEFAULT_MAP_CPU_VCORES),
        MRJobConfig.MAP_CPU_VCORES);
  }

  static Ask reduce(Configuration conf) {
    return new Ask(
        conf,
        "mapreduce.reduce.resource.",
        new JobConf(conf).getMemoryRequired(TaskType.REDUCE),
        conf.getInt(MRJobConfig.REDUCE_CPU_VCORES, MRJobConfig.DEFAULT_REDUCE_CPU_VCORES),
        MRJobConfig.REDUCE_CPU_VCORES);
  }

  static Ask master(Configuration conf) {
    return new Ask(
        conf,
        "yarn.app.mapreduce.am.resource.",
        conf.getInt(MRJobConfig.MR_AM_VMEM_MB, MRJobConfig.DEFAULT_MR_AM_VMEM_MB),
        conf.getInt(MRJobConfig.MR_AM_CPU_VCORES, MRJobConfig.DEFAULT_MR_AM_CPU_VCORES),
        MRJobConfig.MR_AM_CPU_VCORES);
  }

  private static long amount(Configuration conf, String key, long ifUnset) {
    String value = conf.getTrimmed(key);
    if (value == null || value.isEmpty()) return ifUnset;
    Matcher amount = AMOUNT.matcher(value);
    if (amount.matches()) {
      long number = Long.parseLong(amount.group(1));
      if (amount.group(2).isEmpty()) return number;
      try {
        boolean memory = !key.endsWith("vcores");
        return UnitsConversionUtil.convert(amount.group(2), memory ? MEGABYTES : "", number);
      } catch (IllegalArgumentException e) {
        // falls through to the one message
      }
    }
    throw new InvalidSettingException(
        key, value, "a whole number, with a unit such as Gi or without");
  }

  /** The Fair Scheduler rounds to an increment, the others to the smallest allocation. */
  private static long roundedUp(Configuration conf, long memoryMb) {
    long smallest =
        Math.max(
            1,
            conf.getLong(
                YarnConfiguration.RM_SCHEDULER_MINIMUM_ALLOCATION_MB,
                YarnConfiguration.DEFAULT_RM_SCHEDULER_MINIMUM_ALLOCATION_MB));
    long step = smallest;
    if (Scheduler.isFair(conf)) {
      step =
          Math.max(
              1,
              amount(
                  conf,
                  "yarn.resource-types.memory-mb.increment-allocation",
                  conf.getLong("yarn.scheduler.increment-allocation-mb", 1024)));
    }
    long asked = Math.max(memoryMb, smallest);
    return (asked + step - 1) / step * step;
  }

  /** For messages: what was asked, by the keys that users know. */
  Map.Entry<String, String> told() {
    return new java.util.AbstractMap.SimpleEntry<>(
        MRJobConfig.MAP_MEMORY_MB + " (with " + MRJobConfig.MAP_CPU_VCORES + ")",
        memoryMb + "' (with '" + vcores);
  }
}
