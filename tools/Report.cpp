// yaglom report: what bench and tune printed, as one page.
// SPDX-License-Identifier: Apache-2.0
#include "tools/Options.h"
#include "tools/report/Page.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

namespace yaglom::tools {
namespace {

struct ReportOptions {
  std::vector<std::string> files;
  std::string output;
  std::string title = "Kernel attention, measured";
};

std::string readWhole(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file)
    throw Error(fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
  return text;
}

int report(const ReportOptions &options) {
  Records records;
  for (const std::string &file : options.files)
    readRecords(file, readWhole(file), records);
  if (records.benches.empty() && records.tunes.empty())
    throw Error("nothing to report: the files hold no line of bench --json or tune --json");
  std::ofstream file(options.output, std::ios::binary);
  file << reportPage(records, options.title);
  file.close();
  if (!file)
    throw Error(fmt::format("cannot write '{}': {}", options.output, std::strerror(errno)));
  return kSuccess;
}

} // namespace

void addReport(CLI::App &app, Action &action) {
  CLI::App *command = app.add_subcommand("report", "Draws what bench --json and tune --json printed: one HTML page");
  auto options = std::make_shared<ReportOptions>();
  command->add_option("FILE", options->files, "Files of one JSON object a line")->required()->type_name("");
  command->add_option("-o,--output", options->output, "Where the page goes")->required()->type_name("FILE");
  command->add_option("--title", options->title, "The title of the page")->type_name("TEXT");
  command->callback([options, &action] { action = [options] { return report(*options); }; });
}

} // namespace yaglom::tools
