package lamella.coalesce.sim;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Map;
import lamella.coalesce.sim.Claim.Verdict;
import org.junit.jupiter.api.Test;

/** Every kind of verdict, with what makes it hold and what makes it fail. */
class ClaimTest {
  private static void check(Verdict expected, Claim claim) {
    assertEquals(expected, claim.verdict(), claim.toString());
  }

  @Test
  void aRatioHoldsWithinAQuarterOfItsExcess() {
    check(Verdict.HOLDS, Claim.ratio("", 1.16, 1.19, ""));
    check(Verdict.DIRECTION, Claim.ratio("", 1.16, 1.23, ""));
    check(Verdict.DIRECTION, Claim.ratio("", 2, 1.5, ""));
    check(Verdict.FAILS, Claim.ratio("", 1.7, 0.9, ""));
  }

  @Test
  void aGainHoldsWithinFivePoints() {
    check(Verdict.HOLDS, Claim.gain("", 36.3, 32));
    check(Verdict.DIRECTION, Claim.gain("", 36.3, 22.1));
    check(Verdict.FAILS, Claim.gain("", 14, -4.7));
  }

  @Test
  void aLossOfNinePercentIsNotOneOfThirtyNine() {
    check(Verdict.HOLDS, Claim.loss("", 38.7, 36));
    check(Verdict.DIRECTION, Claim.loss("", 38.7, 8.8));
    check(Verdict.FAILS, Claim.loss("", 38.7, -3));
  }

  @Test
  void theFastestNodesGainHasItsOwnBound() {
    check(Verdict.HOLDS, Claim.fastestNode(92, 123));
    check(Verdict.DIRECTION, Claim.fastestNode(92, 100));
    check(Verdict.DIRECTION, Claim.fastestNode(92, 160));
    check(Verdict.FAILS, Claim.fastestNode(92, 90));
  }

  @Test
  void slightlyIsNotAnyGap() {
    check(Verdict.HOLDS, Claim.within("", "slightly", 7.8, 0, 10));
    check(Verdict.DIRECTION, Claim.within("", "slightly", 30, 0, 10));
    check(Verdict.FAILS, Claim.within("", "slightly", -2, 0, 10));
  }

  @Test
  void slowerIsMoreThanNoise() {
    check(Verdict.HOLDS, Claim.within("", "slower", 5, 1, Double.POSITIVE_INFINITY));
    check(Verdict.FAILS, Claim.within("", "slower", 0.5, 1, Double.POSITIVE_INFINITY));
    check(Verdict.FAILS, Claim.within("", "slower", -28, 1, Double.POSITIVE_INFINITY));
  }

  @Test
  void similarIsWithinATenth() {
    check(Verdict.HOLDS, Claim.independent(Map.of(32, 400.0, 1024, 430.0, 2048, 900.0)));
    check(Verdict.FAILS, Claim.independent(Map.of(32, 400.0, 1024, 450.0)));
  }

  @Test
  void containersAreCounted() {
    check(Verdict.HOLDS, Claim.containers("", 7_000, 1_400, 6_600, 900));
    check(Verdict.DIRECTION, Claim.containers("", 7_000, 1_400, 6_600, 1_500));
    check(Verdict.DIRECTION, Claim.containers("", 7_000, 1_400, 5_000, 900));
    check(Verdict.FAILS, Claim.containers("", 7_000, 1_400, 1_000, 1_500));
  }
}
