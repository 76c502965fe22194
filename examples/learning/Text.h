// Text as numbers: reading files, a training and a validation part, batches of windows, and a bigram model to compare with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Weight.h"

#include <yaglom/result.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

namespace learning {

/// A text whose bytes are numbered by the order in which they first occur.
struct Text {
  std::vector<int> training, validation;
  int alphabet = 0;         ///< how many different bytes occur
  uint64_t fingerprint = 0; ///< of the bytes
};

/// Windows of `tokens` characters one after another, and for every character the one that follows it.
struct Batch {
  std::vector<int> inputs, targets;
};

/// The licence texts that Debian ships: files, not links, in the order of their names.
inline std::vector<std::string> licenceTexts() {
  std::vector<std::string> paths;
  std::error_code none; // without the folder there are none
  for (const auto &entry : std::filesystem::directory_iterator("/usr/share/common-licenses", none))
    if (entry.is_regular_file() && !entry.is_symlink())
      paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

/// The files one after another; the last tenth is for validation. Throws yaglom::Error.
inline Text readText(const std::vector<std::string> &paths) {
  std::string bytes;
  for (const std::string &path : paths) {
    if (std::filesystem::is_directory(path))
      throw yaglom::Error(path + ": is a folder");
    std::ifstream stream(path, std::ios::binary);
    const size_t before = bytes.size();
    bytes.append(std::istreambuf_iterator<char>(stream), {});
    if (bytes.size() == before)
      throw yaglom::Error(path + ": cannot be read, or is empty");
  }
  Text text;
  std::array<int, 256> number;
  number.fill(-1);
  const size_t training = bytes.size() - bytes.size() / 10;
  for (size_t i = 0; i < bytes.size(); ++i) {
    int &known = number[static_cast<unsigned char>(bytes[i])];
    if (known < 0)
      known = text.alphabet++;
    (i < training ? text.training : text.validation).push_back(known);
    text.fingerprint = (text.fingerprint ^ static_cast<unsigned char>(bytes[i])) * 0x100000001b3; // FNV's
  }
  return text;
}

/// The windows of `part` that begin at `starts`.
inline Batch windows(const std::vector<int> &part, const std::vector<size_t> &starts, int64_t tokens) {
  Batch batch;
  for (size_t start : starts) {
    const auto first = part.begin() + std::ptrdiff_t(start);
    batch.inputs.insert(batch.inputs.end(), first, first + tokens);
    batch.targets.insert(batch.targets.end(), first + 1, first + tokens + 1);
  }
  return batch;
}

/// `count` windows that begin anywhere.
inline Batch randomWindows(const std::vector<int> &part, int64_t count, int64_t tokens, Random &random) {
  std::uniform_int_distribution<size_t> anywhere(0, part.size() - size_t(tokens) - 1);
  std::vector<size_t> starts(static_cast<size_t>(count));
  std::generate(starts.begin(), starts.end(), [&] { return anywhere(random); });
  return windows(part, starts, tokens);
}

/// All of `part` but an end shorter than a window, in batches of at most `count` windows side by side.
inline std::vector<Batch> allWindows(const std::vector<int> &part, int64_t count, int64_t tokens) {
  std::vector<Batch> batches;
  std::vector<size_t> starts;
  for (size_t start = 0; start + size_t(tokens) < part.size(); start += size_t(tokens)) {
    starts.push_back(start);
    if (starts.size() == size_t(count) || start + 2 * size_t(tokens) >= part.size()) {
      batches.push_back(windows(part, starts, tokens));
      starts.clear();
    }
  }
  return batches;
}

/// Nats a character of `batches` under p(b | a) = (count(ab) + s) / (count(a) + s alphabet), counted over the training part,
/// with the s among 1, 1/2, 1/4 .. that suits the batches best: no bigram model of this kind does better.
inline double bigramLoss(const Text &text, const std::vector<Batch> &batches) {
  using Counts = Matrix<double>;
  Counts counts = Counts::Zero(text.alphabet, text.alphabet), asked = counts;
  for (size_t i = 0; i + 1 < text.training.size(); ++i)
    counts(text.training[i], text.training[i + 1]) += 1;
  for (const Batch &batch : batches)
    for (size_t i = 0; i < batch.inputs.size(); ++i)
      asked(batch.inputs[i], batch.targets[i]) += 1;
  double best = std::numeric_limits<double>::infinity();
  for (int halvings = 0; halvings < 14; ++halvings) {
    const Counts smoothed = counts.array() + std::ldexp(1, -halvings);
    const Counts chance = smoothed.array().colwise() / smoothed.rowwise().sum().array();
    best = std::min(best, -(asked.array() * chance.array().log()).sum() / asked.sum());
  }
  return best;
}

} // namespace learning
