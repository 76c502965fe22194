// One attention of a checked spec with every dimension bound: which tensors it reads, owns and draws, and their shapes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frontend/Ast.h"
#include "yaglom/result.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace yaglom {

/// Values for dimension names: `d` and `e` are the widths of Q/K and V; others override the spec's `dim`s.
using DimValues = std::map<std::string, int64_t>;

enum class Side { None, Query, Key };

/// An input of the attention. Batch-major [B, H, N, width], or [B, H, N] when `shape` is empty.
struct InputInfo {
  std::string name;
  Side side = Side::None;
  std::vector<int64_t> shape; ///< per token: [] or [width]
};

/// A learned tensor of a map, an attention or a sampler: [H, shape...], or [shape...] when shared.
struct ParameterInfo {
  std::string name; ///< full name: "flexformer_n.W1", "flow.0.scale.W0"
  bool shared = false;
  std::vector<int64_t> shape;
  ast::ExprRef initial;              ///< initial value, or null
  std::optional<ast::DrawSpec> draw; ///< starts as a sample of this kind of sampler, which has no parameters
  std::map<std::string, double, std::less<>> options; ///< of `draw`, evaluated
  DimValues dims;                                     ///< dimension names visible to `initial` and `draw`
};

/// A tensor drawn anew from a seed: rows of one sampler. A pair splits each row of 2w entries into two tensors of w.
struct DrawInfo {
  std::vector<std::string> names; ///< one, or two for a pair: "fska.W1", "fska.W2"
  std::string sampler;            ///< the declared sampler's name, or the kind when undeclared ("gaussian")
  bool shared = false;
  int64_t rows = 0;
  int64_t width = 0;                                  ///< D: entries of a row (of both halves for a pair)
  int64_t noiseWidth = 0;                             ///< entries of a row of noise
  std::string kind;                                   ///< "realnvp"
  std::map<std::string, double, std::less<>> options; ///< of the sampler, evaluated
  ast::DrawSpec draw;                                 ///< kind and options as written, dims resolved through `dims`
  DimValues dims;
  std::string noiseName() const { return names.front() + ".noise"; }
};

/// A declared sampler that this attention draws from, or any that a loss of it names, with its row width D fixed. Draws
/// from undeclared samplers have all in DrawInfo: two of one kind may differ in options and width.
struct SamplerInfo {
  std::string name; ///< declared name, or kind when undeclared
  std::string kind; ///< "realnvp"
  bool shared = false;
  int64_t width = 0;
  std::map<std::string, double, std::less<>> options; ///< integers, and `scale`
  std::vector<std::string> parameters;                ///< full names, also in Instance::parameters
};

/// A loss kl(p, q, samples) that belongs to the attention.
struct LossInfo {
  std::string name;
  std::string p, q; ///< names in Instance::samplers
  int64_t samples = 0;
  int64_t noiseWidth = 0;
  bool shared = false; ///< both samplers are shared: one value in all
};

/// The concrete width at which a map is applied when it owns parameters, and what its argument names bound.
struct MapInfo {
  std::string name;
  DimValues dims;
};

struct Instance {
  const ast::File *file = nullptr; ///< outlives the instance
  const ast::AttentionDecl *attention = nullptr;
  DimValues dims;                        ///< d, e and every `dim`
  std::vector<InputInfo> inputs;         ///< query inputs, then key inputs, as declared
  std::vector<int64_t> output;           ///< per token: [width]
  std::vector<ParameterInfo> parameters; ///< order: maps and attention in order of use, then samplers
  std::vector<DrawInfo> draws;
  std::vector<SamplerInfo> samplers;
  std::vector<LossInfo> losses;
  std::vector<MapInfo> maps; ///< maps that own parameters or draws and are applied in this attention
};

/// Binds every dimension of attention `name`. Errors carry the caret text: an unknown attention, a missing or unknown
/// dimension, a size that is no positive integer below 2^31.
Result<Instance> instantiate(const ast::File &file, const std::string &name, const DimValues &values);

} // namespace yaglom
