// The fields of built programs, listed once for writing and for reading: as JSON, whose parser and destructor need no stack for what
// is nested; then a zero byte, then the code as it is.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Artifact.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <limits>
#include <type_traits>

namespace yaglom::compiler {
namespace {

using Json = nlohmann::json;

// The fields of each record. `Archive` is Writer or Reader; a new field is added here alone.

template <typename Archive>
void fields(Archive &a, GpuKernel &kernel) {
  a("name", kernel.name);
  a("threads", kernel.threads);
  a("shared", kernel.sharedBytes);
  a("scratch", kernel.scratchBytes);
}

template <typename Archive>
void fields(Archive &a, Entry &entry) {
  a("symbol", entry.symbol);
  a("gpu", entry.gpu);
  a("operands", entry.operands);
}

template <typename Archive>
void fields(Archive &a, LogScales &scales) {
  a("line", scales.position.line);
  a("column", scales.position.column);
  a("count", scales.count);
}

template <typename Archive>
void fields(Archive &a, Code &code) {
  a("architecture", code.architecture); // the bytes are apart
}

template <typename Archive>
void fields(Archive &a, Program &program) {
  a("forward", program.forward);
  a("advance", program.advance);
  a("state", program.stateElements);
  a("log_scales", program.logScales);
  a("chunk", program.chunk);
  a("parts", program.parts, Parts::Whole);
  a("keeps", program.keeps, Keeps::Last);
  a("draws", program.draws);
  a("scratch", program.scratchBytes);
  a("per_query", program.multiplyAddsPerQuery);
  a("per_key", program.multiplyAddsPerKey);
  a("per_pair", program.multiplyAddsPerPair);
  a("code", program.code);
}

template <typename Archive>
void fields(Archive &a, GradientEntry::Member &member) {
  a("offset", member.offset);
  a("elements", member.elements);
}

template <typename Archive>
void fields(Archive &a, GradientEntry &entry) {
  fields(a, static_cast<Entry &>(entry));
  a("gradients", entry.gradients);
  a("rows", entry.rowWidths);
  a("kept", entry.kept);
}

template <typename Archive>
void fields(Archive &a, BackwardProgram &program) {
  a("backward", program.backward);
  a("chunk", program.chunk);
  a("draws", program.draws);
  a("scratch", program.scratchBytes);
  a("code", program.code);
}

template <typename Archive>
void fields(Archive &a, LossProgram &program) {
  a("backward", program.backward);
  a("scratch", program.scratchBytes);
  a("code", program.code);
}

class Writer {
public:
  template <typename T>
  void operator()(const char *name, T &value) {
    object[name] = write(value);
  }
  template <typename T>
  void operator()(const char *name, T &value, T /*last*/) {
    object[name] = static_cast<int64_t>(value);
  }
  Json object = Json::object();

private:
  template <typename T>
  static Json write(T &value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
      return value;
    } else {
      Writer writer;
      fields(writer, value);
      return std::move(writer.object);
    }
  }
  template <typename T>
  static Json write(std::vector<T> &values) {
    Json array = Json::array();
    for (T &value : values)
      array.push_back(write(value));
    return array;
  }
};

/// Throws Error at a field that is missing or of another kind.
class Reader {
public:
  explicit Reader(const Json &object) : object(object) {
    if (!object.is_object())
      throw Error("expected an object");
  }
  template <typename T>
  void operator()(const char *name, T &value) {
    read(find(name), value, name);
  }
  template <typename T>
  void operator()(const char *name, T &value, T last) {
    int64_t number = 0;
    read(find(name), number, name);
    if (number > static_cast<int64_t>(last))
      throw Error(fmt::format("field '{}' is out of range", name));
    value = static_cast<T>(number);
  }

private:
  const Json &find(const char *name) const {
    const auto found = object.find(name);
    if (found == object.end())
      throw Error(fmt::format("field '{}' is missing", name));
    return *found;
  }

  template <typename T>
  static void read(const Json &json, T &value, const char *name) {
    const auto expect = [name](bool ok) {
      if (!ok)
        throw Error(fmt::format("field '{}' is of another kind, or out of range", name));
    };
    if constexpr (std::is_floating_point_v<T>) {
      expect(json.is_number());
      value = json.get<T>();
    } else if constexpr (std::is_integral_v<T>) {
      // Counts and sizes: never negative.
      expect(json.is_number_unsigned() && json.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<T>::max()));
      value = static_cast<T>(json.get<uint64_t>());
    } else if constexpr (std::is_same_v<T, std::string>) {
      expect(json.is_string());
      value = json.get<std::string>();
    } else {
      expect(json.is_object());
      Reader reader(json);
      fields(reader, value);
    }
  }
  template <typename T>
  static void read(const Json &json, std::vector<T> &values, const char *name) {
    if (!json.is_array())
      throw Error(fmt::format("field '{}' is no list", name));
    values.resize(json.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      read(json[i], values[i], name);
  }

  const Json &object;
};

} // namespace

template <typename P>
std::string toArtifact(const P &program) {
  Writer writer;
  fields(writer, const_cast<P &>(program)); // the list of fields serves both ways; Writer changes nothing
  return writer.object.dump() + '\0' + program.code.bytes;
}

template <typename P>
Result<P> fromArtifact(std::string_view bytes) {
  const std::size_t end = bytes.find('\0');
  if (end == std::string_view::npos)
    return Error("not a program: no code");
  try {
    const Json json = Json::parse(bytes.substr(0, end), nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded())
      return Error("not a program: no JSON");
    Reader reader(json);
    P program;
    fields(reader, program);
    program.code.bytes = bytes.substr(end + 1);
    return program;
  } catch (const std::exception &error) { // ours, and those of no memory
    return Error(fmt::format("not a program: {}", error.what()));
  }
}

template std::string toArtifact(const Program &);
template std::string toArtifact(const BackwardProgram &);
template std::string toArtifact(const LossProgram &);
template Result<Program> fromArtifact(std::string_view);
template Result<BackwardProgram> fromArtifact(std::string_view);
template Result<LossProgram> fromArtifact(std::string_view);

} // namespace yaglom::compiler
