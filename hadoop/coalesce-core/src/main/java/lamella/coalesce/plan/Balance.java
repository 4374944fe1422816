package lamella.coalesce.plan;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.PriorityQueue;

/**
 * Gives each unit to one node, so that nodes get weight in proportion to their slots and read what they hold.
 *
 * <p>Four steps: every unit goes to the least loaded of its homes; overloaded nodes hand units on, from home to home, to
 * nodes with room (an augmenting path: everything stays local); units without a home fill the room that is left; what is
 * still too much goes to nodes that do not hold it. B1: a node above its target by more than its lightest unit remains only
 * if no other node has room for that unit. B2: nothing is remote that handing on could have kept local, as long as the search
 * stays within {@link #EDGES_MAX}.
 */
final class Balance {
  /** Edges looked at by all searches together; ends pathological layouts with more remote reads, not with waiting. */
  private static final long EDGES_MAX = 100_000_000;

  private final Layout layout;
  private final double[] target;
  private final long[] load;
  private final List<IntList> parts = new ArrayList<>();
  private long edgesLeft = EDGES_MAX;

  private Balance(Layout layout) {
    this.layout = layout;
    target = new double[layout.nodeCount()];
    load = new long[layout.nodeCount()];
    for (int n = 0; n < target.length; n++) {
      target[n] = (double) layout.weightTotal * layout.slots[n] / layout.slotsTotal;
      parts.add(new IntList());
    }
  }

  /** The units of each node, ascending. */
  static List<IntList> assign(Layout layout) {
    Balance balance = new Balance(layout);
    balance.toLeastLoadedHomes();
    balance.handOn();
    balance.placeHomeless();
    balance.spill();
    return balance.sortedParts();
  }

  /** Units by falling weight, equal ones in the order given. */
  static int[] heaviestFirst(Layout layout, int[] units) {
    Integer[] order = Arrays.stream(units).boxed().toArray(Integer[]::new);
    Arrays.sort(order, (a, b) -> Long.compare(layout.weight[b], layout.weight[a]));  // a stable sort
    return Arrays.stream(order).mapToInt(Integer::intValue).toArray();
  }

  /** The home (or, without homes, the node) with the lowest load per slot; the first such. */
  static int leastLoadedHome(Layout layout, int unit, long[] load) {
    int[] homes = layout.homes[unit];
    int best = -1;
    int candidates = homes.length == 0 ? load.length : homes.length;
    for (int i = 0; i < candidates; i++) {
      int n = homes.length == 0 ? i : homes[i];
      if (best < 0 || isLessLoaded(layout, load, n, best)) best = n;
    }
    return best;
  }

  private static boolean isLessLoaded(Layout layout, long[] load, int a, int b) {
    if (layout.slots[a] == 0 || layout.slots[b] == 0) return layout.slots[a] > layout.slots[b];
    return (double) load[a] / layout.slots[a] < (double) load[b] / layout.slots[b];
  }

  private void toLeastLoadedHomes() {
    int[] all = new int[layout.unitCount()];
    Arrays.setAll(all, u -> u);
    for (int u : heaviestFirst(layout, all)) {
      if (layout.homes[u].length > 0) give(leastLoadedHome(layout, u, load), u);
    }
  }

  private void give(int node, int unit) {
    parts.get(node).add(unit);
    load[node] += layout.weight[unit];
  }

  private boolean hasRoom(int node, long weight) {
    return load[node] + weight <= target[node] + weight / 2.0;
  }

  private boolean hasTooMuch(int node, long weight) {
    return load[node] - weight > target[node] - weight / 2.0;
  }

  private void handOn() {
    boolean[] stuck = new boolean[layout.nodeCount()];  // no room is reached from here; only grows truer as room fills up
    for (int n = 0; n < stuck.length; n++) {
      while (!stuck[n] && load[n] > target[n] && edgesLeft > 0 && handOnOne(n, stuck)) {
        // once more
      }
    }
  }

  /** Breadth first from {@code source}; moves one unit along each hop of the shortest way to a node with room. */
  private boolean handOnOne(int source, boolean[] stuck) {
    int[] cameFrom = new int[layout.nodeCount()];
    int[] cameWith = new int[layout.nodeCount()];  // index in the part of cameFrom
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

  private void placeHomeless() {
    IntList homeless = new IntList();
    for (int u = 0; u < layout.unitCount(); u++) {
      if (layout.homes[u].length == 0) homeless.add(u);
    }
    if (homeless.isEmpty()) return;
    if (areAlike(homeless)) {
      placeInRuns(homeless);
      return;
    }
    PriorityQueue<Integer> emptiest = new PriorityQueue<>(
        (a, b) -> isLessLoaded(layout, load, a, b) ? -1 : isLessLoaded(layout, load, b, a) ? 1 : a - b);
    for (int n = 0; n < load.length; n++) {
      if (layout.slots[n] > 0) emptiest.add(n);
    }
    for (int u : heaviestFirst(layout, homeless.toArray())) {
      int node = emptiest.remove();
      give(node, u);
      emptiest.add(node);
    }
  }

  private boolean areAlike(IntList units) {
    long heaviest = 0;
    long sum = 0;
    for (int i = 0; i < units.size(); i++) {
      heaviest = Math.max(heaviest, layout.weight[units.get(i)]);
      sum += layout.weight[units.get(i)];
    }
    return heaviest <= 1.5 * sum / units.size();
  }

  /** Neighbours go to the same node, where they may be read as one range. */
  private void placeInRuns(IntList units) {
    int node = 0;
    for (int i = 0; i < units.size(); i++) {
      while (node < load.length - 1 && (layout.slots[node] == 0 || !hasRoom(node, layout.weight[units.get(i)]))) node++;
      int u = units.get(i);
      give(layout.slots[node] > 0 && hasRoom(node, layout.weight[u]) ? node : leastLoadedHome(layout, u, load), u);
    }
  }

  /** Keeps B1: from nodes with too much to the emptiest, as long as the unit fits there. */
  private void spill() {
    PriorityQueue<Integer> emptiest = new PriorityQueue<>(
        (a, b) -> {
          int byRoom = Double.compare(target[b] - load[b], target[a] - load[a]);
          return byRoom != 0 ? byRoom : Integer.compare(a, b);
        });
    for (int n = 0; n < load.length; n++) {
      if (layout.slots[n] > 0 && load[n] < target[n]) emptiest.add(n);
    }
    for (int n = 0; n < load.length; n++) {
      if (load[n] <= target[n]) continue;
      IntList part = parts.get(n);
      for (int i = part.size() - 1; i >= 0; i--) {
        int u = part.get(i);
        long w = layout.weight[u];
        if (!hasTooMuch(n, w)) continue;
        Integer to = emptiest.poll();
        if (to == null) return;
        if (hasRoom(to, w)) {
          part.removeAt(i);
          load[n] -= w;
          give(to, u);
        }
        if (load[to] < target[to]) emptiest.add(to);
      }
    }
  }

  private List<IntList> sortedParts() {
    List<IntList> sorted = new ArrayList<>(parts.size());
    for (IntList part : parts) {
      int[] units = part.toArray();
      Arrays.sort(units);
      IntList list = new IntList();
      for (int u : units) list.add(u);
      sorted.add(list);
    }
    return sorted;
  }
}
