// NumPy's files, good and hostile, images as sequences, and the classifier's gradients through draws against differences.
// SPDX-License-Identifier: Apache-2.0
#include "Images.h"
#include "SequenceClassifier.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numbers>
#include <string>
#include <vector>

#include <unistd.h>

using namespace learning;
using namespace std::string_literals;

namespace {

/// A file that vanishes with its test.
class Scratch {
public:
  explicit Scratch(const std::string &bytes)
      : path((std::filesystem::temp_directory_path() / ("yaglom-images-test-" + std::to_string(getpid()))).string()) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  Scratch(const Scratch &) = delete;
  Scratch &operator=(const Scratch &) = delete;
  ~Scratch() { std::filesystem::remove(path); }

  const std::string path;
};

/// The message of what `read` throws, without the file's name.
template <typename Read>
std::string refusal(const std::string &bytes, Read read) {
  const Scratch file(bytes);
  try {
    read(file.path);
  } catch (const yaglom::Error &error) {
    const std::string message = error.what();
    REQUIRE(message.starts_with(file.path + ":"));
    return message.substr(file.path.size() + 1);
  }
  return "accepted";
}

std::string npyRefusal(const std::string &bytes) { return refusal(bytes, readNpy); }

/// A file of version 1.0, or 2.0 where `wide`.
std::string npyFile(const std::string &header, const std::string &data, bool wide = false) {
  std::string bytes = "\x93NUMPY";
  bytes += wide ? '\2' : '\1';
  bytes += '\0';
  for (int i = 0; i < (wide ? 4 : 2); ++i)
    bytes += char(header.size() >> (8 * i) & 0xff);
  return bytes + header + data;
}

std::string header(const std::string &type, const std::string &shape) {
  return "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }      \n";
}

template <typename Element>
std::string bytesOf(const std::vector<Element> &elements) {
  return {reinterpret_cast<const char *>(elements.data()), elements.size() * sizeof(Element)};
}

template <typename Element>
void checkType(const std::string &type) {
  const Scratch file(npyFile(header(type, "(2, 3)"), bytesOf<Element>({0, 1, 2, 3, 4, 5}), type == "<f8"));
  const NpyArray array = readNpy(file.path);
  CHECK(array.shape == std::vector<int64_t>{2, 3});
  CHECK(array.values == std::vector<double>{0, 1, 2, 3, 4, 5});
}

} // namespace

TEST_CASE("npy: every element type and both versions are read") {
  checkType<float>("<f4");
  checkType<double>("<f8");
  checkType<int32_t>("<i4");
  checkType<int64_t>("<i8");
  checkType<uint8_t>("|u1");
  const Scratch file(npyFile("{'shape':(1,),'fortran_order':False,'descr':'|u1'}", "\7"));
  CHECK(readNpy(file.path).values == std::vector<double>{7});
}

TEST_CASE("npy: what a file says of itself is not believed") {
  const std::string eight(8, '\0');
  CHECK(npyRefusal("") == " is no .npy file");
  CHECK(npyRefusal(std::string(64, 'x')) == " is no .npy file");
  CHECK(npyRefusal("\x93NUMPY\3" + eight) == " has version 3, expected 1 or 2");
  CHECK(npyRefusal("\x93NUMPY\1\0\xff\xff{}"s) == " ends within its header");
  CHECK(npyRefusal("\x93NUMPY\2\0\xff\xff\xff\xff{}"s) == " ends within its header");
  CHECK(npyRefusal(npyFile(header("<f4", "(3,)"), eight)) == " is too short for its shape");
  CHECK(npyRefusal(npyFile(header("<f4", "(1,)"), eight)) == " is longer than its shape says");
  CHECK(npyRefusal(npyFile(header("<f4", "(4294967296, 4294967296)"), eight)) == " is too short for its shape");
  CHECK(npyRefusal(npyFile(header(">f4", "(2,)"), eight)) ==
        " has elements of type '>f4', expected <f4, <f8, <i4, <i8 or |u1");
  CHECK(npyRefusal(npyFile("{'descr': '<f4', 'fortran_order': True, 'shape': (2,)}", eight)) ==
        " is in Fortran's order; save numpy.ascontiguousarray(...) of it");
}

TEST_CASE("npy: a header that is no dictionary of the three entries is refused") {
  const std::string eight(8, '\0'), shape = " header: expected up to eight sizes of at least 1 as the shape";
  CHECK(npyRefusal(npyFile("", eight)) == " header: expected '{' before ''");
  CHECK(npyRefusal(npyFile("{'descr", eight)) == " header: expected ''' before ''");
  CHECK(npyRefusal(npyFile("{'descr': '<f4'}", eight)) ==
        " header: expected descr, fortran_order and shape, once each");
  CHECK(npyRefusal(npyFile("{'descr': '<f4', 'descr': '<f4', 'shape': (2,)}", eight)) ==
        " header: expected descr, fortran_order and shape, once each");
  CHECK(npyRefusal(npyFile("{'os': 'system'}", eight)) == " header: unknown key 'os'");
  CHECK(npyRefusal(npyFile(header("<f4", "(0,)"), eight)) == shape);
  CHECK(npyRefusal(npyFile(header("<f4", "(-2,)"), eight)) == shape);
  CHECK(npyRefusal(npyFile(header("<f4", "(99999999999999999999,)"), eight)) == shape);
  CHECK(npyRefusal(npyFile(header("<f4", "(1,1,1,1,1,1,1,1,1)"), eight)) == shape);
  CHECK(npyRefusal(npyFile(header("<f4", "(2"), eight)) == shape);
  CHECK(npyRefusal(npyFile(header("<f4", "(2 3)"), eight)) == " header: expected ')' before '3), }      \n'");
}

TEST_CASE("digits: a line that is none is refused by its number") {
  std::string line;
  for (int i = 0; i < 64; ++i)
    line += std::to_string(i % 17) + ",";
  const Scratch file(line + "7\n" + line + "0\n");
  const Images images = readDigits(file.path);
  CHECK(images.labels == std::vector<int>{7, 0});
  CHECK(images.pixels[64 + 20] == 3);

  const std::string expected = " expected 64 pixels from 0 to 16 and a digit";
  CHECK(refusal(line + "7\n" + line + "10\n", readDigits) == "2:" + expected);
  CHECK(refusal("17," + line + "\n", readDigits) == "1:" + expected);
  CHECK(refusal(line + "7,7\n", readDigits) == "1:" + expected);
  CHECK(refusal(line + "\n", readDigits) == "1:" + expected);
  CHECK(refusal("", readDigits) == " holds no digits");
}

TEST_CASE("sequences: patches hold their pixels, standardised, and their place") {
  // Two images of 4 x 6 pixels; only the first is learned from.
  Images images{.height = 4, .width = 6, .pixels = std::vector<float>(48), .labels = {0, 1}, .classes = 2};
  for (size_t i = 0; i < 24; ++i)
    images.pixels[i] = i % 2 ? 1 : -1; // mean 0, variance 1
  for (size_t i = 24; i < 48; ++i)
    images.pixels[i] = float(i - 24);
  const Sequences sequences = asSequences(images, {0}, 2, 0.5);
  REQUIRE(sequences.tokens == 6);
  REQUIRE(sequences.rows.rows() == 12);
  const Eigen::RowVectorXf last = 2 * sequences.rows.row(11); // second image, lower right patch
  CHECK(last.head(4) == Eigen::RowVector4f(16, 17, 22, 23));
  CHECK((last.tail(4) - Eigen::RowVector4f(1, 0, 1, 0)).norm() < 1e-6);

  CHECK(asSequences(images, {0}, 0, 1).rows.row(5).head(6) == Eigen::RowVectorXf::LinSpaced(6, 6, 11));
  CHECK_THROWS_WITH(asSequences(images, {0}, 4, 1), "patches of 4 pixels do not fill images of 4 x 6");
}

TEST_CASE("split: every image is on one side") {
  const Images images{.height = 1, .width = 1, .pixels = {}, .labels = std::vector<int>(23), .classes = 1};
  const Split split = splitImages(images, 3);
  CHECK(split.training.size() == 19);
  std::vector<int64_t> all = split.training;
  all.insert(all.end(), split.held.begin(), split.held.end());
  std::sort(all.begin(), all.end());
  for (size_t i = 0; i < all.size(); ++i)
    CHECK(all[i] == int64_t(i));
}

TEST_CASE("classifier: gradients of the perceptron and, through draws, of the flow agree with differences") {
  const yaglom::Spec spec = yaglom::Spec::parseFile(YAGLOM_LEARNING_DIR "/fska_ablation.phi").value();
  const yaglom::Kernel kernel =
      yaglom::compile(spec, "positive_flow", {.headDim = 5, .dims = {{"M", 6}}, .dtype = yaglom::DType::f64}).value();
  const int64_t tokens = 4;
  const std::vector<int> labels{2, 0, 1};
  Random random(1);
  SequenceClassifier<double> model(kernel, tokens, 5, {.heads = 2, .hidden = 6, .classes = 3, .seed = 8}, random);
  const Matrix<double> x = gaussian<double>(3 * tokens, 5, 1, random);
  const std::vector<Learned<double>> all = model.learned();
  for (const Learned<double> &weight : all) // away from initial values such as 0, where mistakes hide
    weight.value() += 0.1 * gaussian<double>(weight.size(), 1, 1, random).array();
  model.draw(9);
  model.measure(gaussian<double>(8 * tokens, 5, 1, random));

  const double factor = 0.1;
  const auto loss = [&] {
    model.draw(9);
    return crossEntropy(model.forward(x), labels) + factor * model.losses(4);
  };
  clearGradients(all);
  Matrix<double> gradient;
  crossEntropy(model.forward(x), labels, &gradient);
  model.backward(gradient);
  model.addLosses(factor, 4);
  for (const Learned<double> &weight : all)
    for (int64_t i = 0; i < weight.size(); i += std::max<int64_t>(1, weight.size() / 2)) {
      const double kept = weight.data[i], h = 1e-5;
      weight.data[i] = kept + h;
      const double above = loss();
      weight.data[i] = kept - h;
      const double below = loss();
      weight.data[i] = kept;
      INFO(weight.name << "[" << i << "]");
      CHECK(weight.sums[i] == Approx((above - below) / (2 * h)).epsilon(1e-5).margin(1e-8));
    }
}
