package lamella.coalesce.it;

import java.io.IOException;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.Random;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.SequenceFile;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.io.compress.CompressionCodec;
import org.apache.hadoop.io.compress.CompressionCodecFactory;
import org.apache.hadoop.util.ReflectionUtils;

/**
 * Inputs, the same at every run: words drawn as words are (few of them often), in lines of about
 * ten.
 */
public final class Data {
  private static final int VOCABULARY = 5000;

  private Data() {}

  /**
   * Lines until {@code bytes} are written; compressed if the name says so (.gz, .bz2). The
   * replicas lie on {@code nodes}; on any, if none is named.
   */
  public static void text(
      FileSystem fs, Path file, long bytes, long seed, InetSocketAddress... nodes)
      throws IOException {
    Random random = new Random(seed);
    CompressionCodec codec = new CompressionCodecFactory(fs.getConf()).getCodec(file);
    if (codec != null) ReflectionUtils.setConf(codec, fs.getConf());
    try (OutputStream raw = nodes.length == 0 ? fs.create(file) : createOn(fs, file, nodes);
        OutputStream out = codec == null ? raw : codec.createOutputStream(raw)) {
      for (long left = bytes; left > 0; ) {
        byte[] line = line(random).getBytes(StandardCharsets.UTF_8);
        int length = (int) Math.min(left, line.length);
        line[length - 1] = '\n';
        out.write(line, 0, length);
        left -= length;
      }
    }
  }

  private static OutputStream createOn(FileSystem fs, Path file, InetSocketAddress[] nodes)
      throws IOException {
    return ((DistributedFileSystem) fs)
        .createFile(file)
        .recursive()
        .overwrite(true)
        .replication((short) nodes.length)
        .favoredNodes(nodes)
        .build();
  }

  /** Lines of exactly 64 KiB. */
  public static void longLines(FileSystem fs, Path file, int count) throws IOException {
    byte[] line = new byte[64 << 10];
    java.util.Arrays.fill(line, (byte) 'x');
    line[line.length - 1] = '\n';
    try (OutputStream out = fs.create(file)) {
      for (int i = 0; i < count; i++) out.write(line);
    }
  }

  public static void sequence(Configuration conf, Path file, int records, long seed)
      throws IOException {
    Random random = new Random(seed);
    try (SequenceFile.Writer writer =
        SequenceFile.createWriter(
            conf,
            SequenceFile.Writer.file(file),
            SequenceFile.Writer.keyClass(LongWritable.class),
            SequenceFile.Writer.valueClass(Text.class))) {
      for (int i = 0; i < records; i++)
        writer.append(new LongWritable(random.nextLong(1L << 40)), new Text(line(random).trim()));
    }
  }

  private static String line(Random random) {
    StringBuilder line = new StringBuilder();
    for (int words = 6 + random.nextInt(8); words > 0; words--) {
      double u = random.nextDouble();
      line.append('w').append((int) (VOCABULARY * u * u * u)).append(' ');
    }
    return line.append('\n').toString();
  }
}
