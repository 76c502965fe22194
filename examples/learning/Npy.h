// Reads arrays of NumPy (.npy, versions 1.0 and 2.0), trusting nothing that the file says of itself.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <yaglom/result.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace learning {

/// An array in row-major order, whatever its element type was.
struct NpyArray {
  std::vector<int64_t> shape;
  std::vector<double> values;
};

namespace npy {

/// What stands before the numbers: {'descr': '<f4', 'fortran_order': False, 'shape': (1797, 8, 8), }
struct Header {
  std::string type;
  std::optional<bool> columnMajor;
  std::vector<int64_t> shape;
};

/// Reads the header's text, a dictionary as Python writes it.
class HeaderReader {
public:
  HeaderReader(const std::string &path, std::string_view text) : path(path), rest(text) {}

  Header read() {
    Header header;
    int seen = 0;
    expect("{");
    while (!accept("}")) {
      const std::string key = quoted();
      expect(":");
      if (key == "descr")
        header.type = quoted();
      else if (key == "fortran_order")
        header.columnMajor = truth();
      else if (key == "shape")
        header.shape = tuple();
      else
        fail("unknown key '" + key + "'");
      ++seen;
      if (!accept(",")) {
        expect("}");
        break;
      }
    }
    if (seen != 3 || header.type.empty() || !header.columnMajor || header.shape.empty())
      fail("expected descr, fortran_order and shape, once each");
    return header;
  }

private:
  [[noreturn]] void fail(const std::string &what) const { throw yaglom::Error(path + ": header: " + what); }

  bool accept(std::string_view token) {
    rest.remove_prefix(std::min(rest.find_first_not_of(" \n"), rest.size()));
    if (!rest.starts_with(token))
      return false;
    rest.remove_prefix(token.size());
    return true;
  }

  void expect(std::string_view token) {
    if (!accept(token))
      fail("expected '" + std::string(token) + "' before '" + std::string(rest.substr(0, 12)) + "'");
  }

  std::string quoted() {
    expect("'");
    const std::string text(rest.substr(0, rest.find('\'')));
    rest.remove_prefix(text.size());
    expect("'");
    return text;
  }

  bool truth() {
    if (accept("True"))
      return true;
    expect("False");
    return false;
  }

  std::vector<int64_t> tuple() {
    std::vector<int64_t> sizes;
    expect("(");
    while (!accept(")")) {
      accept(""); // skips blanks
      int64_t size = 0;
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), size);
      if (error != std::errc() || size < 1 || sizes.size() == 8)
        fail("expected up to eight sizes of at least 1 as the shape");
      rest.remove_prefix(size_t(end - rest.data()));
      sizes.push_back(size);
      if (!accept(",")) {
        expect(")");
        break;
      }
    }
    return sizes;
  }

  const std::string &path;
  std::string_view rest;
};

template <typename Element>
void convert(const std::string &bytes, size_t start, std::vector<double> &values) {
  for (size_t i = 0; i < values.size(); ++i) {
    Element element;
    std::memcpy(&element, bytes.data() + start + i * sizeof element, sizeof element);
    values[i] = double(element);
  }
}

} // namespace npy

/// Reads little-endian f4, f8, i4, i8 or u1 in row-major order. Nothing is allocated before the file's size agrees with its
/// header. Throws yaglom::Error.
inline NpyArray readNpy(const std::string &path) {
  const auto require = [&](bool condition, const std::string &what) {
    if (!condition)
      throw yaglom::Error(path + ": " + what);
  };
  std::ifstream stream(path, std::ios::binary);
  require(stream && std::filesystem::is_regular_file(path), "cannot be read");
  const std::string bytes{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  const auto byte = [&](size_t i) { return size_t(static_cast<unsigned char>(bytes[i])); };

  require(bytes.size() >= 12 && bytes.starts_with("\x93NUMPY"), "is no .npy file");
  const size_t version = byte(6);
  require(version == 1 || version == 2, "has version " + std::to_string(version) + ", expected 1 or 2");
  const size_t begin = version == 1 ? 10 : 12;
  const size_t length = byte(8) | byte(9) << 8 | (version == 1 ? 0 : byte(10) << 16 | byte(11) << 24);
  require(length <= bytes.size() - begin, "ends within its header");
  const npy::Header header = npy::HeaderReader(path, std::string_view(bytes).substr(begin, length)).read();
  require(!*header.columnMajor, "is in Fortran's order; save numpy.ascontiguousarray(...) of it");

  const std::string &type = header.type;
  require(type == "<f4" || type == "<f8" || type == "<i4" || type == "<i8" || type == "|u1",
          "has elements of type '" + type + "', expected <f4, <f8, <i4, <i8 or |u1");
  const size_t size = size_t(type[2] - '0'), data = begin + length;
  size_t room = (bytes.size() - data) / size, count = 1;
  for (int64_t axis : header.shape) { // a product that would overflow does not fit either
    require(size_t(axis) <= room / count, "is too short for its shape");
    count *= size_t(axis);
  }
  require(count * size == bytes.size() - data, "is longer than its shape says");

  NpyArray array{header.shape, std::vector<double>(count)};
  const auto convert = type == "<f4"   ? npy::convert<float>
                       : type == "<f8" ? npy::convert<double>
                       : type == "<i4" ? npy::convert<int32_t>
                       : type == "<i8" ? npy::convert<int64_t>
                                       : npy::convert<uint8_t>;
  convert(bytes, data, array.values);
  return array;
}

} // namespace learning
