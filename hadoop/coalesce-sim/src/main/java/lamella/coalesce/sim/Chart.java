package lamella.coalesce.sim;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * A chart as SVG: lines, bars or spans over two linear axes. Colours are also told apart by the
 * legend's words.
 */
final class Chart {
  private static final String[] COLOURS = {
    "#1f6f8b", "#c8553d", "#5b8c3a", "#8a5a9e", "#c99700", "#3d5a80", "#a23b72", "#6b705c",
    "#2a9d8f", "#7f4f24"
  };
  private static final int WIDTH = 460;
  private static final int HEIGHT = 260;
  private static final int LEFT = 56;
  private static final int TOP = 30;
  private static final int RIGHT = 12;
  private static final int BOTTOM = 40;

  private final String title;
  private final String xName;
  private final String yName;
  private final double xMax;
  private final double yMax;
  private final StringBuilder body = new StringBuilder();
  private final List<String> legend = new ArrayList<>();

  Chart(String title, String xName, double xMax, String yName, double yMax) {
    this.title = title;
    this.xName = xName;
    this.yName = yName;
    this.xMax = xMax;
    this.yMax = yMax;
  }

  private double x(double value) {
    return LEFT + value / xMax * (WIDTH - LEFT - RIGHT);
  }

  private double y(double value) {
    return HEIGHT - BOTTOM - value / yMax * (HEIGHT - TOP - BOTTOM);
  }

  static String colour(int index) {
    return COLOURS[index % COLOURS.length];
  }

  Chart line(String name, int colour, double[] xs, double[] ys) {
    body.append("<polyline fill='none' stroke-width='2' stroke='")
        .append(colour(colour))
        .append("' points='");
    for (int i = 0; i < xs.length; i++) body.append(f("%.1f,%.1f ", x(xs[i]), y(ys[i])));
    body.append("'/>\n");
    legend.add(f("<tspan fill='%s'>%s</tspan>", colour(colour), name));
    return this;
  }

  Chart bar(int colour, double from, double to, double value, String label) {
    body.append(
        f(
            "<rect fill='%s' x='%.1f' y='%.1f' width='%.1f' height='%.1f'/>",
            colour(colour), x(from), y(value), x(to) - x(from), y(0) - y(value)));
    body.append(
        f(
            "<text x='%.1f' y='%.1f' text-anchor='middle'>%s</text>\n",
            x((from + to) / 2), y(value) - 3, label));
    return this;
  }

  Chart name(int colour, String name) {
    legend.add(f("<tspan fill='%s'>%s</tspan>", colour(colour), name));
    return this;
  }

  Chart tick(double at, String label) {
    body.append(
        f(
            "<text x='%.1f' y='%d' text-anchor='middle'>%s</text>\n",
            x(at), HEIGHT - BOTTOM + 14, label));
    return this;
  }

  /** Thin horizontal spans {row, from, to}, all of one colour. */
  Chart spans(int colour, List<double[]> spans) {
    StringBuilder path = new StringBuilder();
    for (double[] span : spans)
      path.append(f("M%.1f %.1fH%.1f", x(span[1]), y(span[0]), x(span[2])));
    body.append(f("<path stroke='%s' stroke-width='0.4' d='%s'/>\n", colour(colour), path));
    return this;
  }

  String svg(boolean xTicks) {
    StringBuilder svg =
        new StringBuilder(
            f(
                "<svg viewBox='0 0 %d %d' width='%d' height='%d' role='img' aria-label='%s'>\n",
                WIDTH, HEIGHT, WIDTH, HEIGHT, title));
    svg.append(f("<text class='t' x='%d' y='14'>%s</text>\n", LEFT, title));
    for (int i = 0; i <= 4; i++) {
      svg.append(
          f(
              "<line class='g' x1='%d' x2='%d' y1='%.1f' y2='%.1f'/>",
              LEFT, WIDTH - RIGHT, y(yMax * i / 4), y(yMax * i / 4)));
      svg.append(
          f(
              "<text x='%d' y='%.1f' text-anchor='end'>%s</text>\n",
              LEFT - 4, y(yMax * i / 4) + 4, number(yMax * i / 4)));
      if (xTicks) tick(xMax * i / 4, number(xMax * i / 4));
    }
    svg.append(body);
    svg.append(f("<text x='%d' y='%d'>%s</text>", LEFT, HEIGHT - 8, xName));
    svg.append(f("<text x='%d' y='%d'>%s</text>", 2, 26, yName));
    svg.append(
        f(
            "<text x='%d' y='%d' text-anchor='end'>%s</text>\n",
            WIDTH - RIGHT, HEIGHT - 8, String.join("  ", legend)));
    return svg.append("</svg>\n").toString();
  }

  private static String number(double value) {
    return value >= 10 || value == 0 ? f("%.0f", value) : f("%.2f", value);
  }

  private static String f(String pattern, Object... values) {
    return String.format(Locale.ROOT, pattern, values);
  }
}
