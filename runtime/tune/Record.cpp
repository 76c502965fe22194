// Records as JSON, by key.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/tune/Record.h"

#include "runtime/Compiled.h"
#include "runtime/Programs.h"
#include "runtime/cache/Settings.h"
#include "runtime/tune/Settings.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <mutex>

namespace yaglom {

const char *toText(TuneOutcome outcome) {
  static constexpr const char *kNames[] = {"measured", "failed", "wrong", "hung", "not reached"};
  return kNames[static_cast<std::size_t>(outcome)];
}

namespace runtime::tune {
namespace {

using Json = nlohmann::json;

/// Of a process without a cache folder, or with one that it cannot write to.
struct Memory {
  std::mutex mutex;
  std::map<std::string, std::string> records; ///< JSON by the key's text
};

/// Never destroyed: kernels may be launched while the process exits.
Memory &memory() {
  static Memory *const instance = new Memory;
  return *instance;
}

Json toJson(const TuneCandidate &candidate) {
  Json json{{"schedule", candidate.schedule.toText()}, {"outcome", toText(candidate.outcome)}};
  if (candidate.outcome == TuneOutcome::Measured)
    json.update({{"median_ms", candidate.medianMs},
                 {"spread_ms", candidate.spreadMs},
                 {"ratio", candidate.ratio},
                 {"ratio_spread", candidate.ratioSpread},
                 {"samples", candidate.samples}});
  else
    json["message"] = candidate.message;
  return json;
}

const Json &memberOf(const Json &object, const char *name, Json::value_t type) {
  if (!object.is_object())
    throw Error("a tuned schedule: expected an object");
  const auto found = object.find(name);
  const bool ok =
      found != object.end() && (type == Json::value_t::number_float ? found->is_number() : found->type() == type);
  if (!ok)
    throw Error(fmt::format("a tuned schedule: member '{}' is missing or of another kind", name));
  return *found;
}

std::string textOf(const Json &object, const char *name) {
  return memberOf(object, name, Json::value_t::string).get<std::string>();
}

double numberOf(const Json &object, const char *name) {
  return memberOf(object, name, Json::value_t::number_float).get<double>();
}

TuneCandidate candidateOf(const Json &json) {
  TuneCandidate candidate{.schedule = Schedule::parse(textOf(json, "schedule")).value(), .isNew = false};
  const std::string outcome = textOf(json, "outcome");
  for (const TuneOutcome known : {TuneOutcome::Measured, TuneOutcome::Failed, TuneOutcome::Wrong, TuneOutcome::Hung})
    if (outcome == toText(known))
      candidate.outcome = known;
  if (candidate.outcome == TuneOutcome::NotReached)
    throw Error(fmt::format("a tuned schedule: there is no outcome '{}'", outcome));
  if (candidate.outcome != TuneOutcome::Measured) {
    candidate.message = textOf(json, "message");
    return candidate;
  }
  candidate.medianMs = numberOf(json, "median_ms");
  candidate.spreadMs = numberOf(json, "spread_ms");
  candidate.ratio = numberOf(json, "ratio");
  candidate.ratioSpread = numberOf(json, "ratio_spread");
  candidate.samples = static_cast<int64_t>(std::clamp(numberOf(json, "samples"), 0.0, 1e9));
  return candidate;
}

/// Of the folder; damaged ones count as none.
std::optional<std::string> findOnDisk(const cache::Key &key) {
  const std::optional<cache::Store> store = cache::openStore();
  if (!store)
    return std::nullopt;
  Result<std::optional<std::string>> found = store->find(key);
  if (found)
    return *found;
  warn(fmt::format("a file of the cache is not used: {}", found.error().what()));
  return std::nullopt;
}

} // namespace

const TuneCandidate *Record::find(const Schedule &schedule) const {
  const auto found = std::find_if(candidates.begin(), candidates.end(),
                                  [&](const TuneCandidate &candidate) { return candidate.schedule == schedule; });
  return found == candidates.end() ? nullptr : &*found;
}

cache::Key recordKey(const Compiled &compiled, Pass pass, const Bucket &bucket) {
  const char *const passes[] = {"forward", "backward", "backward from residual"};
  return programKey("schedule", compiled.spec, compiled.instance, compiled.options,
                    fmt::format("{}, {}", passes[static_cast<std::size_t>(pass)], bucket.text()));
}

std::string toJson(const Record &record) {
  Json json{{"chosen", record.chosen.toText()}, {"complete", record.complete}, {"candidates", Json::array()}};
  for (const TuneCandidate &candidate : record.candidates)
    json["candidates"].push_back(toJson(candidate));
  return json.dump(1, ' ', false, Json::error_handler_t::replace);
}

Result<Record> parseRecord(std::string_view text) {
  return recordOf(Json::parse(text, nullptr, /*allow_exceptions=*/false));
}

Result<Record> recordOf(const Json &json) {
  try {
    Record record;
    record.chosen = Schedule::parse(textOf(json, "chosen")).value();
    record.complete = memberOf(json, "complete", Json::value_t::boolean).get<bool>();
    for (const Json &candidate : memberOf(json, "candidates", Json::value_t::array))
      record.candidates.push_back(candidateOf(candidate));
    return record;
  } catch (const Error &error) {
    return error;
  }
}

std::optional<Record> findRecord(const cache::Key &key) {
  std::optional<std::string> json = findOnDisk(key);
  if (!json) {
    const std::lock_guard lock(memory().mutex);
    if (const auto found = memory().records.find(key.text); found != memory().records.end())
      json = found->second;
  }
  if (!json)
    return std::nullopt;
  Result<Record> record = parseRecord(*json);
  return record ? std::optional<Record>(std::move(*record)) : std::nullopt;
}

void keepRecord(const cache::Key &key, const Record &record) {
  const std::string json = toJson(record);
  const std::optional<cache::Store> store = cache::openStore();
  const Result<void> stored = store ? store->put(key, json, cache::maximumBytes()) : Result<void>();
  if (!stored)
    warn(fmt::format("a tuned schedule is not kept on disk: {}", stored.error().what()));
  if (!store || !stored) {
    const std::lock_guard lock(memory().mutex);
    memory().records[key.text] = json;
  }
  nextGeneration();
}

} // namespace runtime::tune
} // namespace yaglom
