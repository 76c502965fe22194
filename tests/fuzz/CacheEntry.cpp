// Fuzz target: any bytes are a cache entry or are refused, and so is the program in one.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Artifact.h"
#include "runtime/cache/Entry.h"

#include <cstdlib>

using namespace yaglom;

/// What is read as a program can be written, and read again.
template <typename P>
static void check(std::string_view bytes) {
  const Result<P> program = compiler::fromArtifact<P>(bytes);
  if (program && !compiler::fromArtifact<P>(compiler::toArtifact(*program)))
    std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char *>(data), size);
  (void)runtime::cache::parseEntry(bytes);
  // What is written is read back, unless a byte of it changes.
  const runtime::cache::Key key("fuzz", bytes.substr(0, size / 2), "");
  std::string file = runtime::cache::toBytes(key, bytes);
  const auto entry = runtime::cache::parseEntry(file);
  if (!entry || entry->key != key.text || entry->payload != bytes)
    std::abort();
  file[size * 31 % file.size()] ^= 1;
  if (runtime::cache::parseEntry(file))
    std::abort();
  // A checksum is beyond a fuzzer, so programs are tried without an entry around them.
  check<compiler::Program>(bytes);
  check<compiler::BackwardProgram>(bytes);
  check<compiler::LossProgram>(bytes);
  return 0;
}
