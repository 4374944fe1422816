package lamella.coalesce.sim;

import java.util.ArrayList;
import java.util.List;
import java.util.PriorityQueue;
import java.util.Random;

/**
 * The discrete-event model: nodes report in every heartbeat and are offered to jobs, one container
 * each time; a container starts, reads its blocks through its node's disk, and frees its slot;
 * reducers start after some maps and shuffle through one shared bottleneck.
 *
 * <p>D1: a node never runs more containers than it has slots. D2: a disk's readers share it fairly,
 * none faster than it computes. D3: map output can be shuffled once its map has ended, not before.
 * D4: everything follows from the seed.
 */
final class Model {
  enum Sharing {
    FAIR,
    FIFO
  }

  /** A map's or reducer's life, for the figures. */
  record Span(int job, boolean map, int node, double start, double end, boolean local) {}

  /** A point of the cumulative shuffle. */
  record Shuffled(double time, double mb) {}

  static final class Job {
    final int number;
    final App app;
    final double submitted;
    final List<Splitter.Split> waiting;
    final int mapCount;
    int mapsRunning;
    int mapsDone;
    int reducersRunning;
    int offersDeclined;
    double shuffleReadyMb;
    double shuffledMb;
    int fetchers; // reducers that have started up
    boolean reducing;
    double finished = -1;

    Job(int number, App app, double submitted, List<Splitter.Split> splits) {
      this.number = number;
      this.app = app;
      this.submitted = submitted;
      waiting = new ArrayList<>(splits);
      mapCount = splits.size();
    }

    double seconds() {
      return finished - submitted;
    }

    private boolean isRunning(double now) {
      return finished < 0 && now >= submitted + Constants.MASTER_START_S;
    }
  }

  private static final class Node {
    final int number;
    final double diskMbPerS;
    final List<Reader> readers = new ArrayList<>();
    int slotsFree = Constants.SLOTS_PER_NODE;
    double updated;
    long version;

    Node(int number, double diskMbPerS) {
      this.number = number;
      this.diskMbPerS = diskMbPerS;
    }
  }

  /** A map that is reading. */
  private static final class Reader {
    final Job job;
    final Splitter.Split split;
    final Span begun;
    int block = -1;
    double leftMb;
    double rateMax; // of input, by computing or by network
    double rate;

    Reader(Job job, Splitter.Split split, Span begun) {
      this.job = job;
      this.split = split;
      this.begun = begun;
    }
  }

  private record Event(double time, long order, Runnable action) implements Comparable<Event> {
    @Override
    public int compareTo(Event other) {
      return time != other.time
          ? Double.compare(time, other.time)
          : Long.compare(order, other.order);
    }
  }

  /** Where a reducer holds a slot. */
  private record Place(Job job, Node node, double began) {}

  final List<Job> jobs = new ArrayList<>();
  final List<Span> spans = new ArrayList<>();
  final List<Shuffled> shuffle = new ArrayList<>();
  private final List<Place> reducerPlaces = new ArrayList<>();
  private final PriorityQueue<Event> events = new PriorityQueue<>();
  private final Node[] nodes = new Node[Constants.NODES];
  private final Random random;
  private final Sharing sharing;
  private double now;
  private long order;
  private double shuffleUpdated;
  private double shuffledTotal;
  private long shuffleVersion;

  Model(Sharing sharing, long seed) {
    this.sharing = sharing;
    random = new Random(seed);
    List<Double> speeds = new ArrayList<>();
    for (int n = 0; n < nodes.length; n++) {
      speeds.add(
          Constants.DISK_MB_PER_S
              * (1 - (1 - Constants.DISK_SLOWEST_SHARE) * n / (nodes.length - 1)));
    }
    java.util.Collections.shuffle(speeds, random);
    for (int n = 0; n < nodes.length; n++) nodes[n] = new Node(n, speeds.get(n));
  }

  Job submit(App app, double time, List<Splitter.Split> splits) {
    Job job = new Job(jobs.size(), app, time, splits);
    jobs.add(job);
    return job;
  }

  void run() {
    for (Node node : nodes) at(random.nextDouble() * Constants.HEARTBEAT_S, () -> heartbeat(node));
    while (jobs.stream().anyMatch(job -> job.finished < 0)) {
      Event event = events.remove();
      now = event.time();
      event.action().run();
    }
  }

  private void at(double time, Runnable action) {
    events.add(new Event(time, order++, action));
  }

  private void heartbeat(Node node) {
    if (node.slotsFree > 0) offer(node);
    at(now + Constants.HEARTBEAT_S, () -> heartbeat(node));
  }

  private void offer(Node node) {
    List<Job> candidates =
        new ArrayList<>(jobs.stream().filter(job -> job.isRunning(now)).toList());
    if (sharing == Sharing.FAIR) {
      candidates.sort(
          (a, b) ->
              Integer.compare(
                  a.mapsRunning + a.reducersRunning, b.mapsRunning + b.reducersRunning));
    }
    for (Job job : candidates) {
      if (wantsReducer(job, candidates.size())) {
        startReducer(job, node);
        return;
      }
      if (job.waiting.isEmpty()) continue;
      Splitter.Split split = choose(job, node);
      if (split != null) {
        startMap(job, split, node);
        return;
      }
    }
  }

  private boolean wantsReducer(Job job, int jobsRunning) {
    if (job.reducing || job.reducersRunning >= job.app.reducers()) return false;
    if (job.mapsDone < Math.ceil(Constants.SLOW_START * job.mapCount)) return false;
    if (job.waiting.isEmpty()) return true;
    double slots = (double) Constants.NODES * Constants.SLOTS_PER_NODE / jobsRunning;
    return job.reducersRunning < Constants.REDUCE_RAMP_UP_MAX * slots;
  }

  /** Delay scheduling: a split that prefers this node; any, once enough offers were declined. */
  private Splitter.Split choose(Job job, Node node) {
    for (int i = 0; i < job.waiting.size(); i++) {
      if (job.waiting.get(i).preferred()[node.number]) {
        job.offersDeclined = 0;
        return job.waiting.remove(i);
      }
    }
    if (++job.offersDeclined <= Constants.OFFERS_DECLINED_MAX) return null;
    return job.waiting.remove(0);
  }

  private void startMap(Job job, Splitter.Split split, Node node) {
    node.slotsFree--; // D1: an offer is made only where a slot is free
    job.mapsRunning++;
    Reader reader =
        new Reader(
            job,
            split,
            new Span(job.number, true, node.number, now, 0, split.preferred()[node.number]));
    double delay = Constants.SCHEDULING_S - Constants.HEARTBEAT_S / 2 + Constants.CONTAINER_START_S;
    at(
        now + delay,
        () -> {
          settle(node);
          node.readers.add(reader);
          nextBlock(reader, node);
          share(node);
        });
  }

  private void nextBlock(Reader reader, Node node) {
    reader.block++;
    reader.leftMb = reader.split.blockMb()[reader.block];
    double alone = Constants.BLOCK_MB / reader.job.app.blockSeconds();
    // A large block's work is a mean over much content: its spread falls with the root of its size.
    double spread = reader.job.app.spread() * Math.sqrt(Constants.BLOCK_MB / reader.leftMb);
    reader.rateMax = alone / Math.exp(spread * random.nextGaussian());
    boolean local = false;
    for (int home : reader.split.homes()[reader.block]) local |= home == node.number;
    if (!local) reader.rateMax = Math.min(reader.rateMax, Constants.REMOTE_MB_PER_S);
  }

  /** Takes off what was read since the last change. */
  private void settle(Node node) {
    for (Reader reader : node.readers) reader.leftMb -= reader.rate * (now - node.updated);
    node.updated = now;
  }

  /**
   * Keeps D2: equal parts of the disk, and what one cannot use goes to the others. Then waits for
   * the first to end a block.
   */
  private void share(Node node) {
    List<Reader> open = new ArrayList<>(node.readers);
    open.sort((a, b) -> Double.compare(need(a), need(b)));
    double left = node.diskMbPerS;
    double first = Double.POSITIVE_INFINITY;
    for (int i = 0; i < open.size(); i++) {
      Reader reader = open.get(i);
      double disk = Math.min(need(reader), left / (open.size() - i));
      left -= disk;
      reader.rate = disk / reader.job.app.diskFactor();
      first = Math.min(first, Math.max(0, reader.leftMb) / reader.rate);
    }
    long version = ++node.version;
    if (!open.isEmpty()) {
      at(
          now + first,
          () -> {
            if (version == node.version) blocksEnded(node);
          });
    }
  }

  private static double need(Reader reader) {
    return reader.rateMax * reader.job.app.diskFactor();
  }

  private void blocksEnded(Node node) {
    settle(node);
    for (Reader reader : List.copyOf(node.readers)) {
      if (reader.leftMb > 1e-6) continue;
      if (reader.block + 1 < reader.split.blockMb().length) {
        nextBlock(reader, node);
      } else {
        node.readers.remove(reader);
        mapEnded(reader, node);
      }
    }
    share(node);
  }

  private void mapEnded(Reader reader, Node node) {
    Job job = reader.job;
    node.slotsFree++;
    job.mapsRunning--;
    job.mapsDone++;
    spans.add(
        new Span(job.number, true, node.number, reader.begun.start(), now, reader.begun.local()));
    settleShuffle();
    for (double mb : reader.split.blockMb())
      job.shuffleReadyMb += mb * job.app.outputShare(); // keeps D3
    shuffleOn();
  }

  private void startReducer(Job job, Node node) {
    node.slotsFree--;
    job.reducersRunning++;
    reducerPlaces.add(new Place(job, node, now));
    at(
        now + Constants.SCHEDULING_S + Constants.CONTAINER_START_S,
        () -> {
          settleShuffle();
          job.fetchers++;
          shuffleOn();
        });
  }

  private void settleShuffle() {
    double elapsed = now - shuffleUpdated;
    List<Job> active = fetching();
    for (Job job : active) {
      double mb =
          Math.min(job.shuffleReadyMb, elapsed * Constants.SHUFFLE_MB_PER_S / active.size());
      job.shuffleReadyMb -= mb;
      if (job.shuffleReadyMb < 1e-6) job.shuffleReadyMb = 0;
      job.shuffledMb += mb;
      shuffledTotal += mb;
    }
    shuffleUpdated = now;
    if (elapsed > 0 && !active.isEmpty()) shuffle.add(new Shuffled(now, shuffledTotal));
  }

  private List<Job> fetching() {
    return jobs.stream().filter(job -> job.fetchers > 0 && job.shuffleReadyMb > 0).toList();
  }

  /** Waits for the first job to have caught up, and lets those that have everything reduce. */
  private void shuffleOn() {
    for (Job job : jobs) {
      boolean all =
          job.mapsDone == job.mapCount
              && job.shuffleReadyMb <= 0
              && job.fetchers == job.app.reducers();
      if (!all || job.reducing) continue;
      job.reducing = true;
      at(now + job.app.reduceSecondsPerGb() * job.shuffledMb / 1024, () -> finish(job));
    }
    List<Job> active = fetching();
    long version = ++shuffleVersion;
    double least = active.stream().mapToDouble(job -> job.shuffleReadyMb).min().orElse(-1);
    if (least < 0) return;
    at(
        now + least * active.size() / Constants.SHUFFLE_MB_PER_S + 1e-6,
        () -> {
          if (version != shuffleVersion) return;
          settleShuffle();
          shuffleOn();
        });
  }

  private void finish(Job job) {
    job.finished = now;
    for (Place place : reducerPlaces) {
      if (place.job() != job) continue;
      place.node().slotsFree++;
      spans.add(new Span(job.number, false, place.node().number, place.began(), now, true));
    }
    job.reducersRunning = 0;
  }

  double localShare() {
    long maps = spans.stream().filter(Span::map).count();
    return maps == 0
        ? 1
        : (double) spans.stream().filter(span -> span.map() && span.local()).count() / maps;
  }

  double averageSeconds() {
    return jobs.stream().mapToDouble(Job::seconds).average().orElse(0);
  }
}
