// Streams and events: order, waiting, time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cuda/Memory.h"

namespace yaglom::cuda {

/// Waits until all work of a stream, the caller's or ours, is done. Errors: one of its kernels crashed; it is being
/// captured.
Result<void> synchronize(const Context &context, StreamHandle stream);

/// True while work on `stream` is recorded into a graph in place of being done, also when that capture is broken; for
/// the legacy default stream (null), while any stream's capture keeps it from being used.
Result<bool> isCapturing(const Context &context, StreamHandle stream);

/// A stream of our own, which does not wait for the legacy default stream. Destroyed at the end, when its work may
/// still run.
class Stream {
public:
  static Result<Stream> create(const Context &context);

  Stream(Stream &&other) noexcept;
  Stream &operator=(Stream &&) = delete;
  ~Stream();

  StreamHandle handle() const { return stream; }
  Result<void> synchronize() const { return cuda::synchronize(owner, stream); }

private:
  Stream(Context owner, StreamHandle stream) : owner(std::move(owner)), stream(stream) {}
  Context owner;
  StreamHandle stream;
};

/// A point in a stream, and the time when the GPU came past it.
class Event {
public:
  static Result<Event> create(const Context &context);

  Event(Event &&other) noexcept;
  Event &operator=(Event &&) = delete;
  ~Event();

  /// Puts the event at the end of what `stream` has to do now.
  Result<void> record(StreamHandle stream) const;

  /// Waits until the GPU has come past the event.
  Result<void> synchronize() const;

private:
  friend Result<double> elapsedMilliseconds(const Event &start, const Event &end);
  Event(Context owner, abi::Event event) : owner(std::move(owner)), event(event) {}
  Context owner;
  abi::Event event;
};

/// The time between two events, which both are recorded, to about half a microsecond. Waits for `end`.
Result<double> elapsedMilliseconds(const Event &start, const Event &end);

} // namespace yaglom::cuda
