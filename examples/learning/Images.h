// Labelled images: the digits of scikit-learn or NumPy's arrays, and each of them as a sequence of patches.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Npy.h"
#include "Weight.h"

#include <yaglom/result.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <numbers>
#include <numeric>
#include <string>
#include <vector>

namespace learning {

/// Grey images of one size, one after another, row by row.
struct Images {
  int64_t height = 0, width = 0;
  std::vector<float> pixels;
  std::vector<int> labels; ///< 0 .. classes - 1
  int classes = 0;

  int64_t count() const { return int64_t(labels.size()); }
};

/// A row a token: sequence i has the rows i * tokens .. (i + 1) * tokens - 1.
struct Sequences {
  int64_t tokens = 0;
  Matrix<float> rows;
};

/// Indices of the images to learn from and of those held out.
struct Split {
  std::vector<int64_t> training, held;
};

/// Reads scikit-learn's digits: a line an image, 64 pixels from 0 to 16 and its label. Throws yaglom::Error.
inline Images readDigits(const std::string &path) {
  std::ifstream stream(path);
  if (!stream)
    throw yaglom::Error(path + ": cannot be read; scripts/fetch-digits brings it");
  Images images{.height = 8, .width = 8, .pixels = {}, .labels = {}, .classes = 10};
  std::string line;
  for (int64_t number = 1; std::getline(stream, line); ++number) {
    const char *at = line.data(), *end = at + line.size();
    for (int column = 0; column < 65; ++column) {
      int value = -1;
      const auto [next, error] = std::from_chars(at, end, value);
      const bool last = column == 64, ends = last ? next == end : next != end && *next == ',';
      if (error != std::errc() || !ends || value < 0 || value > (last ? 9 : 16))
        throw yaglom::Error(path + ":" + std::to_string(number) + ": expected 64 pixels from 0 to 16 and a digit");
      if (last)
        images.labels.push_back(value);
      else
        images.pixels.push_back(float(value));
      at = next + !last;
    }
  }
  if (images.labels.empty())
    throw yaglom::Error(path + ": holds no digits");
  return images;
}

/// Reads arrays [count, height, width] and [count], labels from 0. Throws yaglom::Error.
inline Images readImages(const std::string &imagePath, const std::string &labelPath) {
  const NpyArray pixels = readNpy(imagePath), labels = readNpy(labelPath);
  if (pixels.shape.size() != 3)
    throw yaglom::Error(imagePath + ": expected three axes: images, height and width");
  if (labels.shape.size() != 1 || labels.shape[0] != pixels.shape[0])
    throw yaglom::Error(labelPath + ": expected one axis of " + std::to_string(pixels.shape[0]) + " labels");
  Images images{.height = pixels.shape[1], .width = pixels.shape[2], .pixels = {}, .labels = {}, .classes = 0};
  for (double pixel : pixels.values) {
    if (!std::isfinite(float(pixel)))
      throw yaglom::Error(imagePath + ": holds a number that is no finite float");
    images.pixels.push_back(float(pixel));
  }
  for (double label : labels.values) {
    if (!(label >= 0 && label < 1000) || label != std::floor(label))
      throw yaglom::Error(labelPath + ": expected whole numbers from 0 to 999");
    images.labels.push_back(int(label));
    images.classes = std::max(images.classes, int(label) + 1);
  }
  return images;
}

/// A fifth at random is held out, the same fifth for the same seed.
inline Split splitImages(const Images &images, uint64_t seed) {
  std::vector<int64_t> order(size_t(images.count()));
  std::iota(order.begin(), order.end(), 0);
  Random random(seed);
  std::shuffle(order.begin(), order.end(), random);
  const auto middle = order.end() - images.count() / 5;
  return {{order.begin(), middle}, {middle, order.end()}};
}

/// Cuts images into squares of `patch` pixels; 0 takes every row as a token, which suits any other sequences as well. Pixels
/// are brought to mean 0 and variance 1 over the training images; sin and cos of the place, from -pi/2 to pi/2 on
/// each axis, follow; all is multiplied by `scale`. Throws yaglom::Error where patches do not fit.
inline Sequences asSequences(const Images &images, const std::vector<int64_t> &training, int64_t patch, double scale) {
  const int64_t high = patch ? patch : 1, wide = patch ? patch : images.width;
  if (images.height % high || images.width % wide)
    throw yaglom::Error("patches of " + std::to_string(patch) + " pixels do not fill images of " +
                        std::to_string(images.height) + " x " + std::to_string(images.width));
  const int64_t size = images.height * images.width, down = images.height / high, across = images.width / wide;

  Eigen::Map<const Matrix<float>> all(images.pixels.data(), images.count(), size);
  double sum = 0, squares = 0;
  for (int64_t i : training) {
    sum += double(all.row(i).sum());
    squares += double(all.row(i).squaredNorm());
  }
  const double mean = sum / double(size * int64_t(training.size()));
  const double variance = squares / double(size * int64_t(training.size())) - mean * mean;
  const Matrix<float> normal = (all.array() - float(mean)) / float(std::sqrt(std::max(variance, 1e-12)));

  Sequences sequences{down * across, Matrix<float>(images.count() * down * across, high * wide + 4)};
  const auto angle = [](int64_t place, int64_t places) {
    return places == 1 ? 0.f : std::numbers::pi_v<float> * (float(place) / float(places - 1) - 0.5f);
  };
  for (int64_t i = 0; i < sequences.rows.rows(); ++i) {
    const int64_t place = i % sequences.tokens, y = place / across, x = place % across;
    auto row = sequences.rows.row(i);
    const auto image = normal.row(i / sequences.tokens).reshaped<Eigen::RowMajor>(images.height, images.width);
    row.head(high * wide) = image.block(y * high, x * wide, high, wide).reshaped<Eigen::RowMajor>();
    const float v = angle(y, down), u = angle(x, across);
    row.tail(4) << std::sin(v), std::cos(v), std::sin(u), std::cos(u);
  }
  sequences.rows *= float(scale);
  return sequences;
}

/// The sequences of the images `ids`, one after another.
inline Matrix<float> gather(const Sequences &sequences, const std::vector<int64_t> &ids) {
  Matrix<float> rows(int64_t(ids.size()) * sequences.tokens, sequences.rows.cols());
  for (size_t i = 0; i < ids.size(); ++i)
    rows.middleRows(int64_t(i) * sequences.tokens, sequences.tokens) =
        sequences.rows.middleRows(ids[i] * sequences.tokens, sequences.tokens);
  return rows;
}

} // namespace learning
