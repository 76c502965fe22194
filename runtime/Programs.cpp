// Disk first, compiler second. A folder that cannot be used costs a warning and nothing else.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Programs.h"

#include "compiler/Artifact.h"
#include "runtime/cache/Identity.h"
#include "runtime/cache/Settings.h"
#include "support/Debugging.h"
#include "yaglom/spec.h"

#include <fmt/format.h>

namespace yaglom::runtime {
namespace {

/// A process that has waited this long for another's compilation makes its own.
constexpr double kLockSeconds = 60;

std::optional<std::string> findIn(const cache::Store &store, const cache::Key &key) {
  Result<std::optional<std::string>> found = store.find(key);
  if (found)
    return std::move(*found);
  cache::warn(fmt::format("a file of the cache is not used: {}", found.error().what()));
  return std::nullopt;
}

void keep(const cache::Store &store, const cache::Key &key, std::string_view bytes) {
  if (const Result<void> stored = store.put(key, bytes, cache::maximumBytes()); !stored)
    cache::warn(fmt::format("compiled code is not kept on disk: {}", stored.error().what()));
}

/// The value that `read` makes of what is kept, or else that of `make`, which also gives the bytes to keep.
template <typename Value>
Result<Value> through(const cache::Key &key, const std::function<std::optional<Value>(std::string_view)> &read,
                      const std::function<Result<Value>(std::string &bytes)> &make) {
  const std::optional<cache::Store> store = cache::openStore();
  std::string bytes;
  if (!store)
    return make(bytes);
  const auto look = [&]() -> std::optional<Value> {
    const std::optional<std::string> kept = findIn(*store, key);
    return kept ? read(*kept) : std::nullopt;
  };
  if (std::optional<Value> value = look())
    return std::move(*value);
  const cache::Lock lock = store->lock(key, kLockSeconds);
  if (std::optional<Value> value = look()) // made while we waited
    return std::move(*value);
  Result<Value> value = make(bytes);
  if (value)
    keep(*store, key, bytes);
  return value;
}

} // namespace

cache::Key programKey(std::string_view kind, const Spec &spec, const Instance &instance,
                      const CompileOptions &options) {
  std::string what =
      fmt::format("{}, {} {}", instance.attention->id.name, options.target.name(), toText(options.dtype));
  for (const auto &[name, value] : instance.dims)
    what += fmt::format(", {}={}", name, value);
  const char *const lines = Profile::ofEnvironment().needsLines() ? "\nlines: table" : "";
  // One line each, and the spec last, whose lines are its own.
  return {kind, what,
          fmt::format("build: {}\nmachine: {}\nchunk: {}{}\n{}", cache::buildIdentity(),
                      compiler::machineIdentity(options.target.name()), options.chunk, lines, spec.print())};
}

template <typename P>
Result<std::shared_ptr<const P>> obtain(const cache::Key &key, const std::function<Result<P>()> &build) {
  using Value = std::shared_ptr<const P>;
  if (dumpFolder()) { // what comes from disk goes through no stage
    Result<P> program = build();
    return program ? compiler::load(std::move(*program)) : program.error();
  }
  return through<Value>(
      key,
      [](std::string_view bytes) -> std::optional<Value> {
        Result<P> program = compiler::fromArtifact<P>(bytes);
        if (!program)
          return std::nullopt;
        Result<Value> loaded = compiler::load(std::move(*program));
        return loaded ? std::optional<Value>(*loaded) : std::nullopt;
      },
      [&](std::string &bytes) -> Result<Value> {
        Result<P> program = build();
        if (!program)
          return program.error();
        bytes = compiler::toArtifact(*program);
        return compiler::load(std::move(*program));
      });
}

template Result<std::shared_ptr<const compiler::Program>> obtain(const cache::Key &,
                                                                 const std::function<Result<compiler::Program>()> &);
template Result<std::shared_ptr<const compiler::BackwardProgram>>
obtain(const cache::Key &, const std::function<Result<compiler::BackwardProgram>()> &);
template Result<std::shared_ptr<const compiler::LossProgram>>
obtain(const cache::Key &, const std::function<Result<compiler::LossProgram>()> &);

Result<std::string> obtainBytes(const cache::Key &key, const std::function<Result<std::string>()> &make) {
  return through<std::string>(
      key, [](std::string_view bytes) { return std::optional<std::string>(bytes); },
      [&](std::string &bytes) {
        Result<std::string> made = make();
        if (made)
          bytes = *made;
        return made;
      });
}

} // namespace yaglom::runtime
