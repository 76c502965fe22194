// Parameters at their initial values, and the noise of draws and losses.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/targets/reference/HeadTensors.h"
#include "compiler/targets/reference/Reference.h"
#include "compiler/targets/reference/Sampler.h"
#include "support/Random.h"

namespace yaglom::reference {
namespace {

constexpr int64_t kConstant = Value<Wide>::kConstant;

/// `rows` rows of `entries` standard normals: the stream of that name and head.
Value<Wide> normals(uint64_t seed, const std::string &name, int64_t head, int64_t rows, int64_t entries) {
  const NormalStream stream(seed, name, static_cast<uint64_t>(head));
  Value<Wide> value({entries}, rows);
  for (std::size_t i = 0; i < value.data.size(); ++i)
    value.data[i] = stream(i);
  return value;
}

/// 0 .. size-1 along the last axis; 0 for a scalar.
Value<Wide> indexOf(const std::vector<int64_t> &shape) {
  if (shape.empty())
    return Wide(0);
  Value<Wide> value({shape.back()}, kConstant);
  for (std::size_t i = 0; i < value.data.size(); ++i)
    value.data[i] = static_cast<double>(i);
  return value;
}

Value<Wide> identity(const std::vector<int64_t> &shape) {
  Value<Wide> value(shape, kConstant);
  if (shape.size() == 2)
    for (int64_t i = 0; i < std::min(shape[0], shape[1]); ++i)
      value.data[static_cast<std::size_t>(i * shape[1] + i)] = 1;
  return value;
}

/// Initial values of one head (of the shared parameters when `head` is -1), in the order of declaration.
class HeadInitializer {
public:
  HeadInitializer(const Instance &instance, int64_t heads, int64_t head, uint64_t seed)
      : instance(instance), heads(heads), head(head), seed(seed) {}

  Value<Wide> operator()(const ParameterInfo &parameter) {
    Value<Wide> value = parameter.initial ? evaluated(parameter) : sampled(parameter);
    const std::size_t dot = parameter.name.find('.');
    earlier[parameter.name.substr(0, dot)][parameter.name.substr(dot + 1)] = value;
    return value;
  }

private:
  Value<Wide> evaluated(const ParameterInfo &parameter) const {
    Environment<Wide> environment;
    environment.file = instance.file;
    environment.dims = parameter.dims;
    Scope<Wide> scope;
    scope.dims = parameter.dims;
    if (const auto body = earlier.find(parameter.name.substr(0, parameter.name.find('.'))); body != earlier.end())
      scope.values = body->second;
    scope.values["index"] = indexOf(parameter.shape);
    scope.values["eye"] = identity(parameter.shape);
    if (head >= 0) {
      scope.values["head"] = Wide(static_cast<double>(head));
      scope.values["heads"] = Wide(static_cast<double>(heads));
    }
    // A number, or a row for each row of a matrix, is broadcast.
    return elementwise(Value<Wide>(parameter.shape, kConstant),
                       Evaluator<Wide>(environment).evaluate(*parameter.initial, scope),
                       [](Wide, Wide x) { return x; });
  }

  Value<Wide> sampled(const ParameterInfo &parameter) const {
    Value<Wide> value(parameter.shape, kConstant);
    const int64_t width = parameter.shape.empty() ? 1 : parameter.shape.back();
    const Sampler sampler(parameter.draw->sampler.name, parameter.options, width, parameter.name);
    const Value<Wide> noise = normals(seed, parameter.name, std::max<int64_t>(head, 0), value.width() / width, width);
    value.data = sampler.sample<Wide>(noise, nullptr).data;
    return value;
  }

  const Instance &instance;
  int64_t heads, head;
  uint64_t seed;
  std::map<std::string, std::map<std::string, Value<Wide>>>
      earlier; ///< by the map, attention or sampler that owns them
};

Array<double> noiseOf(const std::string &name, bool shared, int64_t heads, int64_t rows, int64_t entries,
                      uint64_t seed) {
  Array<double> array(perHead(shared, heads, {rows, entries}));
  for (int64_t head = 0; head < (shared ? 1 : heads); ++head)
    narrow(normals(seed, name, head, rows, entries), array, head * rows * entries);
  return array;
}

} // namespace

Tensors<double> initialParameters(const Instance &instance, int64_t heads, uint64_t seed) {
  Tensors<double> tensors;
  for (const ParameterInfo &parameter : instance.parameters)
    tensors[parameter.name] = Array<double>(perHead(parameter.shared, heads, parameter.shape));
  for (int64_t head = -1; head < heads; ++head) {
    HeadInitializer initialize(instance, heads, head, seed);
    for (const ParameterInfo &parameter : instance.parameters)
      if (parameter.shared == (head < 0)) {
        const Value<Wide> value = initialize(parameter);
        narrow(value, tensors[parameter.name], std::max<int64_t>(head, 0) * value.width());
      }
  }
  return tensors;
}

Tensors<double> noise(const Instance &instance, int64_t heads, uint64_t seed) {
  Tensors<double> tensors;
  for (const DrawInfo &draw : instance.draws)
    tensors[draw.noiseName()] = noiseOf(draw.noiseName(), draw.shared, heads, draw.rows, draw.noiseWidth, seed);
  for (const LossInfo &loss : instance.losses) {
    const std::string name = loss.name + ".noise";
    tensors[name] = noiseOf(name, loss.shared, heads, loss.samples, loss.noiseWidth, seed);
  }
  return tensors;
}

} // namespace yaglom::reference
