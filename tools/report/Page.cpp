// From records to series, charts and tables.
// SPDX-License-Identifier: Apache-2.0
#include "tools/report/Page.h"

#include "tools/report/Chart.h"
#include "tools/report/Style.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>

namespace yaglom::tools {
namespace {

/// What two lines of one curve have in common, in the order that names show it.
std::vector<std::string> settingsOf(const BenchRecord &record) {
  std::vector<std::string> settings = {record.attention,
                                       record.target,
                                       record.dtype,
                                       fmt::format("B {} H {}", record.batch, record.heads),
                                       fmt::format("d {} e {}", record.headDim, record.valueDim),
                                       record.dims,
                                       record.threads ? fmt::format("{} threads", record.threads) : "",
                                       record.residual ? fmt::format("residual {}", record.residual) : "",
                                       record.machine};
  return settings;
}

/// Lines of one attention in one setting, whatever the length.
struct Curve {
  std::vector<std::string> settings;
  std::string name; ///< the attention, and what tells it from the other curves
  bool quadratic = false;
  std::vector<const BenchRecord *> records; ///< by length
};

/// In the order of the input, the quadratic ones last.
std::vector<Curve> curvesOf(const std::vector<BenchRecord> &benches) {
  std::vector<Curve> curves;
  for (const BenchRecord &record : benches) {
    const std::vector<std::string> settings = settingsOf(record);
    auto found =
        std::find_if(curves.begin(), curves.end(), [&](const Curve &curve) { return curve.settings == settings; });
    if (found == curves.end())
      found = curves.insert(curves.end(), Curve{settings, "", record.quadratic, {}});
    found->records.push_back(&record);
  }
  for (Curve &curve : curves) {
    curve.name = curve.settings.front();
    for (std::size_t i = 1; i < curve.settings.size(); ++i)
      if (!curve.settings[i].empty() &&
          std::any_of(curves.begin(), curves.end(), [&](const Curve &c) { return c.settings[i] != curve.settings[i]; }))
        curve.name += ", " + curve.settings[i];
    std::stable_sort(curve.records.begin(), curve.records.end(),
                     [](const BenchRecord *a, const BenchRecord *b) { return a->length < b->length; });
  }
  std::stable_partition(curves.begin(), curves.end(), [](const Curve &curve) { return !curve.quadratic; });
  return curves;
}

using Value = std::function<std::optional<double>(const BenchRecord &)>;

std::string chart(const std::vector<Curve> &curves, const ChartOptions &options, const Value &valueOf,
                  const std::function<std::string(double)> &text) {
  std::vector<Series> all;
  for (std::size_t i = 0; i < curves.size(); ++i) {
    // The quadratic ones, which come last, are gray.
    const int color = curves[i].quadratic ? kColors - 1 : static_cast<int>(i) % (kColors - 1);
    Series series{curves[i].name, color, curves[i].quadratic, {}};
    for (const BenchRecord *record : curves[i].records)
      if (const std::optional<double> value = valueOf(*record))
        series.points.push_back({static_cast<double>(record->length), *value,
                                 fmt::format("{}, N = {}: {}", curves[i].name, record->length, text(*value))});
    all.push_back(std::move(series));
  }
  return lineChart(options, std::move(all));
}

std::string percentText(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string charts(const std::vector<Curve> &curves) {
  constexpr const char *kX = "tokens N";
  using Y = ChartOptions::Y;
  std::string html;
  html += chart(
      curves, {"Forward", kX, "median time of a launch; both axes are logarithmic", Y::LogTime},
      [](const BenchRecord &record) { return std::optional<double>(record.ms); }, timeText);
  html += chart(
      curves, {"Forward and backward", kX, "median time of a training step; both axes are logarithmic", Y::LogTime},
      [](const BenchRecord &record) { return record.bothMs; }, timeText);
  html += chart(
      curves, {"Share of peak", kX, "necessary multiply-adds, as a share of what the same threads can do", Y::Percent},
      [](const BenchRecord &record) { return record.shareOfPeak; }, percentText);
  html += chart(
      curves, {"Memory", kX, "beside inputs and output; both axes are logarithmic", Y::LogBytes},
      [](const BenchRecord &record) { return record.extraBytes; }, bytesText);
  return html.empty()
             ? ""
             : "<section>\n<h2>Against the length</h2>\n<div class=\"charts\">\n" + html + "</div>\n</section>\n";
}

/// How many times as fast as a quadratic attention of the same sizes, at the largest length that both have.
std::string tiles(const std::vector<Curve> &curves) {
  std::string items;
  for (const Curve &curve : curves) {
    for (const Curve &quadratic : curves) {
      auto sizes = [](const Curve &c) { return std::vector(c.settings.begin() + 1, c.settings.begin() + 5); };
      const bool comparable = !curve.quadratic && quadratic.quadratic && sizes(curve) == sizes(quadratic) &&
                              curve.settings[6] == quadratic.settings[6] && curve.settings[8] == quadratic.settings[8];
      if (!comparable)
        continue;
      const BenchRecord *ours = nullptr, *theirs = nullptr;
      for (const BenchRecord *a : curve.records)
        for (const BenchRecord *b : quadratic.records)
          if (a->length == b->length)
            ours = a, theirs = b;
      if (ours)
        items += fmt::format("<li><strong>{:.3g} ×</strong><span>as fast as {}: {}, forward, N = {}: {} "
                             "against {}</span></li>\n",
                             theirs->ms / ours->ms, escapeHtml(quadratic.name), escapeHtml(curve.name), ours->length,
                             timeText(ours->ms), timeText(theirs->ms));
    }
  }
  return items.empty() ? "" : "<ul class=\"tiles\">\n" + items + "</ul>\n";
}

std::string cellText(const nlohmann::ordered_json &value) {
  if (value.is_string())
    return value.get<std::string>();
  if (value.is_null())
    return "";
  return value.dump();
}

/// Every member of every line, in the order of their first appearance.
std::string benchTable(const std::vector<BenchRecord> &benches) {
  std::vector<std::string> columns;
  std::set<std::string> known;
  for (const BenchRecord &record : benches)
    for (const auto &[name, value] : record.all.items())
      if (known.insert(name).second)
        columns.push_back(name);
  std::string head, body;
  for (const std::string &column : columns)
    head += fmt::format("<th scope=\"col\">{}</th>", escapeHtml(column));
  for (const BenchRecord &record : benches) {
    body += "<tr>";
    for (const std::string &column : columns) {
      const auto found = record.all.find(column);
      const bool present = found != record.all.end();
      body += fmt::format("<td{}>{}</td>", present && found->is_number() ? " class=\"number\"" : "",
                          present ? escapeHtml(cellText(*found)) : "");
    }
    body += "</tr>\n";
  }
  return fmt::format("<section>\n<h2>All numbers</h2>\n<div class=\"card scroll\"><table>\n<thead><tr>{}</tr></thead>\n"
                     "<tbody>\n{}</tbody></table></div>\n</section>\n",
                     head, body);
}

std::string joined(const std::set<std::string> &texts) {
  std::string result;
  for (const std::string &text : texts)
    if (!text.empty())
      result += (result.empty() ? "" : "; ") + escapeHtml(text);
  return result;
}

/// "AMD EPYC; measured 2026-01-02 to 2026-01-03"
std::string provenance(const Records &records) {
  std::set<std::string> machines, days;
  const auto add = [&](const auto &all) {
    for (const auto &record : all) {
      machines.insert(record.machine);
      days.insert(record.date.substr(0, record.date.find('T')));
    }
  };
  add(records.benches);
  add(records.tunes);
  std::string text = joined(machines);
  days.erase("");
  if (!days.empty())
    text += (text.empty() ? "measured " : "; measured ") + escapeHtml(*days.begin()) +
            (days.size() > 1 ? " to " + escapeHtml(*days.rbegin()) : "");
  return text;
}

} // namespace

std::string reportPage(const Records &records, const std::string &title) {
  const std::vector<Curve> curves = curvesOf(records.benches);
  std::string body = tiles(curves) + charts(curves);
  if (!records.tunes.empty()) {
    body += "<section>\n<h2>Tuning</h2>\n";
    for (const TuneRecord &record : records.tunes)
      body += tuningChart(record);
    body += "</section>\n";
  }
  if (!records.benches.empty())
    body += benchTable(records.benches);
  return fmt::format("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
                     "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>{0}</title>\n"
                     "<style>{1}</style>\n</head>\n<body>\n<main>\n<header><h1>{0}</h1>\n<p>{2}</p></header>\n{3}"
                     "<footer>Written by yaglom report from {4} measurements. Point at a mark for its "
                     "number.</footer>\n</main>\n</body>\n</html>\n",
                     escapeHtml(title), kStyle, provenance(records), body,
                     records.benches.size() + records.tunes.size());
}

} // namespace yaglom::tools
