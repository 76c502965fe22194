// The layers around an attention, and their gradients, as matrix expressions of Eigen; a row is a token.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Weight.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace learning {

// Every layer keeps what its gradient needs: backward() belongs to the latest forward(). It adds the gradients of the layer's
// weights to their sums and returns the gradient of the input.

/// y = x W + b
template <typename T>
class Linear {
public:
  /// W ~ N(0, scale^2 / inputs), b = 0.
  Linear(const std::string &name, int64_t inputs, int64_t outputs, Random &random, double scale = 1)
      : weight(name + ".weight", gaussian<T>(inputs, outputs, scale / std::sqrt(double(inputs)), random)),
        bias(name + ".bias", Matrix<T>::Zero(1, outputs)) {}

  Matrix<T> forward(const Matrix<T> &x) {
    input = x;
    Matrix<T> y = x * weight.value;
    y.rowwise() += bias.value.row(0);
    return y;
  }

  Matrix<T> backward(const Matrix<T> &gradient) {
    weight.gradient.noalias() += input.transpose() * gradient;
    bias.gradient += gradient.colwise().sum();
    return gradient * weight.value.transpose();
  }

  void collect(std::vector<Learned<T>> &all) {
    all.push_back(weight.learned());
    all.push_back(bias.learned());
  }

private:
  Weight<T> weight, bias;
  Matrix<T> input;
};

/// y = (x - mean) / standard deviation * gain + bias, for every row
template <typename T>
class LayerNorm {
public:
  LayerNorm(const std::string &name, int64_t width, double initialGain = 1)
      : gain(name + ".gain", Matrix<T>::Constant(1, width, T(initialGain))),
        bias(name + ".bias", Matrix<T>::Zero(1, width)) {}

  Matrix<T> forward(const Matrix<T> &x) {
    normal = x.colwise() - x.rowwise().mean();
    scale = (normal.array().square().rowwise().mean() + T(1e-5)).rsqrt();
    normal.array().colwise() *= scale;
    return (normal.array().rowwise() * gain.value.row(0).array()).rowwise() + bias.value.row(0).array();
  }

  Matrix<T> backward(const Matrix<T> &gradient) {
    gain.gradient += (gradient.array() * normal.array()).matrix().colwise().sum();
    bias.gradient += gradient.colwise().sum();
    Matrix<T> result = gradient.array().rowwise() * gain.value.row(0).array();
    const Column along = (result.array() * normal.array()).rowwise().mean();
    const Column mean = result.array().rowwise().mean();
    result.array() -= normal.array().colwise() * along;
    result.array().colwise() -= mean;
    result.array().colwise() *= scale;
    return result;
  }

  void collect(std::vector<Learned<T>> &all) {
    all.push_back(gain.learned());
    all.push_back(bias.learned());
  }

private:
  using Column = Eigen::Array<T, Eigen::Dynamic, 1>;
  Weight<T> gain, bias;
  Matrix<T> normal; ///< the input at mean 0 and standard deviation 1
  Column scale;     ///< 1 / standard deviation
};

/// y = x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), the form of GELU by tanh (Hendrycks and Gimpel 2016)
template <typename T>
class Gelu {
public:
  Matrix<T> forward(const Matrix<T> &x) {
    input = x;
    tanh = (kSlope * x.array() * (1 + kCubic * x.array().square())).tanh();
    return x.array() / 2 * (1 + tanh.array());
  }

  Matrix<T> backward(const Matrix<T> &gradient) const {
    const auto x = input.array();
    const auto t = tanh.array();
    return gradient.array() / 2 * (1 + t + x * (1 - t.square()) * kSlope * (1 + 3 * kCubic * x.square()));
  }

private:
  static constexpr T kSlope = T(0.7978845608028654), kCubic = T(0.044715);
  Matrix<T> input, tanh;
};

/// The right half of y's columns is that of the token before, 0 for the first of a sequence (Peng et al. 2023): whatever is
/// computed from y knows a token's predecessor.
template <typename T>
class Shift {
public:
  Matrix<T> forward(Matrix<T> x, int64_t tokensOfSequence) {
    tokens = tokensOfSequence;
    const Eigen::Index moved = x.rows() - 1, half = x.cols() / 2;
    x.bottomRightCorner(moved, half) = x.topRightCorner(moved, half).eval();
    x(Eigen::seqN(0, x.rows() / tokens, tokens), Eigen::lastN(half)).setZero();
    return x;
  }

  Matrix<T> backward(Matrix<T> gradient) const {
    const Eigen::Index moved = gradient.rows() - 1, half = gradient.cols() / 2;
    gradient.topRightCorner(moved, half) = gradient.bottomRightCorner(moved, half).eval();
    gradient(Eigen::seqN(tokens - 1, gradient.rows() / tokens, tokens), Eigen::lastN(half)).setZero();
    return gradient;
  }

private:
  int64_t tokens = 1;
};

/// Row y_i is row ids[i] of a learned table.
template <typename T>
class Embedding {
public:
  Embedding(const std::string &name, Matrix<T> table) : table(name, std::move(table)) {}

  Matrix<T> forward(const std::vector<int> &ids) {
    latest = ids;
    return table.value(ids, Eigen::all);
  }

  void backward(const Matrix<T> &gradient) {
    for (size_t i = 0; i < latest.size(); ++i) // one row may stand at many places, so their sum has an order
      table.gradient.row(latest[i]) += gradient.row(Eigen::Index(i));
  }

  void collect(std::vector<Learned<T>> &all) { all.push_back(table.learned()); }

private:
  Weight<T> table;
  std::vector<int> latest;
};

/// The mean over rows of -log softmax(logits)[target], in nats; *gradient, if given, becomes its gradient.
template <typename T>
double crossEntropy(const Matrix<T> &logits, const std::vector<int> &targets, Matrix<T> *gradient = nullptr) {
  const Eigen::Index rows = logits.rows();
  Matrix<T> shifted = logits.colwise() - logits.rowwise().maxCoeff();
  double loss = 0;
  for (Eigen::Index i = 0; i < rows; ++i)
    loss -= shifted(i, targets[i]);
  shifted = shifted.array().exp();
  const Eigen::Array<T, Eigen::Dynamic, 1> sums = shifted.rowwise().sum();
  loss += sums.template cast<double>().log().sum();
  if (gradient) {
    *gradient = shifted.array().colwise() / (sums * T(rows));
    for (Eigen::Index i = 0; i < rows; ++i)
      (*gradient)(i, targets[i]) -= 1 / T(rows);
  }
  return loss / double(rows);
}

} // namespace learning
