// Tensor files: what is written is read back, element types convert, hostile files are refused with a message.
// SPDX-License-Identifier: Apache-2.0
#include "support/Safetensors.h"

#include "tests/unit/Catch.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

using namespace yaglom;

namespace {

std::string fileOf(const std::string &header, const std::string &data = "") {
  const uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

std::string refusal(const std::string &bytes) {
  Result<safetensors::File> file = safetensors::File::parse(bytes);
  return file ? "accepted" : file.error().what();
}

std::string refusalOf(const std::string &header, std::size_t dataBytes = 0) {
  return refusal(fileOf(header, std::string(dataBytes, '\0')));
}

std::string tensorHeader(const std::string &dtype, const std::string &shape, const std::string &offsets) {
  return R"({"x":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

std::vector<double> valuesOf(const std::string &dtype, const std::string &data, int count) {
  const std::string header =
      tensorHeader(dtype, "[" + std::to_string(count) + "]", "[0," + std::to_string(data.size()) + "]");
  safetensors::File file = safetensors::File::parse(fileOf(header, data)).value();
  Tensor tensor = file.load(*file.find("x"), DType::f64).value();
  std::vector<double> values;
  for (int64_t i = 0; i < tensor.size(); ++i)
    values.push_back(tensor.at(i));
  return values;
}

} // namespace

TEST_CASE("a written tensor file is read back") {
  Parameters tensors;
  tensors.set("Q", Tensor(DType::f32, {2, 3}));
  tensors.set("scalar", Tensor(DType::f64, {}));
  tensors.set("empty", Tensor(DType::f64, {0, 4}));
  tensors["Q"].set(5, 1.5);
  tensors["scalar"].set(0, 1e300);
  const std::string bytes = safetensors::serialize(tensors, {{"spec", "a \"quoted\" \\ name"}}).value();
  safetensors::File file = safetensors::File::parse(bytes).value();
  CHECK(file.metadata().at("spec") == "a \"quoted\" \\ name");
  REQUIRE(file.tensors().size() == 3);
  CHECK(file.load(*file.find("Q"), DType::f32).value().at(5) == 1.5);
  CHECK(file.load(*file.find("scalar"), DType::f64).value().at(0) == 1e300);
  CHECK(file.load(*file.find("empty"), DType::f64).value().shape() == Shape{0, 4});
  CHECK(file.find("K") == nullptr);
}

TEST_CASE("half types convert exactly") {
  using namespace std::string_literals;
  CHECK(valuesOf("F16", "\x00\x3c\x00\xc0\x01\x00\xff\x7b\x00\x7c"s, 5) ==
        std::vector<double>{1, -2, std::ldexp(1.0, -24), 65504, HUGE_VAL});
  CHECK(valuesOf("BF16", "\x80\x3f\x00\xc0\x80\x7f"s, 3) == std::vector<double>{1, -2, HUGE_VAL});
  CHECK(std::isnan(valuesOf("F16", "\x01\x7e"s, 1)[0]));
}

TEST_CASE("an integer tensor is read but refused by name when loaded") {
  safetensors::File file =
      safetensors::File::parse(fileOf(tensorHeader("I32", "[2]", "[0,8]"), std::string(8, '\0'))).value();
  CHECK(std::string(file.load(*file.find("x"), DType::f32).error().what()) ==
        "tensor 'x': expected F64, F32, F16 or BF16, found I32");
}

TEST_CASE("hostile headers are refused with a message") {
  CHECK(refusal("") == "too short: 0 bytes");
  CHECK(refusal(std::string(8, '\xff')) == "the header's length 18446744073709551615 is beyond the end of the file");
  CHECK(refusal(fileOf("{}").substr(0, 9)) == "the header's length 2 is beyond the end of the file");
  CHECK(refusalOf(std::string(100000, '[')) == "unexpected '[' in the header");
  std::string nested;
  for (int i = 0; i < 100000; ++i)
    nested += "{\"a\":";
  CHECK(refusalOf(nested) == "tensor 'a': unknown field 'a'");
  CHECK(refusalOf(R"({"x":{"shape":)" + std::string(100000, '[')) == "unexpected '[' in tensor 'x'");
  CHECK(refusalOf("").find("bad JSON at byte") == 0);
  CHECK(refusalOf("{\"x\":").find("bad JSON at byte") == 0);
  CHECK(refusalOf("{} {}").find("bad JSON at byte") == 0);
  CHECK(refusalOf("{\"\xff\":1}").find("bad JSON at byte") == 0);
  CHECK(refusalOf("null") == "unexpected null in the header");
  CHECK(refusalOf(R"({"__metadata__":{"a":1}})") == "unexpected a number in __metadata__");
  CHECK(refusalOf(R"({"__metadata__":{"a":"","a":""}})") == "duplicate name 'a'");
}

TEST_CASE("hostile tensor entries are refused with a message") {
  CHECK(refusalOf(tensorHeader("F33", "[1]", "[0,4]"), 4) == "tensor 'x': unknown dtype 'F33'");
  CHECK(refusalOf(tensorHeader("F32", "[-1]", "[0,4]"), 4) == "unexpected a negative number in tensor 'x'");
  CHECK(refusalOf(tensorHeader("F32", "[1.5]", "[0,4]"), 4) == "unexpected the number 1.5 in tensor 'x'");
  CHECK(refusalOf(tensorHeader("F32", "[1e400]", "[0,4]"), 4).find("bad JSON at byte") == 0);
  CHECK(refusalOf(tensorHeader("F32", "[NaN]", "[0,4]"), 4).find("bad JSON at byte") == 0);
  CHECK(refusalOf(tensorHeader("F32", "[18446744073709551615]", "[0,4]"), 4) ==
        "tensor 'x': the product of the shape overflows");
  CHECK(refusalOf(tensorHeader("F32", "[4294967296,4294967296]", "[0,0]")) ==
        "tensor 'x': the product of the shape overflows");
  CHECK(refusalOf(tensorHeader("F32", "[4611686018427387904]", "[0,0]")) ==
        "tensor 'x': the product of the shape overflows");
  CHECK(refusalOf(tensorHeader("F32", "[3]", "[0,8]"), 8) ==
        "tensor 'x': data_offsets [0, 8] do not hold the 12 bytes of its shape");
  CHECK(refusalOf(tensorHeader("F32", "[1]", "[8,4]"), 8) ==
        "tensor 'x': data_offsets [8, 4] do not hold the 4 bytes of its shape");
  CHECK(refusalOf(tensorHeader("F32", "[2]", "[0,8]"), 4) == "tensor 'x': data_offsets end at 8, the data has 4 bytes");
  CHECK(refusalOf(tensorHeader("F32", "[1]", "[4,8]"), 8) == "tensor 'x': a hole of 4 bytes before it");
  CHECK(refusalOf(tensorHeader("F32", "[1]", "[0,4]"), 8) == "4 bytes of data belong to no tensor");
  CHECK(refusalOf(tensorHeader("F32", "[1]", "[0]"), 4) == "tensor 'x': expected two data_offsets, found 1");
  CHECK(refusalOf(R"({"x":{"dtype":"F32","shape":[1]}})", 4) == "tensor 'x': 'data_offsets' is missing");
  CHECK(refusalOf(R"({"x":{"dtype":"F32","dtype":"F32"}})", 4) == "duplicate name 'dtype'");
}

TEST_CASE("two tensors of one name or one place are refused") {
  const std::string x = R"("x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  const std::string y = R"("y":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  CHECK(refusalOf("{" + x + "," + x + "}", 4) == "duplicate name 'x'");
  CHECK(refusalOf("{" + x + "," + y + "}", 8) == "tensor 'y': overlaps the tensor before it");
}

TEST_CASE("a name that is not UTF-8 cannot be written") {
  Parameters tensors;
  tensors.set("\xff", Tensor(DType::f32, {1}));
  CHECK_FALSE(safetensors::serialize(tensors));
}

TEST_CASE("a missing file is reported with its path") {
  CHECK(std::string(safetensors::File::read("/nonexistent/a.safetensors").error().what()) ==
        "/nonexistent/a.safetensors: No such file or directory");
  CHECK_FALSE(safetensors::File::read("/"));
  CHECK_FALSE(safetensors::write("/nonexistent/a.safetensors", {}));
}

TEST_CASE("parameters are saved and loaded through the public functions") {
  const std::string path = std::filesystem::temp_directory_path() / "yaglom-parameters.safetensors";
  Parameters parameters;
  parameters.set("f.W", Tensor(DType::f32, {2, 3}));
  parameters["f.W"].set(4, 0.25);
  saveSafetensors(path, parameters, {{"step", "7"}}).value();
  const SafetensorsContent content = loadSafetensors(path, DType::f64).value();
  CHECK(content.metadata.at("step") == "7");
  REQUIRE(content.tensors.size() == 1);
  CHECK(content.tensors["f.W"].dtype() == DType::f64);
  CHECK(content.tensors["f.W"].at(4) == 0.25);
  std::filesystem::remove(path);
  const Result<SafetensorsContent> gone = loadSafetensors(path);
  REQUIRE(!gone);
  CHECK_THAT(gone.error().what(), Catch::Contains(path));
}
