package lamella.coalesce.plan;

import java.util.Comparator;
import java.util.PriorityQueue;

/** Takes slots away from nodes, evenly. */
final class Slots {
  private Slots() {}

  /**
   * Takes {@code count} slots away, one at a time, from a node that has the most left; of several
   * such from the first by {@code preference}.
   */
  static void takeAway(int[] slots, int count, Comparator<Integer> preference) {
    PriorityQueue<Integer> most =
        new PriorityQueue<>(
            (a, b) ->
                slots[a] != slots[b]
                    ? Integer.compare(slots[b], slots[a])
                    : preference.compare(a, b));
    for (int n = 0; n < slots.length; n++) most.add(n);
    for (int taken = 0; taken < count; taken++) {
      int n = most.remove();
      slots[n]--;
      most.add(n);
    }
  }
}
