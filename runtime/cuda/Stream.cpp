// Creates, records and waits for streams and events.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/Stream.h"

#include <utility>

namespace yaglom::cuda {

namespace {

/// Calls `call(api)` with the context current.
template <typename Call>
Result<void> within(const Context &context, std::string_view name, const Call &call) {
  const Result<ContextScope> scope = ContextScope::enter(context);
  if (!scope)
    return scope.error();
  return context.driver()->check(call(context.driver()->api), name);
}

} // namespace

Result<void> synchronize(const Context &context, StreamHandle stream) {
  return within(context, "cuStreamSynchronize",
                [&](const abi::Functions &api) { return api.cuStreamSynchronize(stream); });
}

Result<bool> isCapturing(const Context &context, StreamHandle stream) {
  int capture = abi::kCaptureNone;
  auto done = within(context, "cuStreamIsCapturing", [&](const abi::Functions &api) {
    const abi::Status status = api.cuStreamIsCapturing(stream, &capture);
    if (status != abi::kStreamCaptureImplicit)
      return status;
    capture = abi::kCaptureActive;
    return static_cast<abi::Status>(abi::kSuccess);
  });
  if (!done)
    return done.error();
  return capture != abi::kCaptureNone;
}

Result<Stream> Stream::create(const Context &context) {
  StreamHandle stream = nullptr;
  auto done = within(context, "cuStreamCreate",
                     [&](const abi::Functions &api) { return api.cuStreamCreate(&stream, abi::kStreamNonBlocking); });
  if (!done)
    return done.error();
  return Stream(context, stream);
}

Stream::Stream(Stream &&other) noexcept : owner(std::move(other.owner)), stream(std::exchange(other.stream, nullptr)) {}

Stream::~Stream() {
  if (!stream)
    return;
  if (const Result<ContextScope> scope = ContextScope::enter(owner))
    owner.driver()->api.cuStreamDestroy(stream);
}

Result<Event> Event::create(const Context &context) {
  abi::Event event = nullptr;
  auto done = within(context, "cuEventCreate", [&](const abi::Functions &api) { return api.cuEventCreate(&event, 0); });
  if (!done)
    return done.error();
  return Event(context, event);
}

Event::Event(Event &&other) noexcept : owner(std::move(other.owner)), event(std::exchange(other.event, nullptr)) {}

Event::~Event() {
  if (!event)
    return;
  if (const Result<ContextScope> scope = ContextScope::enter(owner))
    owner.driver()->api.cuEventDestroy(event);
}

Result<void> Event::record(StreamHandle stream) const {
  return within(owner, "cuEventRecord", [&](const abi::Functions &api) { return api.cuEventRecord(event, stream); });
}

Result<void> Event::synchronize() const {
  return within(owner, "cuEventSynchronize", [&](const abi::Functions &api) { return api.cuEventSynchronize(event); });
}

Result<double> elapsedMilliseconds(const Event &start, const Event &end) {
  if (auto done = end.synchronize(); !done)
    return done.error();
  float milliseconds = 0;
  auto done = within(start.owner, "cuEventElapsedTime", [&](const abi::Functions &api) {
    return api.cuEventElapsedTime(&milliseconds, start.event, end.event);
  });
  if (!done)
    return done.error();
  return static_cast<double>(milliseconds);
}

} // namespace yaglom::cuda
