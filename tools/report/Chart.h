// Line charts as SVG: points of several series over the length, with tooltips.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace yaglom::tools {

/// `text` for HTML: in elements and in attributes.
std::string escapeHtml(const std::string &text);

/// Three significant digits with a unit that fits: "1.25 ms", "38.4 s", "636 KB".
std::string timeText(double milliseconds);
std::string bytesText(double bytes);

struct Series {
  struct Point {
    double x, y;
    std::string tooltip;
  };
  std::string name;
  int color = 0;       ///< of the page's palette
  bool dashed = false; ///< what the others are compared with
  std::vector<Point> points;
};

struct ChartOptions {
  std::string title;
  std::string xTitle, yTitle;
  enum class Y { LogTime, LogBytes, Percent } y = Y::LogTime;
};

/// A <figure> with its title, its legend and the chart. The lengths are on a logarithmic axis. Points with y of 0 or less do
/// not fit on a logarithmic one and are left out.
std::string lineChart(const ChartOptions &options, std::vector<Series> series);

/// How many colors and shapes of points there are, before they are used again.
constexpr int kColors = 8;

/// The mark of a series, at a place: each color has a shape of its own too.
std::string mark(int color, double x, double y);

} // namespace yaglom::tools
