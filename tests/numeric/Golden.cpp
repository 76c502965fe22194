// Reads golden cases.
// SPDX-License-Identifier: Apache-2.0
#include "tests/numeric/Golden.h"

#include "support/Safetensors.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace yaglom::tests {
namespace {

constexpr const char *kFolder = YAGLOM_SOURCE_DIR "/tests/golden/";

/// "specs/x.phi" lies in examples/specs, "golden/x.phi" beside the cases.
std::string pathOf(const std::string &spec) {
  const std::string root = YAGLOM_SOURCE_DIR;
  return spec.starts_with("specs/") ? root + "/examples/" + spec : root + "/tests/" + spec;
}

/// "n=16" or "n=16 m=4".
DimValues parseDims(std::string text) {
  DimValues dims;
  std::replace(text.begin(), text.end(), ',', ' ');
  for (std::size_t begin = 0; (begin = text.find_first_not_of(' ', begin)) != std::string::npos;) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string item = text.substr(begin, end - begin);
    const std::size_t equals = item.find('=');
    dims[item.substr(0, equals)] = std::stoll(item.substr(equals + 1));
    begin = end;
  }
  return dims;
}

reference::Array<double> arrayOf(const safetensors::File &file, const safetensors::Entry &entry) {
  const Tensor tensor = file.load(entry, DType::f64).value();
  reference::Array<double> array(tensor.shape());
  for (int64_t i = 0; i < tensor.size(); ++i)
    array.data[static_cast<std::size_t>(i)] = tensor.at(i);
  return array;
}

} // namespace

std::vector<std::string> goldenFiles() {
  std::vector<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator(kFolder))
    if (entry.path().extension() == ".safetensors")
      names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

Golden loadGolden(const std::string &file) {
  const safetensors::File content = safetensors::File::read(std::string(kFolder) + file + ".safetensors").value();
  Golden golden;
  golden.file = file;
  for (const safetensors::Entry &entry : content.tensors()) {
    if (entry.name.starts_with("expect."))
      golden.expected[entry.name.substr(7)] = arrayOf(content, entry);
    else if (entry.name == "grad.O")
      golden.gradient = arrayOf(content, entry);
    else
      golden.given[entry.name] = arrayOf(content, entry);
  }
  golden.spec = std::make_shared<Spec>(Spec::parseFile(pathOf(content.metadata().at("spec"))).value());
  DimValues dims = parseDims(content.metadata().at("set"));
  dims["d"] = golden.given.at("K").shape.at(3);
  dims["e"] = golden.given.at("V").shape.at(3);
  golden.heads = golden.given.at("K").shape.at(1);
  golden.instance = instantiate(golden.spec->file(), content.metadata().at("attention"), dims).value();
  return golden;
}

double rms(const std::vector<double> &values) {
  double sum = 0;
  for (double value : values)
    sum += value * value;
  return values.empty() ? 0 : std::sqrt(sum / static_cast<double>(values.size()));
}

double relativeError(const std::vector<double> &found, const std::vector<double> &expected, double floor) {
  if (found.size() != expected.size())
    return HUGE_VAL;
  std::vector<double> difference;
  difference.reserve(found.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    difference.push_back(found[i] - expected[i]);
  const double error = rms(difference);
  return error == 0 ? 0 : error / std::max(rms(expected), floor);
}

} // namespace yaglom::tests
