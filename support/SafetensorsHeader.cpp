// The JSON header of a safetensors file: a SAX parser that accepts the format's shape and nothing else.
// SPDX-License-Identifier: Apache-2.0
#include "support/SafetensorsHeader.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>
#include <set>

namespace yaglom::safetensors {
namespace {

using Json = nlohmann::json;

/// Receives the events of the parser. It knows what may stand where, so that nesting is refused at the first bracket too
/// many: { "__metadata__": { string: string }, name: { "dtype": string, "shape": [int], "data_offsets": [int, int] } }.
class HeaderReader : public nlohmann::json_sax<Json> {
public:
  Header header;
  std::string problem;

  bool null() override { return refuse("null"); }
  bool boolean(bool) override { return refuse("a boolean"); }
  bool number_integer(number_integer_t) override { return refuse("a negative number"); }
  bool number_float(number_float_t, const string_t &text) override {
    return refuse("the number " + text.substr(0, 32));
  }
  bool binary(binary_t &) override { return refuse("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place != Place::Shape && place != Place::Offsets)
      return refuse("a number");
    if (numbers.size() == kMaxNumbers)
      return fail("more than " + std::to_string(kMaxNumbers) + " numbers in " + where());
    numbers.push_back(value);
    return true;
  }

  bool string(string_t &value) override {
    if (place == Place::Metadata) {
      header.metadata[field] = std::move(value);
      return true;
    }
    if (place != Place::Tensor || field != "dtype")
      return refuse("a string");
    entry.dtype = std::move(value);
    return elementBytes(entry.dtype) ? true : fail(where() + ": unknown dtype '" + entry.dtype.substr(0, 32) + "'");
  }

  bool start_object(std::size_t) override {
    if (place == Place::Start) {
      place = Place::Top;
      return true;
    }
    if (place != Place::Top)
      return refuse("'{'");
    fields.clear();
    place = entry.name == "__metadata__" ? Place::Metadata : Place::Tensor;
    return true;
  }

  bool key(string_t &name) override {
    std::set<std::string> &seen = place == Place::Top ? names : fields;
    if (!seen.insert(name).second)
      return fail("duplicate name '" + name.substr(0, kMaxQuoted) + "'");
    if (place == Place::Top) {
      entry = Entry{};
      entry.name = std::move(name);
      return true;
    }
    field = std::move(name);
    if (place == Place::Tensor && field != "dtype" && field != "shape" && field != "data_offsets")
      return fail(where() + ": unknown field '" + field.substr(0, kMaxQuoted) + "'");
    return true;
  }

  bool end_object() override {
    const Place ended = std::exchange(place, place == Place::Top ? Place::End : Place::Top);
    return ended == Place::Tensor ? finishTensor() : true;
  }

  bool start_array(std::size_t) override {
    if (place != Place::Tensor || field == "dtype")
      return refuse("'['");
    numbers.clear();
    place = field == "shape" ? Place::Shape : Place::Offsets;
    return true;
  }

  bool end_array() override {
    const Place ended = std::exchange(place, Place::Tensor);
    if (ended == Place::Shape)
      return setShape();
    if (numbers.size() != 2)
      return fail(where() + ": expected two data_offsets, found " + std::to_string(numbers.size()));
    entry.begin = numbers[0];
    entry.end = numbers[1];
    return true;
  }

  bool parse_error(std::size_t position, const std::string &, const Json::exception &exception) override {
    // nlohmann's texts start with "[json.exception...] parse error at line 1, column 5: ".
    std::string text = exception.what();
    if (const std::size_t colon = text.find(": "); colon != std::string::npos)
      text = text.substr(colon + 2);
    return fail("bad JSON at byte " + std::to_string(position) + ": " + text.substr(0, 200));
  }

private:
  enum class Place { Start, Top, Metadata, Tensor, Shape, Offsets, End };
  static constexpr std::size_t kMaxNumbers = 64;
  static constexpr std::size_t kMaxQuoted = 64;

  bool fail(std::string text) {
    problem = std::move(text);
    return false;
  }
  bool refuse(const std::string &found) { return fail("unexpected " + found + " in " + where()); }

  std::string where() const {
    if (place == Place::Start || place == Place::End || entry.name.empty())
      return "the header";
    if (place == Place::Metadata)
      return "__metadata__";
    return "tensor '" + entry.name.substr(0, kMaxQuoted) + "'";
  }

  bool setShape() {
    int64_t count = 1;
    for (uint64_t size : numbers) {
      int64_t signedSize = 0;
      if (__builtin_add_overflow(size, 0, &signedSize) ||
          __builtin_mul_overflow(count, std::max<int64_t>(signedSize, 1), &count))
        return fail(where() + ": the product of the shape overflows");
      entry.shape.push_back(signedSize);
    }
    return true;
  }

  bool finishTensor() {
    place = Place::Tensor; // for where()
    for (const char *needed : {"dtype", "shape", "data_offsets"})
      if (!fields.count(needed))
        return fail(where() + ": '" + needed + "' is missing");
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(static_cast<uint64_t>(entry.size()), elementBytes(entry.dtype), &bytes))
      return fail(where() + ": the product of the shape overflows");
    if (entry.end < entry.begin || entry.end - entry.begin != bytes)
      return fail(where() + ": data_offsets [" + std::to_string(entry.begin) + ", " + std::to_string(entry.end) +
                  "] do not hold the " + std::to_string(bytes) + " bytes of its shape");
    header.entries.push_back(std::move(entry));
    entry = Entry{};
    place = Place::Top;
    return true;
  }

  Place place = Place::Start;
  Entry entry;
  std::string field;
  std::vector<uint64_t> numbers;
  std::set<std::string> names;
  std::set<std::string> fields;
};

/// Entries must fill the data exactly: no byte unused (a place to hide things), none used twice.
Result<void> checkLayout(const std::vector<Entry> &entries, uint64_t dataBytes) {
  uint64_t position = 0;
  for (const Entry &entry : entries) {
    const std::string name = "tensor '" + entry.name.substr(0, 64) + "'";
    if (entry.end > dataBytes)
      return Error(name + ": data_offsets end at " + std::to_string(entry.end) + ", the data has " +
                   std::to_string(dataBytes) + " bytes");
    if (entry.begin < position)
      return Error(name + ": overlaps the tensor before it");
    if (entry.begin > position)
      return Error(name + ": a hole of " + std::to_string(entry.begin - position) + " bytes before it");
    position = entry.end;
  }
  if (position != dataBytes)
    return Error(std::to_string(dataBytes - position) + " bytes of data belong to no tensor");
  return {};
}

} // namespace

uint64_t elementBytes(std::string_view dtype) {
  if (dtype == "F64" || dtype == "I64" || dtype == "U64" || dtype == "C64")
    return 8;
  if (dtype == "F32" || dtype == "I32" || dtype == "U32")
    return 4;
  if (dtype == "F16" || dtype == "BF16" || dtype == "I16" || dtype == "U16")
    return 2;
  if (dtype == "I8" || dtype == "U8" || dtype == "BOOL" || dtype == "F8_E4M3" || dtype == "F8_E5M2")
    return 1;
  return 0;
}

Result<Header> parseHeader(std::string_view json, uint64_t dataBytes) {
  HeaderReader reader;
  if (!Json::sax_parse(json.begin(), json.end(), &reader))
    return Error(reader.problem.empty() ? "bad JSON" : reader.problem);
  std::vector<Entry> &entries = reader.header.entries;
  std::stable_sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  if (Result<void> layout = checkLayout(entries, dataBytes); !layout)
    return layout.error();
  return std::move(reader.header);
}

Result<std::string> quoteJson(const std::string &text) {
  try {
    return Json(text).dump();
  } catch (const Json::exception &) { // nlohmann reports bad UTF-8 only by throwing
    return Error("a name is not valid UTF-8");
  }
}

} // namespace yaglom::safetensors
