// Adam, the norm at which gradients are clipped, and the rate's schedule.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Weight.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <utility>
#include <vector>

namespace learning {

/// Scales all gradients together to the Euclidean norm `limit` where it is larger; returns the norm before.
template <typename T>
double clipGradients(const std::vector<Learned<T>> &all, double limit) {
  double squares = 0;
  for (const Learned<T> &tensor : all)
    squares += double(tensor.gradient().matrix().squaredNorm());
  const double norm = std::sqrt(squares);
  if (norm > limit)
    for (const Learned<T> &tensor : all)
      tensor.gradient() *= T(limit / norm);
  return norm;
}

/// The rate of step 0 .. steps - 1: rises linearly for `warmup` steps to `peak`, falls by a cosine to a tenth of it.
inline double cosineRate(int64_t step, int64_t steps, int64_t warmup, double peak) {
  if (step < warmup)
    return peak * double(step + 1) / double(warmup);
  const double done = double(step - warmup) / double(std::max<int64_t>(1, steps - warmup));
  return peak * (0.1 + 0.45 * (1 + std::cos(std::numbers::pi * done)));
}

/// Adam (Kingma and Ba 2015) with decoupled weight decay (Loshchilov and Hutter 2019) over tensors that outlive it.
template <typename T>
class Adam {
public:
  struct Options {
    double first = 0.9, second = 0.99; ///< what the moments keep a step
    double epsilon = 1e-8;
    double decay = 0; ///< of every weight, relative, a step of rate 1
  };

  explicit Adam(std::vector<Learned<T>> learned, Options options = {}) : all(std::move(learned)), options(options) {
    for (const Learned<T> &tensor : all) {
      first.emplace_back(Array::Zero(tensor.size()));
      second.emplace_back(Array::Zero(tensor.size()));
    }
  }

  /// Moves every tensor against its gradient, which stays.
  void step(double rate) {
    ++taken;
    const T unbias = T(1 / (1 - std::pow(options.first, double(taken))));
    const T unbiasSquare = T(1 / (1 - std::pow(options.second, double(taken))));
    const T a = T(options.first), b = T(options.second);
    for (size_t i = 0; i < all.size(); ++i) {
      const auto gradient = all[i].gradient();
      first[i] = a * first[i] + (1 - a) * gradient;
      second[i] = b * second[i] + (1 - b) * gradient.square();
      all[i].value() = T(1 - rate * options.decay) * all[i].value() -
                       T(rate) * (unbias * first[i]) / ((unbiasSquare * second[i]).sqrt() + T(options.epsilon));
    }
  }

  const std::vector<Learned<T>> &learned() const { return all; }

  // What a checkpoint keeps: steps taken, and two moments a tensor in the order of learned().
  using Array = Eigen::Array<T, Eigen::Dynamic, 1>;
  int64_t taken = 0;
  std::vector<Array> first, second;

private:
  std::vector<Learned<T>> all;
  Options options;
};

} // namespace learning
