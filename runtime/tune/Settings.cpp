// setTuning() and YAGLOM_TUNE.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/tune/Settings.h"

#include "runtime/cache/Settings.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <mutex>

namespace yaglom {
namespace runtime::tune {
namespace {

struct State {
  std::mutex mutex;
  TuneSettings settings;
  std::atomic<uint64_t> generation = 1;
};

/// Never destroyed: kernels may be launched while the process exits.
State &state() {
  static State *const instance = new State;
  return *instance;
}

TuneMode ofEnvironment() {
  const char *const value = std::getenv("YAGLOM_TUNE"); // NOLINT(concurrency-mt-unsafe): we set none
  const std::string_view text = value ? value : "load";
  if (text == "off")
    return TuneMode::Off;
  if (text == "on")
    return TuneMode::On;
  if (text != "load")
    warn(fmt::format("YAGLOM_TUNE: expected off, load or on, found '{}'; it counts as load", text));
  return TuneMode::Load;
}

} // namespace

TuneMode currentMode() {
  const std::lock_guard lock(state().mutex);
  return state().settings.mode ? *state().settings.mode : ofEnvironment();
}

double launchBudget() {
  const std::lock_guard lock(state().mutex);
  return state().settings.budgetSeconds;
}

uint64_t generation() { return state().generation.load(std::memory_order_acquire); }
void nextGeneration() { state().generation.fetch_add(1, std::memory_order_acq_rel); }

} // namespace runtime::tune

void setTuning(TuneSettings settings) {
  const std::lock_guard lock(runtime::tune::state().mutex);
  runtime::tune::state().settings = settings;
  runtime::tune::nextGeneration();
}

} // namespace yaglom
