package lamella.coalesce.plan;

import java.util.Arrays;

/**
 * A growing array of int: a plan over 100,000 units holds some hundred thousand numbers, which
 * boxed would be objects.
 */
final class IntList {
  private int[] items = new int[8];
  private int size;

  void add(int item) {
    if (size == items.length) items = Arrays.copyOf(items, size * 2);
    items[size++] = item;
  }

  int get(int index) {
    return items[index];
  }

  int size() {
    return size;
  }

  boolean isEmpty() {
    return size == 0;
  }

  int removeLast() {
    return items[--size];
  }

  /** Removes one item; the last takes its place. */
  int removeAt(int index) {
    int item = items[index];
    items[index] = items[--size];
    return item;
  }

  int[] toArray() {
    return Arrays.copyOf(items, size);
  }
}
