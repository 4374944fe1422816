package lamella.coalesce.plan;

import java.util.Arrays;

/**
 * A number for each node, and which is the highest: a tree of matches, each won by the higher and
 * then the earlier node.
 */
final class Richest {
  private final int[] value;
  private final int[]
      winner; // of the match at each place of the tree, 1 being the final; -1 where nobody plays
  private final int leaves;

  Richest(int[] values) {
    value = values.clone();
    leaves = Math.max(1, Integer.highestOneBit(Math.max(1, value.length - 1)) * 2);
    winner = new int[2 * leaves];
    Arrays.fill(winner, -1);
    for (int n = 0; n < value.length; n++) winner[leaves + n] = n;
    for (int match = leaves - 1; match >= 1; match--)
      winner[match] = better(winner[2 * match], winner[2 * match + 1]);
  }

  int get(int node) {
    return value[node];
  }

  void add(int node, int change) {
    value[node] += change;
    for (int match = (leaves + node) / 2; match >= 1; match /= 2) {
      winner[match] = better(winner[2 * match], winner[2 * match + 1]);
    }
  }

  /**
   * The first of those with most, {@code node} left out; -1 if none of the others has more than 0.
   */
  int otherThan(int node) {
    int best = winner[1];
    if (best == node) {
      best = -1;
      for (int place = leaves + node; place > 1; place /= 2) best = better(best, winner[place ^ 1]);
    }
    return best >= 0 && value[best] > 0 ? best : -1;
  }

  private int better(int a, int b) {
    if (a < 0 || b < 0) return Math.max(a, b);
    if (value[a] != value[b]) return value[a] > value[b] ? a : b;
    return Math.min(a, b);
  }
}
