// Classifies sequences by attention alone: raw tokens are queries, keys and, turned, values; a perceptron sees their mean.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "KernelWeights.h"
#include "Layers.h"

#include <yaglom/yaglom.h>

#include <Eigen/QR>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace learning {

/// y = (x - mean) / standard deviation, column by column, both measured once, before training.
///
/// What attention tells apart is a small part of a mean over tokens; unscaled, a perceptron would be slow to find it.
template <typename T>
class Standardise {
public:
  void measure(const Matrix<T> &x) {
    mean = x.colwise().mean();
    scale = ((x.rowwise() - mean).array().square().colwise().mean() + T(1e-8)).rsqrt();
  }
  Matrix<T> forward(const Matrix<T> &x) const { return (x.rowwise() - mean) * scale.asDiagonal(); }
  Matrix<T> backward(const Matrix<T> &gradient) const { return gradient * scale.asDiagonal(); }

private:
  Eigen::Matrix<T, 1, Eigen::Dynamic> mean, scale;
};

/// An orthogonal matrix, uniformly distributed up to signs.
template <typename T>
Matrix<T> orthogonal(int64_t width, Random &random) {
  return Matrix<T>(gaussian<T>(width, width, 1, random).householderQr().householderQ());
}

template <typename T>
class SequenceClassifier {
public:
  struct Options {
    int64_t heads = 8, hidden = 64, classes = 10;
    uint64_t seed = 0; ///< of the kernel's initial parameters and draws
    int threads = 1;
  };

  /// The kernel must be of element type T, and take queries, keys and values as wide as a token.
  SequenceClassifier(yaglom::Kernel compiled, int64_t tokens, int64_t width, const Options &options, Random &random)
      : kernel(std::move(compiled)), options(options), tokens(tokens), width(width),
        parameters(kernel.initialParameters(options.heads, options.seed)), weights(kernel, parameters),
        drawSeed(options.seed), turns(width, options.heads * width),
        hidden("hidden", options.heads * width, options.hidden, random),
        out("out", options.hidden, options.classes, random) {
    for (int64_t head = 0; head < options.heads; ++head)
      turns.middleCols(head * width, width) = orthogonal<T>(width, random);
  }

  /// Measures the scale of what attention returns for x, with the present draws.
  void measure(const Matrix<T> &x) { scaling.measure(attend(x)); }

  /// x: [images * tokens, width]; returns logits [images, classes].
  Matrix<T> forward(const Matrix<T> &x) {
    return out.forward(gelu.forward(hidden.forward(scaling.forward(attend(x)))));
  }

  /// Adds the gradients of the perceptron and, through the draws, of the kernel's parameters.
  void backward(const Matrix<T> &gradient) {
    Matrix<T> pooled = scaling.backward(hidden.backward(gelu.backward(out.backward(gradient))));
    if (weights.empty())
      return; // a fixed spectrum: nothing below learns
    pooled /= T(tokens);
    // Every token has the same gradient, by a stride of 0.
    const yaglom::TensorRef everyToken{
        pooled.data(), {pooled.rows(), options.heads, tokens, width}, {pooled.cols(), width, 0, 1}};
    weights.add(kernel.backward({query(), query(), byHeads(values)}, parameters, everyToken,
                                {.threads = options.threads, .seed = drawSeed}));
  }

  /// Draws the features again: with another seed other ones, with the same one what a learned spectrum now gives.
  void draw(uint64_t seed) { kernel.draw(parameters, drawSeed = seed); }

  /// Adds `factor` times the gradients of the spec's losses that concern this attention.
  void addLosses(double factor, uint64_t seed) {
    for (const std::string &loss : kernel.losses())
      weights.add(kernel.lossGradient(loss, parameters, seed), T(factor));
  }

  /// The sum of these losses over heads, which takes longer than their gradients.
  double losses(uint64_t seed) const {
    double sum = 0;
    for (const std::string &loss : kernel.losses())
      for (double head : kernel.loss(loss, parameters, seed))
        sum += head;
    return sum;
  }

  /// All that learns: the perceptron, and what the kernel's spectra are made by.
  std::vector<Learned<T>> learned() {
    std::vector<Learned<T>> all;
    weights.collect("", parameters, all);
    hidden.collect(all);
    out.collect(all);
    return all;
  }

private:
  /// The mean over tokens of every head's output: [images, heads * width].
  Matrix<T> attend(const Matrix<T> &x) {
    input = x;
    values = x * turns;
    Matrix<T> output(values.rows(), values.cols());
    kernel.forward({query(), query(), byHeads(values)}, parameters, byHeads(output), {.threads = options.threads});
    Matrix<T> pooled(x.rows() / tokens, values.cols());
    for (int64_t i = 0; i < pooled.rows(); ++i)
      pooled.row(i) = output.middleRows(i * tokens, tokens).colwise().mean();
    return pooled;
  }

  /// Raw tokens, the same for every head by a stride of 0.
  yaglom::TensorRef query() const {
    return {input.data(), {input.rows() / tokens, options.heads, tokens, width}, {tokens * width, 0, width, 1}};
  }

  /// Rows [images * tokens, heads * width] as the kernel's [images, heads, tokens, width], without a copy.
  yaglom::TensorRef byHeads(Matrix<T> &matrix) const {
    const int64_t row = matrix.cols();
    return {matrix.data(), {matrix.rows() / tokens, options.heads, tokens, width}, {tokens * row, width, row, 1}};
  }

  yaglom::Kernel kernel;
  Options options;
  int64_t tokens, width;
  yaglom::Parameters parameters;
  KernelWeights<T> weights;
  uint64_t drawSeed;
  Matrix<T> turns; ///< the fixed value projections, head beside head
  Standardise<T> scaling;
  Linear<T> hidden, out;
  Gelu<T> gelu;
  Matrix<T> input, values;
};

} // namespace learning
