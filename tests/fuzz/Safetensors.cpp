// Fuzz target: any bytes are a tensor file or are refused; every tensor of an accepted file loads or is refused.
// SPDX-License-Identifier: Apache-2.0
#include "support/Safetensors.h"

#include <cstdlib>

using namespace yaglom;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, std::size_t size) {
  Result<safetensors::File> file = safetensors::File::parse(std::string(reinterpret_cast<const char *>(data), size));
  if (!file)
    return 0;
  Parameters tensors;
  for (const safetensors::Entry &entry : file->tensors())
    if (Result<Tensor> tensor = file->load(entry, DType::f64))
      tensors.set(entry.name, std::move(*tensor));
  // What was read can be written and read again.
  Result<std::string> bytes = safetensors::serialize(tensors, file->metadata());
  if (!bytes || !safetensors::File::parse(*bytes))
    std::abort();
  return 0;
}
