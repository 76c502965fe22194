// Bars of the candidates, from what was measured to what was not.
// SPDX-License-Identifier: Apache-2.0
#include "tools/report/Chart.h"
#include "tools/report/Page.h"

#include <fmt/format.h>

#include <algorithm>

namespace yaglom::tools {
namespace {

std::string row(const TuneCandidate &candidate, bool chosen, double slowest) {
  std::string cells;
  if (candidate.ms) {
    const std::string spread = candidate.spread ? " ± " + timeText(*candidate.spread) : std::string();
    const std::string value = timeText(*candidate.ms) + spread;
    cells = fmt::format("<td class=\"bars\"><svg class=\"bar\" viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" "
                        "aria-hidden=\"true\">"
                        "<title>{0}: {1}</title><rect x=\"0\" y=\"0\" width=\"{2:.2f}\" height=\"10\" "
                        "rx=\"1\"/></svg></td><td class=\"value\">{1}</td>",
                        escapeHtml(candidate.schedule), value, 100 * *candidate.ms / slowest);
  } else {
    cells = fmt::format("<td class=\"rejected\" colspan=\"2\">{}</td>", escapeHtml(candidate.outcome));
  }
  return fmt::format("<tr{}><th scope=\"row\">{}{}</th>{}</tr>\n", chosen ? " class=\"chosen\"" : "",
                     escapeHtml(candidate.schedule), chosen ? " ✓" : "", cells);
}

} // namespace

std::string tuningChart(const TuneRecord &record) {
  std::vector<TuneCandidate> sorted = record.candidates;
  std::stable_sort(sorted.begin(), sorted.end(), [](const TuneCandidate &a, const TuneCandidate &b) {
    return a.ms && (!b.ms || *a.ms < *b.ms); // what was not measured comes last
  });
  double slowest = 0;
  for (const TuneCandidate &candidate : sorted)
    slowest = std::max(slowest, candidate.ms.value_or(0));
  std::string rows;
  for (const TuneCandidate &candidate : sorted)
    rows += row(candidate, candidate.schedule == record.chosen, slowest);
  return fmt::format(
      "<figure class=\"wide\">\n<figcaption><h3>{}{}{}, N = {}</h3><p>{}; median time of each schedule, "
      "{} candidates</p></figcaption>\n<div class=\"scroll\"><table class=\"tuning\">\n{}</table></div>\n"
      "</figure>\n",
      escapeHtml(record.attention), record.pass.empty() ? "" : ", ", escapeHtml(record.pass), record.length,
      escapeHtml(record.target), sorted.size(), rows);
}

} // namespace yaglom::tools
