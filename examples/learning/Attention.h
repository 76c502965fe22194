// A layer of heads around any attention that yaglom compiles: projections, the kernel by strides, gradients of its parameters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "KernelWeights.h"
#include "Layers.h"

#include <yaglom/yaglom.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace learning {

/// y = concatenation over heads of attention(Q, K, V, ...) times a matrix, where every input is a projection of x.
///
/// Q and K are normalised head by head, so that no kernel meets exponents that training has not made. Inputs beside Q, K and
/// V, such as the gates of rfa_gated and polaformer, go through a sigmoid.
template <typename T>
class Attention {
public:
  struct Options {
    int64_t heads = 4;
    uint64_t seed = 0;     ///< of the kernel's initial parameters and draws
    double inputScale = 1; ///< initial standard deviation of the entries of Q and K
    bool shift = false;    ///< the projections see half of their columns a token late (Layers.h)
    int threads = 0;       ///< 0 means one a core; any number gives the same bits
  };

  /// The kernel must be of element type T. Its widths need not divide `width`, the row's.
  Attention(const std::string &name, yaglom::Kernel compiled, int64_t width, const Options &options, Random &random)
      : kernel(std::move(compiled)), options(options), name(name),
        parameters(kernel.initialParameters(options.heads, options.seed)), weights(kernel, parameters),
        merge(name + ".merge", options.heads * outputWidth(), width, random) {
    for (const yaglom::TensorInfo &tensor : kernel.tensors())
      if (tensor.role == yaglom::TensorRole::Input)
        inputs.emplace_back(tensor, name, width, options, random);
  }

  /// x: [batch * tokens, width], sequence after sequence.
  Matrix<T> forward(const Matrix<T> &x, int64_t tokensOfSequence) {
    tokens = tokensOfSequence;
    const Matrix<T> seen = options.shift ? shift.forward(x, tokens) : x;
    for (Input &input : inputs)
      input.forward(seen, options.heads);
    Matrix<T> output(x.rows(), options.heads * outputWidth());
    kernel.forward(references(), parameters, byHeads(output, outputWidth(), false),
                   {.threads = options.threads, .residual = &residual});
    return merge.forward(output);
  }

  Matrix<T> backward(const Matrix<T> &gradient) {
    const Matrix<T> outputGradient = merge.backward(gradient);
    const yaglom::Gradients gradients =
        kernel.backward(references(), parameters, byHeads(outputGradient, outputWidth(), false),
                        {.threads = options.threads, .seed = options.seed, .residual = &residual});
    weights.add(gradients);
    Matrix<T> result = Matrix<T>::Zero(gradient.rows(), gradient.cols());
    for (Input &input : inputs)
      result += input.backward(rows(gradients["grad." + input.name], input.width), options.heads);
    return options.shift ? shift.backward(result) : result;
  }

  /// Whether some row of the result depends on a later token, tried on random rows.
  bool seesLater(int64_t width) {
    Random random(options.seed);
    Matrix<T> x = gaussian<T>(8, width, 1, random);
    const Matrix<T> before = forward(x, 8);
    x.row(7) *= -1;
    return !before.topRows(7).isApprox(forward(x, 8).topRows(7), T(1e-4));
  }

  /// Makes the draws again from the same noise: they follow what their samplers have learned.
  void draw() { kernel.draw(parameters, options.seed); }

  /// The projections' weights and the kernel's learned parameters; draws are not among them.
  void collect(std::vector<Learned<T>> &all) {
    for (Input &input : inputs)
      input.collect(all);
    weights.collect(name + ".", parameters, all);
    merge.collect(all);
  }

private:
  /// One input of the kernel: a projection of the row, and what makes it fit.
  struct Input {
    Input(const yaglom::TensorInfo &tensor, const std::string &owner, int64_t rowWidth, const Options &options,
          Random &random)
        : name(tensor.name), scalar(tensor.axes.size() == 3), width(scalar ? 1 : std::stoll(tensor.axes.back())),
          projection(owner + "." + name, rowWidth, options.heads * width, random) {
      if (name == "Q" || name == "K")
        norm.emplace(owner + "." + name + ".norm", width, options.inputScale);
      gate = name != "Q" && name != "K" && name != "V";
    }

    void forward(const Matrix<T> &x, int64_t heads) {
      value = projection.forward(x);
      if (norm) {
        value.resize(x.rows() * heads, width); // a row a head: the same memory
        value = norm->forward(value);
        value.resize(x.rows(), heads * width);
      }
      if (gate)
        value = value.array().logistic();
    }

    Matrix<T> backward(Matrix<T> gradient, int64_t heads) {
      const int64_t count = gradient.rows();
      if (gate)
        gradient.array() *= value.array() * (1 - value.array());
      if (norm) {
        gradient.resize(count * heads, width);
        gradient = norm->backward(gradient);
        gradient.resize(count, heads * width);
      }
      return projection.backward(gradient);
    }

    void collect(std::vector<Learned<T>> &all) {
      projection.collect(all);
      if (norm)
        norm->collect(all);
    }

    std::string name;
    bool scalar;
    int64_t width; ///< of one head
    Linear<T> projection;
    std::optional<LayerNorm<T>> norm;
    bool gate = false;
    Matrix<T> value;
  };

  int64_t outputWidth() const {
    for (const yaglom::TensorInfo &tensor : kernel.tensors())
      if (tensor.role == yaglom::TensorRole::Output)
        return std::stoll(tensor.axes.back());
    return 0;
  }

  /// Rows [batch * tokens, heads * width] as the kernel's [batch, heads, tokens, width], without a copy.
  template <typename M>
  yaglom::TensorRef byHeads(M &matrix, int64_t width, bool scalar) const {
    const int64_t row = matrix.cols();
    yaglom::Shape shape{matrix.rows() / tokens, options.heads, tokens}, strides{tokens * row, width, row};
    if (!scalar) {
      shape.push_back(width);
      strides.push_back(1);
    }
    return {matrix.data(), shape, strides};
  }

  std::vector<yaglom::TensorRef> references() const {
    std::vector<yaglom::TensorRef> result;
    for (const Input &input : inputs)
      result.push_back(byHeads(input.value, input.width, input.scalar));
    return result;
  }

  /// The way back: gradients come as dense [batch, heads, tokens, width].
  Matrix<T> rows(const yaglom::Tensor &tensor, int64_t width) const {
    const int64_t heads = options.heads, batch = tensor.shape()[0];
    const T *data = static_cast<const T *>(tensor.data());
    Matrix<T> result(batch * tokens, heads * width);
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t h = 0; h < heads; ++h)
        result.block(b * tokens, h * width, tokens, width) =
            Eigen::Map<const Matrix<T>>(data + (b * heads + h) * tokens * width, tokens, width);
    return result;
  }

  yaglom::Kernel kernel;
  Options options;
  std::string name;
  yaglom::Parameters parameters;
  KernelWeights<T> weights;
  Shift<T> shift;
  std::vector<Input> inputs;
  Linear<T> merge;
  int64_t tokens = 0;
  yaglom::Residual residual; ///< states that forward() leaves to backward()
};

} // namespace learning
