// The public Residual.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Residual.h"

#include <fmt/format.h>

namespace yaglom {

Residual::Residual(int64_t interval) {
  if (interval < 1)
    throw Error(fmt::format("a residual keeps a state every 1 or more chunks, found {}", interval));
  impl = std::make_unique<Impl>(interval);
}

Residual::Residual(Residual &&) noexcept = default;
Residual &Residual::operator=(Residual &&) noexcept = default;
Residual::~Residual() = default;

int64_t Residual::bytes() const { return static_cast<int64_t>(impl->bytes); }

void Residual::Impl::prepare(const runtime::Compiled &compiled, const runtime::Sizes &launch, void *stream,
                             int64_t ofProgram) {
  kernel.reset(); // until the launch has ended well
  sizes = launch;
  keeps = compiled.isReference() ? compiler::Keeps::Nothing : compiled.program->keeps;
  chunk = states = segmentRows = itemBytes = 0;
  if (keeps != compiler::Keeps::Nothing) {
    const compiler::Program &program = *compiled.program;
    chunk = ofProgram ? ofProgram : compiled.choose(Pass::Forward, sizes).forward->chunk;
    // More chunks than there are rows is one segment, whatever the caller's number.
    const int64_t chunks = (sizes.queryLength + chunk - 1) / chunk;
    segmentRows = chunk * std::min(interval, std::max<int64_t>(chunks, 1));
    states = keeps == compiler::Keeps::Last ? 1 : (sizes.queryLength + segmentRows - 1) / segmentRows;
    const int64_t bytes = states * program.stateElements * static_cast<int64_t>(sizeOf(compiled.parameterType()));
    itemBytes = (bytes + 7) / 8 * 8;
  }
  bytes = static_cast<std::size_t>(sizes.batch * sizes.heads * itemBytes);
  if (bytes > memory.bytes || device != compiled.device) {
    memory = {}; // freed first, so that old and new never add up
    device = compiled.device;
    memory = runtime::allocate(device, bytes, stream, "a residual");
  }
}

void Residual::Impl::check(const runtime::Compiled &compiled, const runtime::Sizes &launch) const {
  if (kernel.expired())
    throw Error("argument 'residual': no forward launch has filled it");
  if (kernel.lock().get() != &compiled)
    throw Error("argument 'residual': it was filled by another kernel");
  const auto text = [](const runtime::Sizes &s) {
    return fmt::format("B {}, H {}, N {}, M {}", s.batch, s.heads, s.queryLength, s.keyLength);
  };
  if (text(sizes) != text(launch))
    throw Error(
        fmt::format("argument 'residual': expected one of a launch with {}, found {}", text(launch), text(sizes)));
}

} // namespace yaglom
