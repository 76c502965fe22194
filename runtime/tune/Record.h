// What tuning found for one bucket, as it is kept: in this process, and in the cache folder.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cache/Entry.h"
#include "runtime/tune/Bucket.h"
#include "yaglom/tune.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace yaglom::runtime {
struct Compiled;
}

namespace yaglom::runtime::tune {

struct Record {
  Schedule chosen;
  bool complete = false;                 ///< nothing was left to measure
  std::vector<TuneCandidate> candidates; ///< none that was not reached

  const TuneCandidate *find(const Schedule &schedule) const;
};

/// Everything that a tuned schedule depends on, as programKey() but for the schedule; and the pass and the bucket.
cache::Key recordKey(const Compiled &compiled, Pass pass, const Bucket &bucket);

/// JSON. Any text may come: the Error says what is wrong with it.
std::string toJson(const Record &record);
Result<Record> parseRecord(std::string_view json);
Result<Record> recordOf(const nlohmann::json &json);

/// From this process's memory, else from the cache folder. What is no record there counts as none.
std::optional<Record> findRecord(const cache::Key &key);
/// Keeps it in both.
void keepRecord(const cache::Key &key, const Record &record);

} // namespace yaglom::runtime::tune
