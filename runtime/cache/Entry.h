// The bytes of one file of the cache: a key, what is kept under it, and a checksum of both.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/result.h"

#include <string>
#include <string_view>

namespace yaglom::runtime::cache {

/// Hexadecimal BLAKE3.
std::string digestText(std::string_view text);

/// What an entry was made from. All of `text` must be equal for the entry to be used; it begins with the lines
/// "kind: forward" and "what: linear_transformer, d=64 ...", which people read.
struct Key {
  std::string text;

  Key(std::string_view kind, std::string_view what, std::string_view rest);
  /// The same from all of its text.
  explicit Key(std::string text) : text(std::move(text)) {}
  /// Hexadecimal BLAKE3 of the text: the name of the entry's file.
  std::string digest() const { return digestText(text); }
};

struct Entry {
  std::string_view key, payload; ///< into the bytes

  std::string_view kind() const { return line("kind: "); }
  std::string_view what() const { return line("what: "); }

private:
  std::string_view line(std::string_view prefix) const;
};

std::string toBytes(const Key &key, std::string_view payload);

/// The entry in `bytes`, which may be anything. The Error says what is wrong: too short, no entry, a checksum.
Result<Entry> parseEntry(std::string_view bytes);

} // namespace yaglom::runtime::cache
