// The page of `yaglom report`: it is well formed, shows every number, loads nothing, and a browser draws it.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cli/Tool.h"
#include "tests/unit/Catch.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <sstream>
#include <vector>

using namespace yaglom::cli;
using Json = nlohmann::ordered_json;

namespace {

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

int count(const std::string &text, const std::string &part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size()))
    ++found;
  return found;
}

Json benchLine(const std::string &attention, int64_t length, double ms, bool quadratic = false) {
  return {{"attention", attention},
          {"target", "host"},
          {"dtype", "f32"},
          {"batch", 1},
          {"heads", 8},
          {"length", length},
          {"head_dim", 64},
          {"value_dim", 64},
          {"threads", 1},
          {"ms_median", ms},
          {"share_of_peak", 0.625},
          {"extra_bytes", 409600},
          {"quadratic", quadratic},
          {"machine", "A <B> & \"C\""},
          {"date", "2026-01-31T12:00:00Z"}};
}

/// Two attentions at three lengths and a tuning, in two files.
std::vector<std::string> measurements() {
  std::string bench;
  for (const int64_t length : {512, 1024, 2048}) {
    bench += benchLine("performer", length, 0.0125 * static_cast<double>(length)).dump() + "\n\n";
    bench += benchLine("exact", length, 5e-5 * static_cast<double>(length * length), true).dump() + "\n";
  }
  const Json tune = {{"kind", "tune"},
                     {"attention", "performer"},
                     {"target", "host"},
                     {"length", 2048},
                     {"chosen", "chunk=64"},
                     {"candidates",
                      {{{"schedule", "chunk=32"}, {"ms_median", 31.25}, {"spread_ms", 0.5}, {"outcome", "measured"}},
                       {{"schedule", "chunk=64"}, {"ms_median", 24.5}, {"spread_ms", 0.25}, {"outcome", "measured"}},
                       {{"schedule", "chunk=512"}, {"outcome", "a wrong number"}}}}};
  writeFile(temporary("bench.jsonl"), bench);
  writeFile(temporary("tune.jsonl"), tune.dump() + "\n");
  return {temporary("bench.jsonl"), temporary("tune.jsonl")};
}

std::string page() {
  std::vector<std::string> arguments = {"report"};
  for (const std::string &file : measurements())
    arguments.push_back(file);
  const std::string path = temporary("report.html");
  arguments.insert(arguments.end(), {"-o", path});
  const Outcome outcome = tool(arguments);
  CHECK(outcome.err == "");
  REQUIRE(outcome.code == 0);
  return readFile(path);
}

/// What is wrong with the nesting of elements, or nothing. The page closes every element, as XML does.
std::string malformation(const std::string &html) {
  std::vector<std::string> open;
  for (std::size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
    const std::size_t end = html.find('>', at);
    if (end == std::string::npos)
      return "an unclosed tag";
    const std::string tag = html.substr(at + 1, end - at - 1);
    if (tag.starts_with("!DOCTYPE"))
      continue;
    if (tag.find('<') != std::string::npos || count(tag, "\"") % 2)
      return "a bare < or a quote in <" + tag;
    const std::size_t begin = tag[0] == '/' ? 1 : 0;
    const std::string name = tag.substr(begin, tag.find_first_of(" /", begin) - begin);
    if (begin && (open.empty() || open.back() != name))
      return "</" + name + "> closes " + (open.empty() ? "nothing" : "<" + open.back() + ">");
    if (begin)
      open.pop_back();
    else if (!tag.ends_with('/'))
      open.push_back(name);
  }
  return open.empty() ? "" : "<" + open.back() + "> is not closed";
}

std::string browser() {
  for (const char *name : {"chromium", "chromium-browser", "google-chrome"})
    if (isInstalled(name))
      return name;
  return "";
}

struct Screenshot {
  std::uintmax_t bytes;
  std::string log;
};

/// No network: every name fails to resolve.
Screenshot screenshot(const std::string &html, const std::string &size) {
  const std::string path = temporary("page.html"), picture = temporary("page.png");
  writeFile(path, html);
  std::error_code none;
  std::filesystem::remove(picture, none);
  const Outcome outcome = command(browser(), {"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                                              "--hide-scrollbars", "--user-data-dir=" + temporary("chromium"),
                                              "--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr",
                                              "--window-size=" + size, "--screenshot=" + picture, "file://" + path});
  const std::uintmax_t bytes = std::filesystem::file_size(picture, none);
  return {none ? 0 : bytes, outcome.err};
}

} // namespace

TEST_CASE("the test of nesting sees what is malformed") {
  CHECK(malformation("<p><b>x</b><br/></p>") == "");
  CHECK(malformation("<p><b>x</p></b>") == "</p> closes <b>");
  CHECK(malformation("<p>") == "<p> is not closed");
  CHECK(malformation("<p title=\"a\"b\">x</p>") != "");
}

TEST_CASE("a report is well formed and loads nothing") {
  const std::string html = page();
  CHECK(malformation(html) == "");
  for (const char *part : {"http:", "https:", "url(", "@import", "<script", "<img", "<link", "<iframe"})
    CHECK(!contains(html, part));
  CHECK(contains(html, "prefers-color-scheme: dark"));
  CHECK(contains(html, "name=\"viewport\""));
}

TEST_CASE("a report shows the numbers of its input") {
  const std::string html = page();
  CHECK(contains(html, "A &lt;B&gt; &amp; &quot;C&quot;; measured 2026-01-31"));
  for (const char *number : {"<td class=\"number\">6.4</td>", "<td class=\"number\">25.6</td>",
                             "<td class=\"number\">52.4288</td>", "<td class=\"number\">409600</td>"})
    CHECK(contains(html, number));
  CHECK(contains(html, "<title>performer, N = 2048: 25.6 ms</title>"));
  CHECK(contains(html, "<title>exact, N = 2048: 210 ms</title>"));
  CHECK(contains(html, "<title>performer, N = 512: 62.5 %</title>"));
  CHECK(contains(html, "<title>performer, N = 512: 400 KB</title>"));
  CHECK(contains(html, "<strong>8.19 ×</strong>")); // 209.7 ms against 25.6 ms
  CHECK(count(html, "class=\"line dashed\"") == 6); // the quadratic one, in three charts and their legends
  CHECK(contains(html, "<tr class=\"chosen\"><th scope=\"row\">chunk=64 ✓</th>"));
  CHECK(contains(html, "31.2 ms ± 0.500 ms"));
  CHECK(contains(html, "a wrong number"));
  CHECK(html.find("chunk=64 ✓") < html.find(">chunk=32<"));
  CHECK(html.find(">chunk=32<") < html.find(">chunk=512<"));
}

TEST_CASE("points lie where their numbers are on logarithmic axes") {
  const std::string html = page();
  std::vector<double> xs, ys;
  std::size_t at = html.find("<title>performer, N = 512: 6.40 ms");
  for (int i = 0; i < 3; ++i, at = html.find("<title>performer, N = ", at + 1)) {
    const auto number = [&](const char *name) { return std::stod(html.substr(html.find(name, at) + 4)); };
    xs.push_back(number("cx=\""));
    ys.push_back(number("cy=\""));
  }
  CHECK(xs[1] - xs[0] > 50);
  CHECK(xs[2] - xs[1] == Approx(xs[1] - xs[0]).margin(0.2));
  CHECK(ys[0] - ys[1] > 10);
  CHECK(ys[1] - ys[2] == Approx(ys[0] - ys[1]).margin(0.2)); // doubles with the length
}

TEST_CASE("a mistake in the input names its file, its line and what is wrong") {
  const std::string good = benchLine("performer", 512, 1).dump() + "\n";
  const auto error = [&](const std::string &text) {
    writeFile(temporary("bad.jsonl"), text);
    const std::string target = temporary("none.html");
    const Outcome outcome = tool({"report", temporary("bad.jsonl"), "-o", target});
    CHECK(outcome.code == 1);
    CHECK(!std::filesystem::exists(target));
    return outcome.err;
  };
  const std::string place = temporary("bad.jsonl") + ":2: ";
  CHECK(error(good + "{\"attention\": \n") == place + "expected one JSON object a line\n");
  CHECK(error(good + "[1]\n") == place + "expected a JSON object\n");
  CHECK(error(good + "{}\n") == place + "'attention' is missing\n");
  Json line = benchLine("performer", 512, 1);
  line["ms_median"] = "fast";
  CHECK(error(good + line.dump()) == place + "'ms_median': expected a number, found \"fast\"\n");
  line["ms_median"] = -1;
  CHECK(error(good + line.dump()) == place + "'ms_median': expected a number of 0 or more, found -1\n");
  line["ms_median"] = nullptr;
  CHECK(error(good + line.dump()) == place + "'ms_median': expected a time in milliseconds, found null\n");
  CHECK(contains(error("\n"), "nothing to report"));
  CHECK(contains(tool({"report", "none.jsonl", "-o", temporary("none.html")}).err, "cannot read 'none.jsonl': "));
  writeFile(temporary("good.jsonl"), good);
  CHECK(contains(tool({"report", temporary("good.jsonl"), "-o", "/proc/none.html"}).err,
                 "cannot write '/proc/none.html': "));
}

TEST_CASE("bench --lengths prints one line a length, which report takes") {
  const std::vector<std::string> common = {"bench", "specs/good.phi", "--attention", "plain",     "--head-dim",
                                           "8",     "--threads",      "1",           "--seconds", "0.001",
                                           "--json"};
  std::vector<std::string> arguments = common;
  arguments.insert(arguments.end(), {"--lengths", "16,64"});
  const Outcome outcome = tool(arguments);
  REQUIRE(outcome.code == 0);
  std::istringstream lines(outcome.out);
  std::vector<Json> records;
  for (std::string line; std::getline(lines, line);)
    records.push_back(Json::parse(line));
  REQUIRE(records.size() == 2);
  CHECK(records[0]["length"] == 16);
  CHECK(records[1]["length"] == 64);
  CHECK(records[1]["quadratic"] == false);
  CHECK(records[1]["date"].get<std::string>().size() == 20);
  writeFile(temporary("measured.jsonl"), outcome.out);
  CHECK(tool({"report", temporary("measured.jsonl"), "-o", temporary("measured.html")}).code == 0);
  CHECK(contains(readFile(temporary("measured.html")), records[1]["ms_median"].dump()));
  arguments.insert(arguments.end(), {"--length", "16"});
  CHECK(tool(arguments).code == 2);
}

TEST_CASE("bench tells a quadratic attention") {
  const Outcome outcome = tool({"bench", YAGLOM_SOURCE_DIR "/examples/specs/softmax.phi", "--attention", "exact",
                                "--head-dim", "8", "--length", "16", "--threads", "1", "--seconds", "0.001", "--json"});
  REQUIRE(outcome.code == 0);
  CHECK(Json::parse(outcome.out)["quadratic"] == true);
}

TEST_CASE("Chromium draws a report without a word on its console") {
  if (browser().empty()) {
    WARN("chromium is not installed (scripts/setup)");
    return;
  }
  // What an empty page weighs, and that a word on the console is seen.
  const Screenshot blank =
      screenshot("<!DOCTYPE html><title>x</title><script>console.error('a word')</script>", "1280,1600");
  REQUIRE(blank.bytes > 0);
  CHECK(contains(blank.log, "a word"));
  const Screenshot drawn = screenshot(page(), "1280,1600");
  CHECK(!contains(drawn.log, "CONSOLE"));
  CHECK(contains(blank.log, "CONSOLE"));
  CHECK(drawn.bytes > 5 * blank.bytes);
}
