// Scratch memory of the calling thread, kept from launch to launch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace yaglom::runtime {

/// At least `bytes` bytes, 64-byte aligned, uninitialised; valid until the calling thread asks again. A thread has one
/// block, which grows to the largest request and is freed when the thread ends: a warm launch allocates nothing.
void *threadScratch(std::size_t bytes);

} // namespace yaglom::runtime
