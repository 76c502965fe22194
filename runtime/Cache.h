// Kernels of this process by what they were compiled from: asking twice, from any thread, compiles once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/Compiled.h"

#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <string>

namespace yaglom::runtime {

class Cache {
public:
  using Value = Result<std::shared_ptr<const Compiled>>;

  struct Answer {
    Value value;
    bool wasPresent; ///< compiled before, or by another thread that asked at the same time
  };

  /// The kernel of `key`, made by `compile` when there is none. Threads that ask for it meanwhile wait; other keys
  /// compile at the same time. An Error reaches everyone who waits for it and is not kept.
  Answer get(const std::string &key, const std::function<Value()> &compile);

private:
  std::mutex mutex;
  std::map<std::string, std::shared_future<Value>> kernels;
};

} // namespace yaglom::runtime
