// Layout: "yaglom 1\n", length of the key (8 bytes), key, payload, BLAKE3 of all before (32 bytes).
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/Entry.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"

#include <cstdint>
#include <cstring>

namespace yaglom::runtime::cache {
namespace {

constexpr std::string_view kMagic = "yaglom 1\n";
constexpr std::size_t kHeaderBytes = kMagic.size() + sizeof(uint64_t);
using Digest = llvm::BLAKE3Result<>;

Digest digestOf(std::string_view bytes) { return llvm::BLAKE3::hash(llvm::arrayRefFromStringRef(bytes)); }

std::string_view view(const Digest &digest) { return {reinterpret_cast<const char *>(digest.data()), digest.size()}; }

} // namespace

Key::Key(std::string_view kind, std::string_view what, std::string_view rest) {
  text.append("kind: ").append(kind).append("\nwhat: ").append(what).append("\n").append(rest);
}

std::string digestText(std::string_view text) { return llvm::toHex(digestOf(text), /*LowerCase=*/true); }

std::string_view Entry::line(std::string_view prefix) const {
  for (std::string_view rest = key; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    if (line.starts_with(prefix))
      return line.substr(prefix.size());
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
  }
  return {};
}

std::string toBytes(const Key &key, std::string_view payload) {
  std::string bytes(kMagic);
  const uint64_t length = key.text.size();
  bytes.append(reinterpret_cast<const char *>(&length), sizeof length).append(key.text).append(payload);
  return bytes.append(view(digestOf(bytes)));
}

Result<Entry> parseEntry(std::string_view bytes) {
  if (!bytes.starts_with(kMagic))
    return Error("not an entry of this version");
  if (bytes.size() < kHeaderBytes + Digest().size())
    return Error("too short");
  const std::string_view content = bytes.substr(0, bytes.size() - Digest().size());
  if (view(digestOf(content)) != bytes.substr(content.size()))
    return Error("the checksum is wrong");
  uint64_t length = 0;
  std::memcpy(&length, content.data() + kMagic.size(), sizeof length);
  const std::string_view body = content.substr(kHeaderBytes);
  if (length > body.size())
    return Error("the key is longer than the file");
  Entry entry;
  entry.key = body.substr(0, length);
  entry.payload = body.substr(length);
  return entry;
}

} // namespace yaglom::runtime::cache
