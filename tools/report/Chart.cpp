// Scales, ticks and marks. Colors are classes of the page, which has a light and a dark theme.
// SPDX-License-Identifier: Apache-2.0
#include "tools/report/Chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace yaglom::tools {
namespace {

constexpr double kWidth = 560, kHeight = 350, kLeft = 70, kRight = 14, kTop = 14, kBottom = 52;

/// Three significant digits without an exponent.
std::string digits(double value) {
  const int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : value >= 0.9995 ? 2 : 3;
  return fmt::format("{:.{}f}", value, decimals);
}

/// "2.00 ms" as "2 ms": the ticks of an axis are round.
std::string withoutZeros(std::string text) {
  const std::size_t point = text.find('.');
  if (point == std::string::npos)
    return text;
  const std::size_t end = text.find_first_not_of("0123456789", point + 1);
  std::size_t last = (end == std::string::npos ? text.size() : end) - 1;
  const std::size_t stop = last + 1;
  while (text[last] == '0')
    --last;
  if (text[last] == '.')
    --last;
  return text.erase(last + 1, stop - last - 1);
}

/// A part of the page from `low` to `high`, by their logarithms or not.
struct Axis {
  double low, high, from, to;
  bool logarithmic;
  std::vector<double> ticks;

  double operator()(double value) const {
    const auto map = [&](double x) { return logarithmic ? std::log2(x) : x; };
    const double span = map(high) - map(low);
    return from + (to - from) * (span == 0 ? 0.5 : (map(value) - map(low)) / span);
  }
};

/// Powers of two of the lengths, at most eight.
Axis lengthAxis(double low, double high) {
  Axis axis{low / 1.15, high * 1.15, kLeft, kWidth - kRight, true, {}};
  const int first = static_cast<int>(std::ceil(std::log2(low) - 1e-9)),
            last = static_cast<int>(std::floor(std::log2(high) + 1e-9));
  const int step = std::max(1, (last - first) / 8 + 1);
  for (int power = first; power <= last; power += step)
    axis.ticks.push_back(std::exp2(power));
  if (axis.ticks.empty())
    axis.ticks = {low};
  return axis;
}

/// Powers of ten, with 2 and 5 between where there are few; of bytes, powers of two.
Axis logAxis(double low, double high, bool bytes) {
  if (low == high)
    low /= 2, high *= 2;
  Axis axis{low / 1.2, high * 1.2, kHeight - kBottom, kTop, true, {}};
  if (bytes) {
    const int first = static_cast<int>(std::floor(std::log2(low))), last = static_cast<int>(std::ceil(std::log2(high)));
    const int step = std::max(1, (last - first + 5) / 6);
    for (int power = first; power < last + step; power += step)
      axis.ticks.push_back(std::exp2(power));
    axis.low = axis.ticks.front();
    axis.high = axis.ticks.back();
    return axis;
  }
  const bool fine = axis.high / axis.low < 1000;
  for (int power = static_cast<int>(std::floor(std::log10(axis.low))); std::pow(10, power) <= axis.high; ++power)
    for (const double factor : {1.0, 2.0, 5.0})
      if (const double tick = factor * std::pow(10, power);
          (factor == 1 || fine) && tick >= axis.low && tick <= axis.high)
        axis.ticks.push_back(tick);
  return axis;
}

Axis percentAxis(double high) {
  // A busy machine may show more than all.
  const double step = high <= 0.2 ? 0.04 : high <= 0.5 ? 0.1 : 0.2 * std::ceil(high / 1.6);
  const int steps = std::max(5, static_cast<int>(std::ceil(high / step)));
  Axis axis{0, steps * step, kHeight - kBottom, kTop, false, {}};
  for (int i = 0; i <= steps; ++i)
    axis.ticks.push_back(i * step);
  return axis;
}

std::string tickText(double value, ChartOptions::Y kind) {
  return withoutZeros(kind == ChartOptions::Y::LogTime    ? timeText(value)
                      : kind == ChartOptions::Y::LogBytes ? bytesText(value)
                                                          : digits(100 * value) + " %");
}

std::string drawAxes(const ChartOptions &options, const Axis &x, const Axis &y) {
  std::string svg;
  for (const double tick : y.ticks)
    svg += fmt::format("<line class=\"grid\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>"
                       "<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
                       kLeft, kWidth - kRight, y(tick), y(tick), kLeft - 8, y(tick) + 4, tickText(tick, options.y));
  for (const double tick : x.ticks)
    svg += fmt::format("<line class=\"grid\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>"
                       "<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{:.0f}</text>\n",
                       x(tick), x(tick), kTop, kHeight - kBottom, x(tick), kHeight - kBottom + 18, tick);
  svg += fmt::format("<line class=\"axis\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>\n", kLeft,
                     kWidth - kRight, kHeight - kBottom, kHeight - kBottom);
  svg += fmt::format("<text class=\"label\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
                     (kLeft + kWidth - kRight) / 2, kHeight - 10, escapeHtml(options.xTitle));
  return svg;
}

std::string drawSeries(const Series &series, const Axis &x, const Axis &y) {
  std::string path, marks;
  for (const Series::Point &point : series.points) {
    const double px = x(point.x), py = y(point.y);
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : " L", px, py);
    marks += fmt::format("<g class=\"point\"><title>{}</title><circle class=\"hit\" cx=\"{:.1f}\" cy=\"{:.1f}\" "
                         "r=\"11\"/>{}</g>\n",
                         escapeHtml(point.tooltip), px, py, mark(series.color, px, py));
  }
  return fmt::format("<g class=\"c{}\"><path class=\"line{}\" d=\"{}\"/>\n{}</g>\n", series.color % kColors,
                     series.dashed ? " dashed" : "", path, marks);
}

std::string legend(const std::vector<Series> &all) {
  std::string items;
  for (const Series &series : all)
    items += fmt::format("<li><svg class=\"key c{}\" viewBox=\"0 0 28 14\" aria-hidden=\"true\"><path "
                         "class=\"line{}\" d=\"M1 7 L27 7\"/>{}</svg>{}</li>\n",
                         series.color % kColors, series.dashed ? " dashed" : "", mark(series.color, 14, 7),
                         escapeHtml(series.name));
  return "<ul class=\"legend\">\n" + items + "</ul>\n";
}

} // namespace

std::string escapeHtml(const std::string &text) {
  std::string result;
  for (const char c : text)
    switch (c) {
    case '&':
      result += "&amp;";
      break;
    case '<':
      result += "&lt;";
      break;
    case '>':
      result += "&gt;";
      break;
    case '"':
      result += "&quot;";
      break;
    default:
      result += c;
    }
  return result;
}

std::string timeText(double milliseconds) {
  return milliseconds >= 1000 ? digits(milliseconds / 1000) + " s"
         : milliseconds < 0.1 ? digits(milliseconds * 1000) + " µs"
                              : digits(milliseconds) + " ms";
}

std::string bytesText(double bytes) {
  constexpr std::array<const char *, 5> kUnits = {"B", "KB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < kUnits.size(); ++unit)
    bytes /= 1024;
  return (unit == 0 ? fmt::format("{:.0f}", bytes) : digits(bytes)) + " " + kUnits[unit];
}

std::string mark(int color, double x, double y) {
  constexpr double r = 4.2;
  switch (color % 4) {
  case 0:
    return fmt::format("<circle class=\"mark\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"/>", x, y, r);
  case 1:
    return fmt::format("<rect class=\"mark\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\"/>", x - r + 0.4,
                       y - r + 0.4, 2 * r - 0.8, 2 * r - 0.8);
  case 2:
    return fmt::format("<path class=\"mark\" d=\"M{:.1f} {:.1f} l{} {} l{} 0 z\"/>", x, y - r - 1, r + 0.8, 2 * r,
                       -2 * r - 1.6);
  default:
    return fmt::format("<path class=\"mark\" d=\"M{:.1f} {:.1f} l{} {} l{} {} l{} {} z\"/>", x, y - r - 1, r + 1, r + 1,
                       -r - 1, r + 1, -r - 1, -r - 1);
  }
}

std::string lineChart(const ChartOptions &options, std::vector<Series> series) {
  const bool logarithmic = options.y != ChartOptions::Y::Percent;
  double xLow = INFINITY, xHigh = 0, yLow = INFINITY, yHigh = 0;
  for (Series &each : series) {
    std::erase_if(each.points, [&](const Series::Point &point) { return logarithmic && point.y <= 0; });
    std::sort(each.points.begin(), each.points.end(), [](const auto &a, const auto &b) { return a.x < b.x; });
    for (const Series::Point &point : each.points) {
      xLow = std::min(xLow, point.x), xHigh = std::max(xHigh, point.x);
      yLow = std::min(yLow, point.y), yHigh = std::max(yHigh, point.y);
    }
  }
  std::erase_if(series, [](const Series &each) { return each.points.empty(); });
  if (series.empty())
    return "";
  const Axis x = lengthAxis(xLow, xHigh),
             y = logarithmic ? logAxis(yLow, yHigh, options.y == ChartOptions::Y::LogBytes) : percentAxis(yHigh);
  std::string svg = drawAxes(options, x, y);
  for (const Series &each : series)
    svg += drawSeries(each, x, y);
  return fmt::format("<figure>\n<figcaption><h3>{}</h3><p>{}</p></figcaption>\n{}<svg class=\"chart\" viewBox=\"0 0 {} "
                     "{}\" role=\"img\" aria-label=\"{}\">\n{}</svg>\n</figure>\n",
                     escapeHtml(options.title), escapeHtml(options.yTitle), legend(series), kWidth, kHeight,
                     escapeHtml(options.title), svg);
}

} // namespace yaglom::tools
