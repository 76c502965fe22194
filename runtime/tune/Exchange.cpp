// Tuned schedules as one file: {"yaglom schedules": 1, "entries": [{"key": "...", "record": {...}}]}.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Program.h"
#include "runtime/cache/Identity.h"
#include "runtime/cache/Settings.h"
#include "runtime/tune/Record.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <iterator>

namespace yaglom {
namespace {

using Json = nlohmann::json;
using namespace runtime;

constexpr const char *kFormat = "yaglom schedules";
constexpr int kVersion = 1;
constexpr std::string_view kKind = "schedule";

Result<cache::Store> folder() {
  std::optional<cache::Store> store = cache::openStore();
  if (store)
    return std::move(*store);
  return Error("tuned schedules are kept in the cache folder, and there is none that can be used");
}

/// The rest of the first line of `key` that begins so.
std::string_view lineOf(std::string_view key, std::string_view prefix) {
  const std::size_t at = key.find(prefix);
  if (at == std::string_view::npos)
    return {};
  const std::string_view rest = key.substr(at + prefix.size());
  return rest.substr(0, rest.find('\n'));
}

/// Whether a kernel that is compiled here can have that key.
bool isOfThisMachine(std::string_view key) {
  const std::string_view machine = lineOf(key, "\nmachine: ");
  return lineOf(key, "\nbuild: ") == cache::buildIdentity() &&
         (machine == compiler::machineIdentity("host") || compiler::gpuArchitecture(std::string(machine)));
}

/// An entry of the file: its key, and the record in it. Throws Error.
std::pair<std::string, tune::Record> readEntry(const Json &entry) {
  const auto key = entry.is_object() ? entry.find("key") : entry.end();
  if (!entry.is_object() || key == entry.end() || !key->is_string() || !entry.contains("record"))
    throw Error("expected an object with 'key' and 'record'");
  std::string text = key->get<std::string>();
  if (!text.starts_with(fmt::format("kind: {}\n", kKind)))
    throw Error("its key is of another kind");
  return {std::move(text), tune::recordOf(entry["record"]).value()};
}

Result<std::vector<std::pair<std::string, tune::Record>>> readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return Error(fmt::format("{}: cannot be read", path));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object() || !json.contains(kFormat) || !json.contains("entries"))
    return Error(fmt::format("{}: expected tuned schedules, as 'yaglom cache export-schedules' writes them", path));
  if (json[kFormat] != kVersion)
    return Error(fmt::format("{}: expected version {} of the format", path, kVersion));
  if (!json["entries"].is_array())
    return Error(fmt::format("{}: 'entries' is no list", path));
  std::vector<std::pair<std::string, tune::Record>> entries;
  for (const Json &entry : json["entries"]) {
    try {
      entries.push_back(readEntry(entry));
    } catch (const Error &error) {
      return Error(fmt::format("{}: entry {}: {}", path, entries.size() + 1, error.what()));
    }
  }
  return entries;
}

} // namespace

Result<int64_t> exportSchedules(const std::string &path) {
  const Result<cache::Store> store = folder();
  if (!store)
    return store.error();
  std::vector<std::pair<cache::Key, std::string>> kept = store->entriesOf(kKind);
  std::sort(kept.begin(), kept.end(), [](const auto &a, const auto &b) { return a.first.text < b.first.text; });
  Json entries = Json::array();
  for (const auto &[key, payload] : kept) {
    Json record = Json::parse(payload, nullptr, /*allow_exceptions=*/false);
    if (tune::recordOf(record))
      entries.push_back({{"key", key.text}, {"record", std::move(record)}});
  }
  const Json all{{kFormat, kVersion}, {"entries", entries}};
  std::ofstream file(path, std::ios::binary);
  file << all.dump(1, ' ', false, Json::error_handler_t::replace) << "\n";
  file.close();
  if (!file)
    return Error(fmt::format("{}: cannot be written", path));
  return static_cast<int64_t>(entries.size());
}

Result<ImportedSchedules> importSchedules(const std::string &path) {
  const auto entries = readFile(path);
  if (!entries)
    return entries.error();
  if (const Result<cache::Store> store = folder(); !store)
    return store.error();
  ImportedSchedules imported;
  for (const auto &[key, record] : *entries) {
    if (!isOfThisMachine(key)) {
      ++imported.foreign;
      continue;
    }
    tune::keepRecord(cache::Key(key), record);
    ++imported.used;
  }
  return imported;
}

} // namespace yaglom
