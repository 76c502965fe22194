// The one handler of this process, and what it was told.
// SPDX-License-Identifier: Apache-2.0
#include "support/Warning.h"

#include "yaglom/cache.h"

#include <functional>
#include <mutex>
#include <set>

namespace yaglom {
namespace {

struct State {
  std::mutex mutex;
  std::function<void(const std::string &)> handler;
  std::set<std::string> told;
};

/// Never destroyed: threads may compile while the process exits.
State &state() {
  static State *const instance = new State;
  return *instance;
}

} // namespace

void warn(const std::string &text) {
  std::function<void(const std::string &)> handler;
  {
    const std::lock_guard lock(state().mutex);
    if (!state().handler || !state().told.insert(text).second)
      return;
    handler = state().handler;
  }
  handler(text);
}

void onWarning(std::function<void(const std::string &)> handler) {
  const std::lock_guard lock(state().mutex);
  state().handler = std::move(handler);
  state().told.clear();
}

} // namespace yaglom
