package lamella.coalesce.plan;

import java.util.ArrayList;
import java.util.List;

/**
 * Units that stay alone. Their node is only the planner's guess; the scheduler is told all their
 * replicas.
 */
final class Singles {
  private Singles() {}

  static List<SplitPlanner.Group> of(Layout layout) {
    List<SplitPlanner.Group> groups = new ArrayList<>(layout.unitCount());
    List<IntList> parts = Balance.assign(layout);
    for (int n = 0; n < parts.size(); n++) {
      for (int i = 0; i < parts.get(n).size(); i++) {
        groups.add(new SplitPlanner.Group(n, new int[] {parts.get(n).get(i)}));
      }
    }
    return groups;
  }
}
