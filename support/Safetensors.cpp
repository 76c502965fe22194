// The data of a safetensors file: conversion of the element types, and the writer.
// SPDX-License-Identifier: Apache-2.0
#include "support/Safetensors.h"

#include "support/Elements.h"
#include "support/SafetensorsHeader.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian and used as it is");

namespace yaglom::safetensors {
namespace {

constexpr std::size_t kLengthBytes = 8;

template <typename T>
T readAs(const char *bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

/// How the format writes an element type: "BF16".
std::string nameOf(DType type) {
  std::string name = toText(type);
  std::transform(name.begin(), name.end(), name.begin(), [](char c) { return static_cast<char>(std::toupper(c)); });
  return name;
}

std::optional<DType> typeNamed(std::string_view name) {
  for (DType type : {DType::f32, DType::f64, DType::f16, DType::bf16})
    if (nameOf(type) == name)
      return type;
  return std::nullopt;
}

std::string join(const std::vector<std::string> &parts) {
  std::string text;
  for (const std::string &part : parts)
    text += (text.empty() ? "" : ",") + part;
  return text;
}

/// The header's "__metadata__" member.
Result<std::string> metadataMember(const Metadata &metadata) {
  std::vector<std::string> members;
  for (const auto &[name, value] : metadata) {
    Result<std::string> quotedName = quoteJson(name);
    Result<std::string> quotedValue = quoteJson(value);
    if (!quotedName || !quotedValue)
      return Error("metadata '" + name + "' is not valid UTF-8");
    members.push_back(*quotedName + ":" + *quotedValue);
  }
  return "\"__metadata__\":{" + join(members) + "}";
}

/// The JSON object of a tensor whose data lies at [begin, end).
std::string describe(const Tensor &tensor, std::size_t begin, std::size_t end) {
  std::vector<std::string> sizes;
  for (int64_t size : tensor.shape())
    sizes.push_back(std::to_string(size));
  return "{\"dtype\":\"" + nameOf(tensor.dtype()) + "\",\"shape\":[" + join(sizes) + "],\"data_offsets\":[" +
         std::to_string(begin) + "," + std::to_string(end) + "]}";
}

} // namespace

int64_t Entry::size() const {
  int64_t count = 1;
  for (int64_t axis : shape)
    count *= axis; // the reader has checked that this fits
  return count;
}

bool Entry::isFloat() const { return typeNamed(dtype).has_value(); }

Result<File> File::parse(std::string bytes) {
  if (bytes.size() < kLengthBytes)
    return Error("too short: " + std::to_string(bytes.size()) + " bytes");
  const uint64_t headerBytes = readAs<uint64_t>(bytes.data());
  if (headerBytes > bytes.size() - kLengthBytes)
    return Error("the header's length " + std::to_string(headerBytes) + " is beyond the end of the file");
  File file;
  file.dataOffset = kLengthBytes + static_cast<std::size_t>(headerBytes);
  const std::string_view json = std::string_view(bytes).substr(kLengthBytes, static_cast<std::size_t>(headerBytes));
  Result<Header> header = parseHeader(json, bytes.size() - file.dataOffset);
  if (!header)
    return header.error();
  file.strings = std::move(header->metadata);
  file.entries = std::move(header->entries);
  file.bytes = std::move(bytes);
  return file;
}

Result<File> File::read(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream)
    return Error(path + ": " + std::strerror(errno));
  std::ostringstream content;
  content << stream.rdbuf();
  if (stream.bad() || (content.fail() && stream.peek() != EOF))
    return Error(path + ": cannot be read");
  Result<File> file = parse(std::move(content).str());
  if (!file)
    return Error(path + ": " + file.error().what());
  return file;
}

const Entry *File::find(std::string_view name) const {
  for (const Entry &entry : entries)
    if (entry.name == name)
      return &entry;
  return nullptr;
}

Result<Tensor> File::load(const Entry &entry, DType dtype) const {
  if (!entry.isFloat())
    return Error("tensor '" + entry.name + "': expected F64, F32, F16 or BF16, found " + entry.dtype);
  assert(entry.end <= bytes.size() - dataOffset && "an entry of another file");
  Tensor tensor(dtype, entry.shape);
  const char *data = bytes.data() + dataOffset + entry.begin;
  const DType stored = *typeNamed(entry.dtype);
  for (int64_t i = 0, size = tensor.size(); i < size; ++i)
    tensor.set(i, loadElement(stored, data + static_cast<std::size_t>(i) * sizeOf(stored)));
  return tensor;
}

Result<std::string> serialize(const Parameters &tensors, const Metadata &metadata) {
  std::vector<std::string> members;
  if (!metadata.empty()) {
    Result<std::string> strings = metadataMember(metadata);
    if (!strings)
      return strings.error();
    members.push_back(std::move(*strings));
  }
  std::string data;
  for (const Parameters::Entry &entry : tensors) {
    const std::size_t begin = data.size();
    if (entry.tensor.size())
      data.append(static_cast<const char *>(entry.tensor.data()),
                  static_cast<std::size_t>(entry.tensor.size()) * sizeOf(entry.tensor.dtype()));
    Result<std::string> name = quoteJson(entry.name);
    if (!name)
      return name.error();
    members.push_back(*name + ":" + describe(entry.tensor, begin, data.size()));
  }
  std::string json = "{" + join(members) + "}";
  json.append((8 - json.size() % 8) % 8, ' '); // keeps the data aligned
  const uint64_t length = json.size();
  return std::string(reinterpret_cast<const char *>(&length), kLengthBytes) + json + data;
}

Result<void> write(const std::string &path, const Parameters &tensors, const Metadata &metadata) {
  Result<std::string> bytes = serialize(tensors, metadata);
  if (!bytes)
    return Error(path + ": " + bytes.error().what());
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream.write(bytes->data(), static_cast<std::streamsize>(bytes->size()));
  stream.close();
  if (!stream)
    return Error(path + ": " + std::strerror(errno));
  return {};
}

} // namespace yaglom::safetensors

namespace yaglom {

Result<SafetensorsContent> loadSafetensors(const std::string &path, DType dtype) {
  Result<safetensors::File> file = safetensors::File::read(path);
  if (!file)
    return file.error();
  SafetensorsContent content{{}, file->metadata()};
  for (const safetensors::Entry &entry : file->tensors()) {
    Result<Tensor> tensor = file->load(entry, dtype);
    if (!tensor)
      return Error(path + ": " + tensor.error().what());
    content.tensors.set(entry.name, std::move(*tensor));
  }
  return content;
}

Result<void> saveSafetensors(const std::string &path, const Parameters &tensors,
                             const std::map<std::string, std::string> &metadata) {
  return safetensors::write(path, tensors, metadata);
}

} // namespace yaglom
