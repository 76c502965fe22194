// One layer of a transformer, normalised before its parts: x + attention(norm(x)), then x + mlp(norm(x)).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Attention.h"
#include "Layers.h"

#include <cstdint>
#include <string>
#include <vector>

namespace learning {

template <typename T>
struct Block {
  /// The hidden layer of the perceptron is four times as wide as the row.
  Block(const std::string &name, const yaglom::Kernel &kernel, int64_t width, const Attention<T>::Options &options,
        Random &random)
      : attentionNorm(name + ".attention.norm", width), attention(name + ".attention", kernel, width, options, random),
        mlpNorm(name + ".mlp.norm", width), up(name + ".mlp.up", width, 4 * width, random),
        down(name + ".mlp.down", 4 * width, width, random) {}

  Matrix<T> forward(const Matrix<T> &x, int64_t tokens) {
    const Matrix<T> y = x + attention.forward(attentionNorm.forward(x), tokens);
    return y + down.forward(gelu.forward(up.forward(mlpNorm.forward(y))));
  }

  Matrix<T> backward(const Matrix<T> &gradient) {
    const Matrix<T> y = gradient + mlpNorm.backward(up.backward(gelu.backward(down.backward(gradient))));
    return y + attentionNorm.backward(attention.backward(y));
  }

  void collect(std::vector<Learned<T>> &all) {
    attentionNorm.collect(all);
    attention.collect(all);
    mlpNorm.collect(all);
    up.collect(all);
    down.collect(all);
  }

  LayerNorm<T> attentionNorm;
  Attention<T> attention;
  LayerNorm<T> mlpNorm;
  Linear<T> up;
  Gelu<T> gelu;
  Linear<T> down;
};

} // namespace learning
