// yaglom emulate: a kernel of a PTX text on the CPU, over the tensors of a file.
// SPDX-License-Identifier: Apache-2.0
#include "tools/Commands.h"

#include "runtime/emulator/Emulator.h"
#include "support/Safetensors.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <immintrin.h>
#include <iterator>
#include <list>

namespace yaglom::tools {
namespace {

std::string readBytes(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw Error(path + ": cannot be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

uint64_t bytesOf(const std::string &dtype) {
  for (const auto &[name, bytes] : std::initializer_list<std::pair<const char *, uint64_t>>{{"F64", 8},
                                                                                            {"I64", 8},
                                                                                            {"U64", 8},
                                                                                            {"F32", 4},
                                                                                            {"I32", 4},
                                                                                            {"U32", 4},
                                                                                            {"F16", 2},
                                                                                            {"BF16", 2},
                                                                                            {"I16", 2},
                                                                                            {"U16", 2},
                                                                                            {"I8", 1},
                                                                                            {"U8", 1},
                                                                                            {"BOOL", 1}})
    if (dtype == name)
      return bytes;
  throw Error(fmt::format("unknown type '{}': expected F32, BF16, I32, ...", dtype));
}

/// Memory that the kernel reaches under a name.
struct Memory {
  std::string name;
  std::string dtype;
  Shape shape;
  std::vector<std::byte> data;
  bool writable = false;
  bool initialised = true;
};

/// The tensors of the input file, byte for byte.
class Input {
public:
  explicit Input(const std::string &path) : path(path) {
    if (path.empty())
      return;
    bytes = readBytes(path);
    Result<safetensors::File> parsed = safetensors::File::parse(bytes);
    if (!parsed)
      throw Error(fmt::format("{}: {}", path, parsed.error().what()));
    file = std::move(*parsed);
    uint64_t header = 0;
    std::memcpy(&header, bytes.data(), 8);
    begin = 8 + header;
  }

  bool load(Memory &memory) const {
    const safetensors::Entry *entry = file.find(memory.name);
    if (!entry)
      return false;
    memory.dtype = entry->dtype;
    memory.shape = entry->shape;
    const auto *data = reinterpret_cast<const std::byte *>(bytes.data()) + begin;
    memory.data.assign(data + entry->begin, data + entry->end);
    return true;
  }

private:
  std::string path, bytes;
  safetensors::File file;
  uint64_t begin = 0;
};

std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

int64_t toInteger(const std::string &text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw Error(fmt::format("'{}' is no whole number", text));
  return value;
}

/// `NAME:out`, `NAME:out:BYTES` or `NAME:out:F32:2x128`.
void makeOutput(Memory &memory, const std::vector<std::string> &parts, const Input &input) {
  memory.writable = true;
  memory.initialised = false;
  if (parts.size() == 2) {
    if (!input.load(memory))
      throw Error(fmt::format("'{}': the input has no such tensor whose type and shape the output could take; "
                              "give BYTES or TYPE:SHAPE",
                              memory.name));
  } else if (parts.size() == 3) {
    memory.dtype = "U8";
    memory.shape = {toInteger(parts[2])};
  } else {
    memory.dtype = parts[2];
    for (const std::string &size : split(parts[3], 'x'))
      memory.shape.push_back(toInteger(size));
  }
  uint64_t bytes = bytesOf(memory.dtype);
  for (const int64_t size : memory.shape)
    if (size < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes) || bytes > uint64_t{1} << 36)
      throw Error(fmt::format("'{}': a size of {} is not possible", memory.name, size));
  memory.data.assign(bytes, std::byte{0xff});
}

/// One argument of the command line: a number, or a tensor that is added to `memories` (once).
emulator::Argument makeArgument(const std::string &text, const Input &input, std::list<Memory> &memories) {
  if (text.empty())
    throw Error("an argument is empty");
  if (std::string_view("0123456789+-.").find(text[0]) != std::string_view::npos) {
    if (text.find_first_not_of("+-0123456789") == std::string::npos)
      return toInteger(text[0] == '+' ? text.substr(1) : text);
    char *end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (*end != '\0')
      throw Error(fmt::format("'{}' is no number", text));
    return value;
  }
  const std::vector<std::string> parts = split(text, ':');
  for (const Memory &memory : memories)
    if (memory.name == parts[0])
      return emulator::Pointer{parts[0]};
  Memory memory;
  memory.name = parts[0];
  const std::string kind = parts.size() > 1 ? parts[1] : "in";
  if (kind == "out" && parts.size() <= 4)
    makeOutput(memory, parts, input);
  else if ((kind != "in" && kind != "inout") || parts.size() > 2)
    throw Error(fmt::format("'{}': expected NAME, NAME:inout, NAME:out, NAME:out:BYTES or NAME:out:TYPE:SHAPE", text));
  else if (!input.load(memory))
    throw Error(fmt::format("the input has no tensor '{}'", memory.name));
  memory.writable = kind != "in";
  memories.push_back(std::move(memory));
  return emulator::Pointer{parts[0]};
}

/// Arguments by position, and `NAME=VALUE` by the parameter's name.
std::vector<emulator::Argument> makeArguments(const EmulateOptions &options, const emulator::Entry &entry,
                                              const Input &input, std::list<Memory> &memories) {
  std::vector<std::string> texts(entry.parameters.size());
  for (const std::string &pair : options.named) {
    const std::size_t equals = pair.find('=');
    std::size_t at = 0;
    while (at < texts.size() && entry.parameters[at].name != pair.substr(0, equals))
      ++at;
    if (equals == std::string::npos || at == texts.size())
      throw Error(fmt::format("--arg {}: kernel '{}' has no such parameter; expected NAME=VALUE", pair, entry.name));
    texts[at] = pair.substr(equals + 1);
  }
  std::size_t next = 0;
  for (const std::string &list : options.arguments)
    for (const std::string &text : split(list, ',')) {
      while (next < texts.size() && !texts[next].empty())
        ++next;
      if (next == texts.size())
        throw Error(fmt::format("kernel '{}' has {} parameters; '{}' is one too many", entry.name, texts.size(), text));
      texts[next] = text;
    }
  std::vector<emulator::Argument> arguments;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].empty())
      throw Error(fmt::format("parameter '{}' of kernel '{}' has no argument", entry.parameters[i].name, entry.name));
    arguments.push_back(makeArgument(texts[i], input, memories));
  }
  return arguments;
}

double valueAt(const Memory &memory, std::size_t index) {
  const auto read = [&](auto value) {
    std::memcpy(&value, memory.data.data() + index * sizeof(value), sizeof(value));
    return value;
  };
  if (memory.dtype == "F64")
    return read(0.0);
  if (memory.dtype == "F32")
    return read(0.0f);
  if (memory.dtype == "F16")
    return _cvtsh_ss(read(uint16_t{0}));
  if (memory.dtype == "BF16")
    return std::bit_cast<float>(uint32_t{read(uint16_t{0})} << 16);
  if (memory.dtype == "I64")
    return static_cast<double>(read(int64_t{0}));
  if (memory.dtype == "U64")
    return static_cast<double>(read(uint64_t{0}));
  if (memory.dtype == "I32")
    return read(int32_t{0});
  if (memory.dtype == "U32")
    return read(uint32_t{0});
  if (memory.dtype == "I16")
    return read(int16_t{0});
  if (memory.dtype == "U16")
    return read(uint16_t{0});
  return memory.dtype == "I8" ? read(int8_t{0}) : read(uint8_t{0});
}

/// What the kernel could write, as F32 where that holds every value of the type, else as F64.
void writeOutputs(const std::string &path, const std::list<Memory> &memories) {
  Parameters results;
  for (const Memory &memory : memories) {
    if (!memory.writable)
      continue;
    const bool single =
        memory.dtype == "F32" || memory.dtype == "F16" || memory.dtype == "BF16" || bytesOf(memory.dtype) < 4;
    Tensor tensor(single ? DType::f32 : DType::f64, memory.shape);
    for (int64_t i = 0; i < tensor.size(); ++i)
      tensor.set(i, valueAt(memory, static_cast<std::size_t>(i)));
    results.set(memory.name, std::move(tensor));
  }
  safetensors::write(path, results).value();
}

std::array<uint32_t, 3> toSizes(const std::vector<uint32_t> &values) {
  std::array<uint32_t, 3> sizes{1, 1, 1};
  std::copy(values.begin(), values.end(), sizes.begin());
  return sizes;
}

} // namespace

int emulate(const EmulateOptions &options) {
  Result<emulator::Module> module = emulator::Module::parse(readBytes(options.file));
  if (!module)
    throw Error(fmt::format("{}: {}", options.file, module.error().what()));
  const emulator::Entry *entry =
      options.kernel.empty() && module->entries().size() == 1 ? &module->entries()[0] : module->find(options.kernel);
  if (!entry) {
    std::string names;
    for (const emulator::Entry &one : module->entries())
      names += fmt::format("{}'{}'", names.empty() ? "" : ", ", one.name);
    throw Error(fmt::format("{}: --kernel must name one of {}", options.file, names));
  }
  const Input input(options.input);
  std::list<Memory> memories;
  emulator::Launch launch;
  launch.kernel = entry->name;
  launch.grid = toSizes(options.grid);
  launch.block = toSizes(options.block);
  launch.dynamicSharedBytes = options.sharedBytes;
  launch.arguments = makeArguments(options, *entry, input, memories);
  std::vector<emulator::Buffer> buffers;
  for (Memory &memory : memories)
    buffers.push_back({memory.name, memory.data.data(), memory.data.size(), memory.writable, memory.initialised});
  emulator::Options run;
  run.seed = options.seed;
  run.threads = options.threads;
  if (options.budget)
    run.instructionBudget = options.budget;
  const emulator::Report report = emulator::run(*module, launch, buffers, run).value();
  if (!options.output.empty())
    writeOutputs(options.output, memories);
  fmt::print("{}", options.json ? report.json() + "\n" : report.findingsText() + report.countersText());
  return report.clean() ? kSuccess : kFailure;
}

} // namespace yaglom::tools
