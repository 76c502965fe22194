// The in-memory cache: a future for each key, made by the first thread that asks.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Cache.h"

namespace yaglom::runtime {

Cache::Answer Cache::get(const std::string &key, const std::function<Value()> &compile) {
  std::promise<Value> promise;
  std::unique_lock<std::mutex> lock(mutex);
  const auto [place, isNew] = kernels.try_emplace(key);
  if (!isNew) {
    const std::shared_future<Value> future = place->second;
    lock.unlock();
    return {future.get(), true};
  }
  const std::shared_future<Value> future = promise.get_future().share();
  place->second = future;
  lock.unlock();

  bool failed = true;
  try {
    promise.set_value(compile());
    failed = !future.get();
  } catch (...) {
    // Such as no memory: the waiting threads get it too.
    promise.set_exception(std::current_exception());
  }
  if (failed) {
    lock.lock();
    kernels.erase(key);
  }
  return {future.get(), false};
}

} // namespace yaglom::runtime
