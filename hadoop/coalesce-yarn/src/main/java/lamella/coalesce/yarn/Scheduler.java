package lamella.coalesce.yarn;

import java.net.URL;
import lamella.coalesce.Settings;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.conf.YarnConfiguration;

/**
 * What YARN's scheduler counts when it looks for room: the Fair Scheduler memory and vcores; the
 * Capacity Scheduler, which is the default, what its resource calculator counts, by default memory
 * alone; the FIFO Scheduler memory alone. No call tells a client the resource manager's calculator,
 * so this reads what the client knows: the job's configuration and capacity-scheduler.xml in its
 * class path. {@link Settings#SLOTS_VCORES} says it where the client knows wrongly.
 */
final class Scheduler {
  private static final String CALCULATOR = "yarn.scheduler.capacity.resource-calculator";
  private static final String CAPACITY_FILE = "capacity-scheduler.xml";

  private Scheduler() {}

  static boolean isFair(Configuration conf) {
    return scheduler(conf).endsWith(".FairScheduler");
  }

  static boolean countsVcores(Configuration conf) {
    switch (Settings.slotsVcores(conf)) {
      case COUNT:
        return true;
      case IGNORE:
        return false;
      default:
        if (isFair(conf)) return true;
        return scheduler(conf).endsWith(".CapacityScheduler")
            && calculator(conf).endsWith(".DominantResourceCalculator");
    }
  }

  private static String scheduler(Configuration conf) {
    return conf.getTrimmed(YarnConfiguration.RM_SCHEDULER, YarnConfiguration.DEFAULT_RM_SCHEDULER);
  }

  private static String calculator(Configuration conf) {
    String set = conf.getTrimmed(CALCULATOR);
    if (set != null) return set;
    URL file = conf.getResource(CAPACITY_FILE);
    if (file == null) return "";
    Configuration capacity = new Configuration(false);
    capacity.addResource(file);
    return capacity.getTrimmed(CALCULATOR, "");
  }
}
