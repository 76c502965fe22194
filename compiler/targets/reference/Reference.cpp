// The reference interpreter's entry points: loops over batch and heads around the evaluation of one head.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/reference/Reference.h"

#include "compiler/targets/reference/HeadTensors.h"
#include "compiler/targets/reference/Sampler.h"

#include <algorithm>

namespace yaglom::reference {

std::string toText(const std::vector<int64_t> &shape) {
  std::string text;
  for (int64_t size : shape)
    text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

std::vector<int64_t> perHead(bool shared, int64_t heads, std::vector<int64_t> shape) {
  if (!shared)
    shape.insert(shape.begin(), heads);
  return shape;
}

namespace {

/// Sizes that are known only from the inputs: batch, and heads and length of each side.
struct Sizes {
  int64_t batch = 0;
  int64_t heads[2] = {}; ///< query, key
  int64_t rows[2] = {};
};

/// Index of a side in Sizes.
int sideOf(const InputInfo &input) { return input.side == Side::Key ? 1 : 0; }

/// Takes the sizes from the first input of each side and requires that the others agree.
template <typename T>
Sizes checkInputs(const Instance &instance, const Tensors<T> &tensors) {
  Sizes sizes;
  bool seen[2] = {};
  for (const InputInfo &input : instance.inputs) {
    const int side = sideOf(input);
    const auto found = tensors.find(input.name);
    if (found == tensors.end())
      throw Error("argument '" + input.name + "' is missing");
    const std::vector<int64_t> &shape = found->second.shape;
    if (!seen[side] && shape.size() >= 3) {
      if (!seen[0] && !seen[1])
        sizes.batch = shape[0];
      sizes.heads[side] = shape[1];
      sizes.rows[side] = shape[2];
      seen[side] = true;
    }
    std::vector<int64_t> expected{sizes.batch, sizes.heads[side], sizes.rows[side]};
    expected.insert(expected.end(), input.shape.begin(), input.shape.end());
    if (!seen[side] || shape != expected)
      throw Error("argument '" + input.name + "': expected shape " + toText(expected) + ", found " + toText(shape));
  }
  return sizes;
}

template <typename T>
Value<typename ScalarOf<T>::Type> inputRows(const InputInfo &input, const Array<T> &array, int64_t item, int64_t rows) {
  int64_t width = 1;
  for (int64_t size : input.shape)
    width *= size;
  return widen(array, item * rows * width, input.shape, rows);
}

/// Evaluates the attention's body for one batch and query head.
template <typename T>
Value<typename ScalarOf<T>::Type> forwardHead(const Instance &instance, const Tensors<T> &tensors, const Sizes &sizes,
                                              int64_t batch, int64_t queryHead) {
  using S = ScalarOf<T>::Type;
  const int64_t keyHead = queryHead * sizes.heads[1] / sizes.heads[0];
  const int64_t head[2] = {queryHead, keyHead};
  Environment<S> environment;
  environment.file = instance.file;
  environment.dims = instance.dims;
  environment.dims.erase("d"); // in a map, `d` and `e` are whatever its arguments bind
  environment.dims.erase("e");
  environment.tensor = HeadTensors<T>(instance, tensors, sizes.heads[1], keyHead);
  environment.queryRows = sizes.rows[0];
  environment.keyRows = sizes.rows[1];
  Scope<S> scope;
  scope.dims = instance.dims;
  for (const InputInfo &input : instance.inputs) {
    const int side = sideOf(input);
    scope.values[input.name] =
        inputRows(input, tensors.at(input.name), batch * sizes.heads[side] + head[side], sizes.rows[side]);
  }
  const ast::AttentionDecl &attention = *instance.attention;
  return Evaluator<S>(environment).evaluateBody(attention.body, attention.id.name, std::move(scope));
}

/// Splits rows [a; b] of a draw to its one or two tensors.
template <typename T>
void storeDraw(const Value<typename ScalarOf<T>::Type> &rows, std::vector<Array<T> *> parts, int64_t head) {
  const int64_t width = rows.width() / static_cast<int64_t>(parts.size());
  for (int64_t r = 0; r < rows.rows; ++r)
    for (std::size_t part = 0; part < parts.size(); ++part)
      for (int64_t c = 0; c < width; ++c)
        parts[part]->data[static_cast<std::size_t>((head * rows.rows + r) * width + c)] =
            ScalarOf<T>::narrow(rows.row(r)[static_cast<int64_t>(part) * width + c]);
}

template <typename T>
void drawOne(const Instance &instance, const DrawInfo &draw, const Tensors<T> &tensors, int64_t heads,
             Tensors<T> &result) {
  using S = ScalarOf<T>::Type;
  const int64_t width = draw.width / static_cast<int64_t>(draw.names.size());
  const std::vector<int64_t> shape = perHead(draw.shared, heads, {draw.rows, width});
  std::vector<Array<T> *> parts;
  parts.reserve(draw.names.size());
  for (const std::string &name : draw.names)
    parts.push_back(&(result[name] = Array<T>(shape)));
  const auto given = [&](const std::string &name) { return tensors.count(name) != 0; };
  if (!std::all_of(draw.names.begin(), draw.names.end(), given)) {
    const Array<T> &noise =
        require(tensors, draw.noiseName(), perHead(draw.shared, heads, {draw.rows, draw.noiseWidth}));
    const Sampler sampler(draw.kind, draw.options, draw.width, draw.sampler);
    for (int64_t head = 0; head < (draw.shared ? 1 : heads); ++head) {
      const Value<S> rows = widen(noise, head * draw.rows * draw.noiseWidth, {draw.noiseWidth}, draw.rows);
      storeDraw<T>(sampler.sample<S>(rows, HeadTensors<T>(instance, tensors, heads, head)), parts, head);
    }
  }
  for (const std::string &name : draw.names)
    if (given(name))
      result[name] = require(tensors, name, shape);
}

Sampler samplerOf(const Instance &instance, const std::string &name) {
  for (const SamplerInfo &sampler : instance.samplers)
    if (sampler.name == name)
      return {sampler.kind, sampler.options, sampler.width, sampler.name};
  throw Error("internal error: no sampler '" + name + "'");
}

} // namespace

template <typename T>
Tensors<T> draws(const Instance &instance, const Tensors<T> &tensors, int64_t heads) {
  Tensors<T> result;
  for (const DrawInfo &draw : instance.draws)
    drawOne(instance, draw, tensors, heads, result);
  return result;
}

template <typename T>
Array<T> forward(const Instance &instance, const Tensors<T> &tensors) {
  const Sizes sizes = checkInputs(instance, tensors);
  Tensors<T> all = tensors;
  all.merge(draws(instance, tensors, sizes.heads[1]));
  std::vector<int64_t> shape{sizes.batch, sizes.heads[0], sizes.rows[0]};
  shape.insert(shape.end(), instance.output.begin(), instance.output.end());
  Array<T> output(shape);
  int64_t width = sizes.rows[0];
  for (int64_t size : instance.output)
    width *= size;
  if (sizes.heads[1] == 0 && output.size() > 0)
    throw Error("there are query heads but no key heads");
  for (int64_t item = 0; item < sizes.batch * sizes.heads[0]; ++item)
    narrow(forwardHead(instance, all, sizes, item / sizes.heads[0], item % sizes.heads[0]), output, item * width);
  return output;
}

template <typename T>
Array<T> loss(const Instance &instance, const std::string &name, const Tensors<T> &tensors, int64_t heads) {
  using S = ScalarOf<T>::Type;
  for (const LossInfo &info : instance.losses) {
    if (info.name != name)
      continue;
    const Sampler p = samplerOf(instance, info.p), q = samplerOf(instance, info.q);
    const Array<T> &noise =
        require(tensors, name + ".noise", perHead(info.shared, heads, {info.samples, info.noiseWidth}));
    Array<T> result({info.shared ? 1 : heads});
    for (int64_t head = 0; head < result.size(); ++head) {
      const Value<S> rows = widen(noise, head * info.samples * info.noiseWidth, {info.noiseWidth}, info.samples);
      result.data[static_cast<std::size_t>(head)] =
          ScalarOf<T>::narrow(p.divergence<S>(q, rows, HeadTensors<T>(instance, tensors, heads, head)));
    }
    return result;
  }
  throw Error("the attention has no loss '" + name + "'");
}

template Tensors<double> draws(const Instance &, const Tensors<double> &, int64_t);
template Tensors<Dual> draws(const Instance &, const Tensors<Dual> &, int64_t);
template Array<double> forward(const Instance &, const Tensors<double> &);
template Array<Dual> forward(const Instance &, const Tensors<Dual> &);
template Array<double> loss(const Instance &, const std::string &, const Tensors<double> &, int64_t);
template Array<Dual> loss(const Instance &, const std::string &, const Tensors<Dual> &, int64_t);

} // namespace yaglom::reference
