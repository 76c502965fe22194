// A model of the next character: embeddings of characters and places, blocks with attention, and a projection to the alphabet.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Block.h"
#include "Layers.h"
#include "Text.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace learning {

/// Row p holds sin and cos of p at wavelengths from 2 pi to 2 pi 10^4 tokens (Vaswani et al. 2017).
template <typename T>
Matrix<T> waves(int64_t places, int64_t width) {
  return Matrix<T>::NullaryExpr(places, width, [width](Eigen::Index p, Eigen::Index i) {
    const double angle = double(p) * std::pow(1e-4, double(i - i % 2) / double(width));
    return T(i % 2 ? std::cos(angle) : std::sin(angle));
  });
}

template <typename T>
class LanguageModel {
public:
  struct Options {
    int64_t layers = 2, width = 128, heads = 4, context = 256;
    uint64_t seed = 1; ///< of the kernels' parameters and draws
    int threads = 0;   ///< of the kernels
  };

  LanguageModel(const yaglom::Kernel &kernel, int alphabet, const Options &options, Random &random)
      : options(options), characters("characters", gaussian<T>(alphabet, options.width, 1, random)),
        places("places", waves<T>(options.context, options.width)), norm("norm", options.width),
        head("head", options.width, alphabet, random, 0.1) {
    for (int64_t i = 0; i < options.layers; ++i)
      blocks.emplace_back("block" + std::to_string(i), kernel, options.width,
                          typename Attention<T>::Options{.heads = options.heads,
                                                         .seed = options.seed + uint64_t(i),
                                                         .inputScale = kInputScale,
                                                         .shift = true,
                                                         .threads = options.threads},
                          random);
  }

  /// Whether the attention lets a token see later ones: then a small loss would mean nothing.
  bool looksAhead() { return blocks[0].attention.seesLater(options.width); }

  /// The mean loss of a batch of windows as long as the context, in nats a character.
  double loss(const Batch &batch) { return crossEntropy(logits(batch), batch.targets); }

  /// The same, and adds the gradients of all weights.
  double learn(const Batch &batch) {
    Matrix<T> gradient;
    const double result = crossEntropy(logits(batch), batch.targets, &gradient);
    gradient = norm.backward(head.backward(gradient));
    for (auto block = blocks.rbegin(); block != blocks.rend(); ++block)
      gradient = block->backward(gradient);
    places.backward(gradient);
    characters.backward(gradient);
    return result;
  }

  /// Makes random features follow what their samplers have learned.
  void draw() {
    for (Block<T> &block : blocks)
      block.attention.draw();
  }

  std::vector<Learned<T>> learned() {
    std::vector<Learned<T>> all;
    characters.collect(all);
    places.collect(all);
    for (Block<T> &block : blocks)
      block.collect(all);
    norm.collect(all);
    head.collect(all);
    return all;
  }

private:
  Matrix<T> logits(const Batch &batch) {
    std::vector<int> places(batch.inputs.size());
    for (size_t i = 0; i < places.size(); ++i)
      places[i] = int(int64_t(i) % options.context);
    Matrix<T> x = characters.forward(batch.inputs) + this->places.forward(places);
    for (Block<T> &block : blocks)
      x = block.forward(x, options.context);
    return head.forward(norm.forward(x));
  }

  /// A kernel exp(q . k) estimated from random features is noise unless |q| and |k| are modest; training may enlarge them.
  static constexpr double kInputScale = 0.25;

  Options options;
  Embedding<T> characters, places;
  std::vector<Block<T>> blocks;
  LayerNorm<T> norm;
  Linear<T> head;
};

} // namespace learning
