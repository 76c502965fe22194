// Scratch memory of the calling thread: one block a thread that only grows.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Scratch.h"

#include <new>
#include <utility>

namespace yaglom::runtime {
namespace {

constexpr std::align_val_t kAlignment{64};

// With the address sanitizer a block has exactly the size asked for, so that a kernel which runs over its end is seen.
#if defined(YAGLOM_ASAN)
constexpr bool kExactSize = true;
#else
constexpr bool kExactSize = false;
#endif

struct Block {
  void *memory = nullptr;
  std::size_t size = 0;

  ~Block() { ::operator delete(memory, kAlignment); }

  void *get(std::size_t bytes) {
    if (bytes > size || (kExactSize && bytes != size)) {
      // Freed first, so that old and new never add up; `size` says the truth even when the allocation throws.
      ::operator delete(std::exchange(memory, nullptr), kAlignment);
      size = 0;
      memory = ::operator new(bytes, kAlignment);
      size = bytes;
    }
    return memory;
  }
};

} // namespace

void *threadScratch(std::size_t bytes) {
  thread_local Block block;
  return block.get(bytes);
}

} // namespace yaglom::runtime
