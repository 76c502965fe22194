// Reading and writing safetensors files; a hostile file is refused with a message, never a crash.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/result.h"
#include "yaglom/safetensors.h"
#include "yaglom/tensor.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace yaglom::safetensors {

/// Strings of the header's "__metadata__".
using Metadata = std::map<std::string, std::string>;

/// One tensor of a file: its header entry. `begin` and `end` are byte offsets into the data part.
struct Entry {
  std::string name;
  std::string dtype; ///< as in the file: "F64", "BF16", "I32", ...
  Shape shape;
  uint64_t begin = 0;
  uint64_t end = 0;

  int64_t size() const; ///< number of elements
  bool isFloat() const; ///< F64, F32, F16 or BF16: the types that load() converts
};

/// A file in memory, its header checked in full: every offset lies in the data, and entries fill it without hole or overlap.
///
///     Result<File> file = File::read("in.safetensors");
///     Result<Tensor> q = file->load(*file->find("Q"), DType::f32);
class File {
public:
  /// The Error names the path.
  static Result<File> read(const std::string &path);
  /// The same for the bytes of a file.
  static Result<File> parse(std::string bytes);

  const Metadata &metadata() const { return strings; }
  /// In the order of the data.
  const std::vector<Entry> &tensors() const { return entries; }
  /// The tensor of that name, or null.
  const Entry *find(std::string_view name) const;
  /// The values of an entry of this file, converted. Integer and unknown types are refused by the tensor's name.
  Result<Tensor> load(const Entry &entry, DType dtype) const;

private:
  std::string bytes;
  std::size_t dataOffset = 0;
  Metadata strings;
  std::vector<Entry> entries;
};

/// The bytes of a file that holds `tensors` in their order. Names and metadata must be UTF-8.
Result<std::string> serialize(const Parameters &tensors, const Metadata &metadata = {});
/// Writes serialize() to `path`. The Error names the path.
Result<void> write(const std::string &path, const Parameters &tensors, const Metadata &metadata = {});

} // namespace yaglom::safetensors
