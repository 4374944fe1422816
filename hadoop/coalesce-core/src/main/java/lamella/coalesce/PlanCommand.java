package lamella.coalesce;

import java.io.IOException;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.StringJoiner;
import lamella.coalesce.mapreduce.Input;
import lamella.coalesce.plan.ClusterShape;
import lamella.coalesce.plan.Policy;
import lamella.coalesce.plan.SplitPlan;
import org.apache.hadoop.conf.Configured;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.lib.input.FileInputFormat;
import org.apache.hadoop.util.Tool;

/** Says what each scheme would make of an input, without running anything. */
final class PlanCommand extends Configured implements Tool {
  static final String USAGE =
      String.join(
          "\n",
          "usage: hadoop jar lamella-coalesce.jar plan [-D key=value]... [--json] INPUT...",
          "  Shows for the files under INPUT what each scheme would do: splits by size, the share"
              + " of bytes read locally,",
          "  expected waves of maps, and the load per node. -D takes the keys lamella.coalesce.*"
              + " and any of Hadoop's;",
          "  --json prints the same as one JSON object. Nothing is run, and no data is read.",
          "exit status: 0 done, 1 the input or the cluster cannot be listed, 2 usage or a bad"
              + " setting");

  private final PrintStream out;
  private final PrintStream err;

  PlanCommand(PrintStream out, PrintStream err) {
    this.out = out;
    this.err = err;
  }

  @Override
  public int run(String[] args) throws InterruptedException {
    boolean json = false;
    List<String> inputs = new ArrayList<>();
    for (String arg : args) {
      if (arg.equals("--json")) {
        json = true;
      } else if (arg.startsWith("-") || arg.trim().isEmpty()) {
        err.println("plan: unknown option '" + arg + "'\n" + USAGE);
        return 2;
      } else {
        inputs.add(arg);
      }
    }
    if (inputs.isEmpty()) {
      err.println("plan: no INPUT given\n" + USAGE);
      return 2;
    }
    try {
      Job job = Job.getInstance(getConf());
      FileInputFormat.setInputPaths(job, inputs.stream().map(Path::new).toArray(Path[]::new));
      print(job, json);
      return 0;
    } catch (InvalidSettingException e) {
      err.println("plan: " + e.getMessage());
      return 2;
    } catch (IOException
        | RuntimeException e) { // an unknown host of a URI, for one, is no IOException
      err.println("plan: " + (e.getMessage() == null ? e.toString() : e.getMessage()));
      return 1;
    }
  }

  private void print(Job job, boolean json) throws IOException, InterruptedException {
    Policy.Scheme configured = Settings.scheme(job.getConfiguration());
    Input<?> input = Input.of(job);
    Units units = input.units();
    ClusterShape shape = units.shape();
    Map<Policy.Scheme, SplitPlan> plans = new LinkedHashMap<>();
    for (Policy.Scheme scheme : Policy.Scheme.values()) {
      plans.put(scheme, units.plan(shape, Settings.policy(job.getConfiguration(), scheme)));
    }
    String warning = units.warning(plans.get(configured));
    if (warning != null) err.println("plan: " + warning);
    out.println(
        json ? asJson(input, shape, plans, configured) : asTable(input, shape, plans, configured));
  }

  private static String asTable(
      Input<?> input,
      ClusterShape shape,
      Map<Policy.Scheme, SplitPlan> plans,
      Policy.Scheme configured) {
    StringBuilder text = new StringBuilder();
    SplitPlan any = plans.get(Policy.Scheme.NONE);
    text.append(
        String.format(
            Locale.ROOT,
            "%s of %s in %d splits; %d slots on %d nodes (%d reserved), from %s%n%n",
            bytes(any.bytes()),
            input.delegateName(),
            any.splits().size(),
            shape.slots(),
            shape.nodes().size(),
            shape.slotsReserved(),
            shape.source()));
    text.append(
        String.format(
            "%-10s %8s %7s %7s %9s %9s %9s %9s  %s%n",
            "scheme",
            "splits",
            "waves",
            "local",
            "smallest",
            "largest",
            "node min",
            "node max",
            "splits by units"));
    plans.forEach(
        (scheme, plan) -> {
          long smallest = plan.splits().stream().mapToLong(SplitPlan.Split::bytes).min().orElse(0);
          long largest = plan.splits().stream().mapToLong(SplitPlan.Split::bytes).max().orElse(0);
          long nodeMin =
              plan.bytesByNode().values().stream().mapToLong(Long::longValue).min().orElse(0);
          long nodeMax =
              plan.bytesByNode().values().stream().mapToLong(Long::longValue).max().orElse(0);
          StringJoiner sizes = new StringJoiner(", ");
          plan.splitsByUnitCount().forEach((units, splits) -> sizes.add(splits + "x" + units));
          text.append(
              String.format(
                  Locale.ROOT,
                  "%-10s %8d %7.2f %6.1f%% %9s %9s %9s %9s  %s%n",
                  name(scheme) + (scheme == configured ? "*" : ""),
                  plan.splits().size(),
                  plan.waves(),
                  100 * plan.localShare(),
                  bytes(smallest),
                  bytes(largest),
                  bytes(nodeMin),
                  bytes(nodeMax),
                  sizes));
        });
    return text.append("\n* the configured scheme").toString();
  }

  private static String asJson(
      Input<?> input,
      ClusterShape shape,
      Map<Policy.Scheme, SplitPlan> plans,
      Policy.Scheme configured) {
    Json json = new Json().open('{');
    json.key("delegate").string(input.delegateName());
    json.key("bytes").number(plans.get(Policy.Scheme.NONE).bytes());
    json.key("units").number(input.splits().size());
    json.key("configured_scheme").string(name(configured));
    json.key("cluster").open('{');
    json.key("source").string(shape.source());
    json.key("slots").number(shape.slots());
    json.key("slots_reserved").number(shape.slotsReserved());
    json.key("nodes").open('[');
    for (ClusterShape.Node node : shape.nodes()) {
      json.open('{').key("host").string(node.host()).key("slots").number(node.slots()).close('}');
    }
    json.close(']').close('}');
    json.key("schemes").open('[');
    plans.forEach(
        (scheme, plan) -> {
          json.open('{').key("scheme").string(name(scheme));
          json.key("splits").number(plan.splits().size());
          json.key("waves").number(plan.waves());
          json.key("local_share").number(plan.localShare());
          json.key("load_max_over_mean").number(plan.loadMaxOverMean());
          json.key("splits_by_units").open('[');
          plan.splitsByUnitCount()
              .forEach(
                  (units, splits) ->
                      json.open('{')
                          .key("units")
                          .number(units)
                          .key("splits")
                          .number(splits)
                          .close('}'));
          json.close(']').key("bytes_by_node").open('{');
          plan.bytesByNode().forEach((host, bytes) -> json.key(host).number(bytes));
          json.close('}').close('}');
        });
    return json.close(']').close('}').toString();
  }

  private static String name(Policy.Scheme scheme) {
    return scheme.name().toLowerCase(Locale.ROOT);
  }

  private static String bytes(long bytes) {
    String[] units = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = bytes;
    int unit = 0;
    for (; value >= 1024 && unit < units.length - 1; unit++) value /= 1024;
    return String.format(Locale.ROOT, unit == 0 ? "%.0f%s" : "%.1f%s", value, units[unit]);
  }
}
