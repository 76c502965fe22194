// What is learned: a matrix with the sum of its gradients, and the view of both that optimisers and checkpoints share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <yaglom/tensor.h>

#include <Eigen/Core>

#include <cstdint>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace learning {

/// Row-major, as yaglom's tensors are. T is float to train, and double where a test compares with differences.
template <typename T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// The only source of chance; its state is part of a checkpoint.
using Random = std::mt19937_64;

/// The element type of yaglom for T.
template <typename T>
constexpr yaglom::DType kType = std::is_same_v<T, double> ? yaglom::DType::f64 : yaglom::DType::f32;

/// A learned tensor wherever it lies, in a matrix of Eigen or in a tensor of yaglom. The memory stays where it is.
template <typename T>
struct Learned {
  using Array = Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>>;

  std::string name;
  T *data;
  T *sums; ///< the gradients' sum
  yaglom::Shape shape;

  int64_t size() const {
    int64_t product = 1;
    for (int64_t axis : shape)
      product *= axis;
    return product;
  }
  Array value() const { return {data, size()}; }
  Array gradient() const { return {sums, size()}; }
};

/// A learned matrix.
template <typename T>
struct Weight {
  Weight(std::string name, Matrix<T> initial)
      : name(std::move(name)), value(std::move(initial)), gradient(Matrix<T>::Zero(value.rows(), value.cols())) {}

  Learned<T> learned() { return {name, value.data(), gradient.data(), {value.rows(), value.cols()}}; }

  std::string name;
  Matrix<T> value, gradient;
};

/// Independent normal entries of standard deviation `scale`.
template <typename T>
Matrix<T> gaussian(int64_t rows, int64_t columns, double scale, Random &random) {
  std::normal_distribution<double> normal(0, scale);
  return Matrix<T>::NullaryExpr(rows, columns, [&] { return T(normal(random)); });
}

/// Sets all sums of gradients to 0.
template <typename T>
void clearGradients(const std::vector<Learned<T>> &all) {
  for (const Learned<T> &tensor : all)
    tensor.gradient().setZero();
}

} // namespace learning
