package lamella.coalesce.it;

import java.nio.file.Path;
import org.apache.hadoop.io.IntWritable;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapreduce.MRJobConfig;
import org.apache.hadoop.mapreduce.Mapper;
import org.apache.hadoop.mapreduce.Reducer;
import org.apache.hadoop.mapreduce.lib.map.RegexMapper;
import org.apache.hadoop.mapreduce.lib.map.TokenCounterMapper;
import org.apache.hadoop.mapreduce.lib.reduce.IntSumReducer;
import org.apache.hadoop.mapreduce.lib.reduce.LongSumReducer;
import org.apache.hadoop.net.NetworkTopology;

/** The jobs that are run: the dissertation's three, of Hadoop's own classes, and one that waits. */
public final class Workloads {
  private Workloads() {}

  /** Counts what matches. */
  public static JobRun.Workload grep(String regex) {
    return job -> {
      job.getConfiguration().set(RegexMapper.PATTERN, regex);
      job.setMapperClass(RegexMapper.class);
      job.setCombinerClass(LongSumReducer.class);
      job.setReducerClass(LongSumReducer.class);
      job.setOutputKeyClass(Text.class);
      job.setOutputValueClass(LongWritable.class);
    };
  }

  public static JobRun.Workload wordCount() {
    return job -> {
      job.setMapperClass(TokenCounterMapper.class);
      job.setCombinerClass(IntSumReducer.class);
      job.setReducerClass(IntSumReducer.class);
      job.setOutputKeyClass(Text.class);
      job.setOutputValueClass(IntWritable.class);
    };
  }

  /** Sorts SequenceFiles of LongWritable and Text by key. */
  public static JobRun.Workload sort() {
    return job -> {
      job.setMapperClass(Mapper.class);
      job.setReducerClass(Reducer.class);
      job.setOutputKeyClass(LongWritable.class);
      job.setOutputValueClass(Text.class);
    };
  }

  /**
   * Waits for each record. With a slow node, that one has half the throughput, or runs each task at
   * half speed. {@code masterNode} gets the application master: where that sits decides how many
   * slots the slow node has left, so runs that are compared fix it.
   */
  public static JobRun.Workload sleep(
      int msPerRecord,
      int spindles,
      String slowNode,
      boolean slowTasks,
      String masterNode,
      Path folder) {
    return job -> {
      job.getConfiguration()
          .set(MRJobConfig.AM_STRICT_LOCALITY, NetworkTopology.DEFAULT_RACK + "/" + masterNode);
      job.getConfiguration().setInt(SleepingMapper.MS_PER_RECORD, msPerRecord);
      job.getConfiguration().setInt(SleepingMapper.SPINDLES, spindles);
      job.getConfiguration().set(SleepingMapper.SLOW_NODE, slowNode);
      job.getConfiguration().setBoolean(SleepingMapper.SLOW_TASKS, slowTasks);
      job.getConfiguration().set(SleepingMapper.FOLDER, folder.toAbsolutePath().toString());
      job.setMapperClass(SleepingMapper.class);
      job.setOutputKeyClass(LongWritable.class);
      job.setOutputValueClass(NullWritable.class);
      job.setNumReduceTasks(0);
    };
  }
}
