package lamella.coalesce;

import java.util.Arrays;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.util.ToolRunner;

/** The jar's command: {@code hadoop jar lamella-coalesce.jar plan INPUT}. */
public final class Main {
  private Main() {}

  public static void main(String[] args) throws Exception {
    if (args.length == 0 || !args[0].equals("plan")) {
      System.err.println(PlanCommand.USAGE);
      System.exit(2);
    }
    String[] rest = Arrays.copyOfRange(args, 1, args.length);
    System.exit(ToolRunner.run(new Configuration(), new PlanCommand(System.out, System.err), rest));
  }
}
