package lamella.coalesce.plan;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.TreeSet;

/**
 * Gives each unit to one node, so that nodes get weight in proportion to their slots and read what
 * they hold.
 *
 * <p>Four steps: every unit goes to the least loaded of its homes; overloaded nodes hand units on,
 * from home to home, to nodes with room (an augmenting path: everything stays local); units without
 * a home that could take them fill the room that is left; what is still too much goes to nodes that
 * do not hold it.
 *
 * <p>B1: a node above its target by more than half a unit keeps that unit only if no other node
 * would be left with less load a slot than this one has. B2: nothing is remote that handing on
 * could have kept local, as long as the search stays within {@link #EDGES_MAX}. B3: no load a slot
 * is above {@link #UNEVEN} times the mean where giving the heaviest units to the least loaded
 * nodes, wherever they lie, comes out lower. B4: a node without slots gets nothing.
 */
final class Balance {
  /**
   * Edges looked at by all searches together; ends pathological layouts with more remote reads, not
   * with waiting.
   */
  private static final long EDGES_MAX = 100_000_000;

  /** How uneven loads may be for the sake of locality. */
  private static final double UNEVEN = 1.2;

  private final Layout layout;
  private final int[] units;
  private final double[] target;
  private final long[] loadBefore;
  private final long[] load;
  private List<IntList> parts = new ArrayList<>();
  private long edgesLeft = EDGES_MAX;

  private Balance(Layout layout, int[] units, long[] loadBefore) {
    this.layout = layout;
    this.units = heaviestFirst(layout, units);
    this.loadBefore = loadBefore;
    target = new double[layout.nodeCount()];
    load = loadBefore.clone();
    double total =
        Arrays.stream(loadBefore).sum()
            + (double) Arrays.stream(units).mapToLong(u -> layout.weight[u]).sum();
    for (int n = 0; n < target.length; n++) {
      target[n] = total * layout.slots[n] / layout.slotsTotal;
      parts.add(new IntList());
    }
  }

  /** The units of each node, ascending. */
  static List<IntList> assign(Layout layout) {
    return assign(layout, layout.allUnits(), new long[layout.nodeCount()]);
  }

  /** The same of some units, beside a load that nodes have already. */
  static List<IntList> assign(Layout layout, int[] units, long[] loadBefore) {
    Balance balance = new Balance(layout, units, loadBefore);
    IntList homeless = balance.toLeastLoadedHomes();
    balance.handOn();
    balance.placeHomeless(homeless);
    balance.spill();
    balance.evenOut();
    return balance.sortedParts();
  }

  /** Units by falling weight, equal ones in the order given. */
  static int[] heaviestFirst(Layout layout, int[] units) {
    boolean sorted = true;
    for (int i = 1; i < units.length && sorted; i++)
      sorted = layout.weight[units[i - 1]] >= layout.weight[units[i]];
    if (sorted) return units.clone();
    Integer[] order = Arrays.stream(units).boxed().toArray(Integer[]::new);
    Arrays.sort(order, (a, b) -> Long.compare(layout.weight[b], layout.weight[a])); // a stable sort
    return Arrays.stream(order).mapToInt(Integer::intValue).toArray();
  }

  /**
   * Of the unit's homes that have slots the one with the lowest load per slot, the first such; -1
   * if there is none.
   */
  private int leastLoadedHome(int unit) {
    int best = -1;
    layout.steps += layout.homes[unit].length;
    for (int n : layout.homes[unit]) {
      if (layout.slots[n] > 0 && (best < 0 || ratio(n) < ratio(best))) best = n;
    }
    return best;
  }

  private double ratio(int node) {
    return (double) load[node] / layout.slots[node];
  }

  private double ratioWith(int node, long weight) {
    return (double) (load[node] + weight) / layout.slots[node];
  }

  /** Returns those that have none. */
  private IntList toLeastLoadedHomes() {
    IntList homeless = new IntList();
    for (int u : units) {
      int node = leastLoadedHome(u);
      if (node < 0) {
        homeless.add(u);
      } else {
        give(node, u);
      }
    }
    return homeless;
  }

  private void give(int node, int unit) {
    parts.get(node).add(unit);
    load[node] += layout.weight[unit];
  }

  private boolean hasRoom(int node, long weight) {
    return layout.slots[node] > 0 && load[node] + weight <= target[node] + weight / 2.0;
  }

  private boolean hasTooMuch(int node, long weight) {
    return load[node] - weight > target[node] - weight / 2.0;
  }

  private void handOn() {
    boolean[] stuck =
        new boolean
            [layout.nodeCount()]; // no room is reached from here; only grows truer as room fills up
    for (int n = 0; n < stuck.length; n++) {
      while (!stuck[n] && load[n] > target[n] && edgesLeft > 0 && handOnOne(n, stuck)) {
        // once more
      }
    }
  }

  /**
   * Breadth first from {@code source}; moves one unit along each hop of the shortest way to a node
   * with room.
   */
  private boolean handOnOne(int source, boolean[] stuck) {
    int[] cameFrom = new int[layout.nodeCount()];
    int[] cameWith = new int[layout.nodeCount()]; // index in the part of cameFrom
    Arrays.fill(cameFrom, -1);
    cameFrom[source] = source;
    IntList queue = new IntList();
    queue.add(source);
    for (int head = 0; head < queue.size(); head++) {
      int from = queue.get(head);
      IntList part = parts.get(from);
      for (int i = 0; i < part.size(); i++) {
        int u = part.get(i);
        edgesLeft -= layout.homes[u].length;
        layout.steps += layout.homes[u].length;
        if (from == source && !hasTooMuch(source, layout.weight[u])) continue;
        for (int to : layout.homes[u]) {
          if (cameFrom[to] >= 0 || stuck[to] || layout.slots[to] == 0) continue;
          cameFrom[to] = from;
          cameWith[to] = i;
          if (hasRoom(to, layout.weight[u])) {
            move(source, to, cameFrom, cameWith);
            return true;
          }
          queue.add(to);
        }
      }
    }
    for (int i = 0; i < queue.size(); i++) stuck[queue.get(i)] = true;
    return false;
  }

  private void move(int source, int sink, int[] cameFrom, int[] cameWith) {
    for (int to = sink; to != source; to = cameFrom[to]) {
      int from = cameFrom[to];
      int u = parts.get(from).removeAt(cameWith[to]);
      load[from] -= layout.weight[u];
      give(to, u);
    }
  }

  private void placeHomeless(IntList homeless) {
    if (homeless.isEmpty()) return;
    IntList rest = areAlike(homeless) ? placeInRuns(homeless) : homeless;
    TreeSet<Integer> emptiest = emptiest();
    for (int i = 0; i < rest.size(); i++) {
      int node = emptiest.pollFirst();
      give(node, rest.get(i));
      emptiest.add(node);
    }
  }

  /**
   * The nodes that have slots, lowest load per slot first. A node's load may only be changed while
   * it is not in here.
   */
  private TreeSet<Integer> emptiest() {
    TreeSet<Integer> emptiest =
        new TreeSet<>(Comparator.<Integer>comparingDouble(this::ratio).thenComparingInt(n -> n));
    for (int n = 0; n < load.length; n++) {
      if (layout.slots[n] > 0) emptiest.add(n);
    }
    return emptiest;
  }

  private boolean areAlike(IntList some) {
    long heaviest = 0;
    long sum = 0;
    for (int i = 0; i < some.size(); i++) {
      heaviest = Math.max(heaviest, layout.weight[some.get(i)]);
      sum += layout.weight[some.get(i)];
    }
    return heaviest <= 1.5 * sum / some.size();
  }

  /**
   * Neighbours go to the same node, where they may be read as one range. Returns what found no
   * room.
   */
  private IntList placeInRuns(IntList some) {
    int[] inOrder = some.toArray();
    Arrays.sort(inOrder);
    IntList rest = new IntList();
    long tooHeavy = Long.MAX_VALUE; // no node had room for this much
    int node = 0;
    for (int u : inOrder) {
      long w = layout.weight[u];
      while (w < tooHeavy && node < load.length && !hasRoom(node, w)) node++;
      if (w < tooHeavy && node < load.length) {
        give(node, u);
        continue;
      }
      tooHeavy = Math.min(tooHeavy, w);
      rest.add(u);
      node = 0;
    }
    return rest;
  }

  /**
   * Keeps B1: from nodes with too much to the emptiest, as long as that lowers the higher of both
   * loads.
   */
  private void spill() {
    TreeSet<Integer> emptiest = emptiest();
    Integer[] fullest = new Integer[load.length];
    Arrays.setAll(fullest, n -> n);
    double[] excess = new double[load.length];
    for (int n = 0; n < load.length; n++)
      excess[n] = layout.slots[n] == 0 ? 0 : ratio(n) - target[n] / layout.slots[n];
    Arrays.sort(fullest, (a, b) -> Double.compare(excess[b], excess[a]));
    for (int from : fullest) {
      if (excess[from] <= 0) return;
      IntList part = parts.get(from);
      emptiest.remove(from);
      long tooHeavy = Long.MAX_VALUE; // moving this much helps nobody
      for (int i = part.size() - 1; i >= 0 && !emptiest.isEmpty(); i--) {
        long w = layout.weight[part.get(i)];
        layout.steps++;
        if (w >= tooHeavy || !hasTooMuch(from, w)) continue;
        int to = emptiest.first();
        if (ratioWith(to, w) >= ratio(from)) {
          tooHeavy = w;
          continue;
        }
        emptiest.remove(to);
        int u = part.removeAt(i);
        load[from] -= w;
        give(to, u);
        emptiest.add(to);
      }
      emptiest.add(from);
    }
  }

  /** Keeps B3. */
  private void evenOut() {
    double mean = Arrays.stream(load).sum() / (double) layout.slotsTotal;
    double highest = highest();
    if (highest <= UNEVEN * mean) return;
    Balance anywhere = new Balance(layout, units, loadBefore);
    anywhere.toLeastLoaded(0);
    if (anywhere.highest() >= highest) return;
    Balance atHome = new Balance(layout, units, loadBefore);
    double allowed = Math.max(UNEVEN * mean, anywhere.highest());
    atHome.toLeastLoaded(allowed);
    Balance better = atHome.highest() <= allowed ? atHome : anywhere;
    parts = better.parts;
    System.arraycopy(better.load, 0, load, 0, load.length);
  }

  /**
   * Heaviest first, to a home where the load a slot stays within {@code atHome}, else to the
   * emptiest node.
   */
  private void toLeastLoaded(double atHome) {
    TreeSet<Integer> emptiest = emptiest();
    for (int u : units) {
      int home = leastLoadedHome(u);
      boolean stays = home >= 0 && ratioWith(home, layout.weight[u]) <= atHome;
      int node = stays ? home : emptiest.first();
      emptiest.remove(node);
      give(node, u);
      emptiest.add(node);
    }
  }

  private double highest() {
    double highest = 0;
    for (int n = 0; n < load.length; n++) {
      if (layout.slots[n] > 0) highest = Math.max(highest, ratio(n));
    }
    return highest;
  }

  private List<IntList> sortedParts() {
    List<IntList> sorted = new ArrayList<>(parts.size());
    for (IntList part : parts) {
      int[] ascending = part.toArray();
      Arrays.sort(ascending);
      IntList list = new IntList();
      for (int u : ascending) list.add(u);
      sorted.add(list);
    }
    return sorted;
  }
}
