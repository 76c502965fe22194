// Finds each `linear` of an attention and the widths of its features and values, by the shapes of a checked tree.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/State.h"

#include "frontend/Prelude.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace yaglom::runtime {
namespace {

using Shape = std::vector<int64_t>;

/// What names mean in one body.
struct Scope {
  std::map<std::string, Shape> values;
  DimValues dims;
};

/// A `linear`, and the `let` it stands in.
struct Found {
  std::string let;
  int64_t features;
  int64_t width;
  ast::Position position;
};

double evaluateSize(const ast::Expr &expr, const DimValues &dims) {
  const auto operand = [&](std::size_t i) { return evaluateSize(*expr.args[i], dims); };
  switch (expr.kind) {
  case ast::ExprKind::Number:
    return expr.number;
  case ast::ExprKind::Name:
    return static_cast<double>(dims.at(expr.name));
  case ast::ExprKind::Negate:
    return -operand(0);
  case ast::ExprKind::Add:
    return operand(0) + operand(1);
  case ast::ExprKind::Subtract:
    return operand(0) - operand(1);
  case ast::ExprKind::Multiply:
    return operand(0) * operand(1);
  case ast::ExprKind::Divide:
    return operand(0) / operand(1);
  default:
    return std::pow(operand(0), operand(1));
  }
}

Shape evaluateShape(const ast::Shape &shape, const DimValues &dims) {
  Shape sizes;
  for (const ast::ExprRef &size : shape.sizes)
    sizes.push_back(std::llround(evaluateSize(*size, dims)));
  return sizes;
}

/// Shapes of a tree that the checker has passed: whatever could be wrong is not.
class ShapeWalk {
public:
  explicit ShapeWalk(const Instance &instance) : file(*instance.file), boundDims(instance.dims) {
    Scope scope{{}, instance.dims};
    for (const InputInfo &input : instance.inputs)
      scope.values[input.name] = input.shape;
    walkBody(instance.attention->body, scope);
  }

  std::vector<Found> found;

private:
  Shape walkBody(const ast::Body &body, Scope &scope) {
    for (const ast::Binding &binding : body.bindings) {
      Shape shape;
      if (binding.kind == ast::BindingKind::Let) {
        const std::string outer = std::exchange(let, let.empty() ? binding.names.front().name : let);
        shape = walk(*binding.value, scope);
        let = outer;
        if (binding.names.size() == 2)
          shape[0] /= 2; // (T6)
      } else {
        shape = evaluateShape(*binding.shape, scope.dims);
      }
      for (const ast::Identifier &name : binding.names)
        scope.values[name.name] = shape;
    }
    return walk(*body.result, scope);
  }

  Shape walk(const ast::Expr &expr, Scope &scope) {
    if (expr.kind == ast::ExprKind::Name) {
      const auto value = scope.values.find(expr.name);
      return value == scope.values.end() ? Shape{} : value->second; // numbers: dims, pos, len, pi
    }
    std::vector<Shape> args;
    for (const ast::ExprRef &arg : expr.args)
      args.push_back(walk(*arg, scope));
    switch (expr.kind) {
    case ast::ExprKind::Call:
      return walkCall(expr, args, scope);
    case ast::ExprKind::MatVec:
      return {args[0][0]};
    case ast::ExprKind::Stack:
      return {stacked(args)};
    case ast::ExprKind::Norm:
    case ast::ExprKind::Number:
      return {};
    default:
      return widest(args);
    }
  }

  Shape walkCall(const ast::Expr &call, const std::vector<Shape> &args, Scope &scope) {
    if (call.name == "linear") {
      found.push_back({let, args[0][0], args[2][0], positionOf(file.sources[call.range.source], call.range.begin)});
      return args[2];
    }
    if (call.name == "softmax_attention")
      return args[2];
    if (call.name == "outer")
      return {args[0][0] * args[1][0]};
    if (call.name == "sum" || call.name == "mean" || (call.name == "max" && args.size() == 1))
      return {};
    if (const auto *map = file.find<ast::MapDecl>(call.name))
      return walkMap(*map, args);
    if (const ast::FnDecl *fn = findFn(file, call.name)) {
      Scope inner{{}, scope.dims};
      for (std::size_t i = 0; i < args.size(); ++i)
        inner.values[fn->params[i].name] = args[i];
      return walk(*fn->body, inner);
    }
    return widest(args); // an elementary function, or split
  }

  /// (T2): what an argument's shape names alone, and no `dim` does, is bound by the argument.
  Shape walkMap(const ast::MapDecl &map, const std::vector<Shape> &args) {
    Scope inner;
    for (const ast::Decl &decl : file.decls)
      if (const auto *dim = std::get_if<ast::DimDecl>(&decl))
        inner.dims[dim->id.name] = boundDims.at(dim->id.name);
    for (std::size_t i = 0; i < args.size(); ++i) {
      const std::optional<ast::Shape> &shape = map.args[i].shape;
      for (std::size_t axis = 0; axis < args[i].size(); ++axis)
        if (!shape)
          inner.dims.emplace("d", args[i][axis]);
        else if (shape->sizes[axis]->kind == ast::ExprKind::Name)
          inner.dims.emplace(shape->sizes[axis]->name, args[i][axis]);
      inner.values[map.args[i].id.name] = args[i];
    }
    return walkBody(map.body, inner);
  }

  static int64_t stacked(const std::vector<Shape> &entries) {
    int64_t size = 0;
    for (const Shape &entry : entries)
      size += entry.empty() ? 1 : entry[0];
    return size;
  }

  static Shape widest(const std::vector<Shape> &shapes) {
    return *std::max_element(shapes.begin(), shapes.end(),
                             [](const Shape &a, const Shape &b) { return a.size() < b.size(); });
  }

  const ast::File &file;
  const DimValues &boundDims;
  std::string let; ///< the attention's `let` that is being walked
};

} // namespace

std::vector<LinearState> linearStates(const Instance &instance) {
  const std::vector<Found> found = ShapeWalk(instance).found;
  std::vector<LinearState> states;
  for (const Found &linear : found) {
    const auto namesakes =
        std::count_if(found.begin(), found.end(), [&](const Found &other) { return other.let == linear.let; });
    std::string prefix = "state.";
    if (found.size() > 1)
      prefix += (namesakes == 1 && !linear.let.empty() ? linear.let : std::to_string(states.size())) + ".";
    states.push_back({prefix, linear.features, linear.width, linear.position});
  }
  return states;
}

} // namespace yaglom::runtime
