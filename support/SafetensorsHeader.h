// The header of a safetensors file as checked data; internal to the reader.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/Safetensors.h"

namespace yaglom::safetensors {

struct Header {
  Metadata metadata;
  std::vector<Entry> entries; ///< in the order of their offsets
};

/// Parses and checks the JSON text of a header in front of `dataBytes` bytes of data.
Result<Header> parseHeader(std::string_view json, uint64_t dataBytes);

/// Bytes of one element, or 0 for a name that no version of the format has.
uint64_t elementBytes(std::string_view dtype);

/// `text` as a JSON string with quotes; an Error when it is not UTF-8.
Result<std::string> quoteJson(const std::string &text);

} // namespace yaglom::safetensors
