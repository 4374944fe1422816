package lamella.coalesce.it;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.channels.FileLock;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapreduce.Mapper;

/**
 * Waits for each record instead of computing, and writes where it stood: on two cores, only waiting
 * shows how tasks share a cluster.
 *
 * <p>A node has as many <i>spindles</i> as slots; a record is waited for while holding one. The
 * slow node has half as many: its tasks together get half the throughput, one alone gets all it can
 * use. (A node whose every task runs at half speed, however few there are, is {@link #SLOW_TASKS}.)
 * A spindle is a lock on a file, so that the node's processes share it.
 */
public final class SleepingMapper extends Mapper<LongWritable, Text, LongWritable, NullWritable> {
  static final String MS_PER_RECORD = "lamella.it.sleep.ms.per.record";
  static final String SPINDLES = "lamella.it.spindles";
  static final String SLOW_NODE = "lamella.it.slow.node";
  static final String SLOW_TASKS = "lamella.it.slow.tasks";
  static final String FOLDER = "lamella.it.spindle.folder";

  private Path folder;
  private int spindles;
  private long waitMs;
  private int next;

  @Override
  protected void setup(Context context) throws IOException {
    String host = System.getenv("NM_HOST");
    boolean slow = host.equals(context.getConfiguration().get(SLOW_NODE));
    boolean slowTasks = context.getConfiguration().getBoolean(SLOW_TASKS, false);
    waitMs = context.getConfiguration().getLong(MS_PER_RECORD, 0) * (slow && slowTasks ? 2 : 1);
    spindles = context.getConfiguration().getInt(SPINDLES, 1) / (slow && !slowTasks ? 2 : 1);
    folder = Files.createDirectories(Path.of(context.getConfiguration().get(FOLDER), host));
    next = context.getTaskAttemptID().getTaskID().getId();
  }

  @Override
  protected void map(LongWritable offset, Text line, Context context)
      throws IOException, InterruptedException {
    while (true) {
      next = (next + 1) % spindles;
      try (RandomAccessFile file =
          new RandomAccessFile(folder.resolve("spindle" + next).toFile(), "rw")) {
        FileLock lock = file.getChannel().tryLock();
        if (lock != null) {
          Thread.sleep(waitMs);
          context.write(offset, NullWritable.get());
          return;
        }
      }
      Thread.sleep(2);
    }
  }
}
