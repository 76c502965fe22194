// Expressions of the tree as ops of the formula level. The tree is checked: nothing here reports a user's mistake.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/formula/Emitter.h"

#include "dialect/Phi.h"
#include "frontend/Prelude.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

#include "llvm/ADT/STLExtras.h"

#include <numbers>

using namespace mlir;

namespace yaglom::compiler {

using ast::ExprKind;
using ast::ExprRef;

mlir::Location Emitter::location(ast::Range range) const {
  if (range.source >= file.sources.size())
    return b.getUnknownLoc();
  const ast::Source &source = file.sources[range.source];
  const ast::Position position = positionOf(source, range.begin);
  return FileLineColLoc::get(b.getContext(), source.name, position.line, position.column);
}

llvm::ArrayRef<int64_t> Emitter::shapeOf(const Term &term) const {
  return term.value ? cast<RankedTensorType>(term.value.getType()).getShape() : llvm::ArrayRef<int64_t>();
}

Value Emitter::materialize(Term term, Location loc) {
  if (term.value)
    return term.value;
  auto attr = DenseElementsAttr::get(type({}), Attribute(FloatAttr::get(element, *term.number)));
  return arith::ConstantOp::create(b, loc, attr);
}

/// Numbers fold while compiling, in double, so that (2*M)^(1/2) costs nothing and is rounded once.
Term Emitter::pointwise(llvm::StringRef function, llvm::ArrayRef<Term> operands, Location loc) {
  llvm::SmallVector<double> numbers;
  llvm::SmallVector<int64_t> shape;
  for (const Term &term : operands) {
    if (term.number)
      numbers.push_back(*term.number);
    if (shapeOf(term).size() > shape.size())
      shape.assign(shapeOf(term).begin(), shapeOf(term).end());
  }
  OperationState state(loc, ("phi." + function).str());
  bool fold = numbers.size() == operands.size();
  for (const Term &term : operands)
    state.addOperands(materialize(term, loc));
  state.addTypes(type(shape));
  Operation *op = b.create(state);
  if (!fold)
    return {op->getResult(0), {}};
  double number = cast<phi::PointwiseOpInterface>(op).evaluate(numbers);
  llvm::SmallVector<Value> constants(op->getOperands());
  op->erase();
  for (Value constant : constants)
    if (constant.use_empty() && constant.getDefiningOp())
      constant.getDefiningOp()->erase();
  return {{}, number};
}

Term Emitter::reduce(llvm::StringRef name, Term x, Location loc) {
  OperationState state(loc, ("phi." + name).str());
  state.addOperands(materialize(x, loc));
  state.addTypes(type({}));
  return {b.create(state)->getResult(0), {}};
}

Term Emitter::emitStack(llvm::ArrayRef<Term> parts, Location loc) {
  llvm::SmallVector<Value> values;
  int64_t size = 0;
  for (const Term &part : parts) {
    values.push_back(materialize(part, loc));
    size += shapeOf(part).empty() ? 1 : shapeOf(part)[0];
  }
  return {phi::StackOp::create(b, loc, type({size}), values), {}};
}

Term Emitter::slice(Term x, int64_t begin, int64_t size, Location loc) {
  return {phi::SliceOp::create(b, loc, type({size}), x.value, begin), {}};
}

Term Emitter::matVec(Term a, Term x, Location loc) {
  return {phi::MatVecOp::create(b, loc, type({shapeOf(a)[0]}), a.value, x.value), {}};
}

Term Emitter::outer(Term x, Term y, Location loc) {
  return {phi::OuterOp::create(b, loc, type({shapeOf(x)[0] * shapeOf(y)[0]}), x.value, y.value), {}};
}

Term Emitter::softmax(Term x, Location loc) {
  Term shifted = pointwise("exp", {pointwise("sub", {x, reduce("row_max", x, loc)}, loc)}, loc);
  return pointwise("div", {shifted, reduce("sum", shifted, loc)}, loc);
}

double Emitter::constant(const ExprRef &expr, Scope &scope) { return emit(expr, scope).number.value(); }

Term Emitter::emitName(const ast::Expr &expr, Scope &scope) {
  if (auto it = scope.names.find(expr.name); it != scope.names.end())
    return it->second;
  if (auto it = scope.dims.find(expr.name); it != scope.dims.end())
    return {{}, double(it->second)};
  Location loc = location(expr.range);
  if (expr.name == "pi")
    return {{}, std::numbers::pi};
  if (expr.name == "pos")
    return {phi::PositionOp::create(b, loc, type({}), scope.row), {}};
  if (expr.name == "len")
    return {phi::LengthOp::create(b, loc, type({})), {}};
  if (auto it = tensors.find(expr.name); it != tensors.end())
    return {it->second, {}};
  // The formulas of a sampler name its parameters, which one of them declares.
  if (auto it = tensors.find(fullName(expr.name, scope)); it != tensors.end())
    return {it->second, {}};
  return {{}, double(dims.at(expr.name))};
}

static llvm::StringRef operatorName(ExprKind kind) {
  switch (kind) {
  case ExprKind::Negate:
    return "neg";
  case ExprKind::Add:
    return "add";
  case ExprKind::Subtract:
    return "sub";
  case ExprKind::Multiply:
    return "mul";
  case ExprKind::Divide:
    return "div";
  default:
    return "pow";
  }
}

Term Emitter::emit(const ExprRef &expr, Scope &scope) {
  if (expr->kind == ExprKind::Number)
    return {{}, expr->number};
  if (expr->kind == ExprKind::Name)
    return emitName(*expr, scope);
  if (expr->kind == ExprKind::Call)
    return emitCall(*expr, scope);
  Location loc = location(expr->range);
  llvm::SmallVector<Term> terms;
  for (const ExprRef &arg : expr->args)
    terms.push_back(emit(arg, scope));
  if (expr->kind == ExprKind::Stack)
    return emitStack(terms, loc);
  if (expr->kind == ExprKind::Norm)
    return reduce("norm", terms[0], loc);
  if (expr->kind == ExprKind::MatVec)
    return matVec(terms[0], terms[1], loc);
  return pointwise(operatorName(expr->kind), terms, loc);
}

Term Emitter::emitCall(const ast::Expr &expr, Scope &scope) {
  const ast::FnDecl *fn = file.find<ast::FnDecl>(expr.name);
  if (!fn)
    fn = prelude().find<ast::FnDecl>(expr.name);
  if (fn) {
    // A fn sees the dimensions of its caller, and the row that `pos` belongs to.
    Scope inner{{}, scope.dims, scope.owner, scope.row};
    for (size_t i = 0; i < fn->params.size(); ++i)
      inner.names[fn->params[i].name] = emit(expr.args[i], scope);
    return emit(fn->body, inner);
  }
  if (const auto *map = file.find<ast::MapDecl>(expr.name)) {
    llvm::SmallVector<Value> arguments;
    for (const ExprRef &arg : expr.args)
      arguments.push_back(materialize(emit(arg, scope), location(arg->range)));
    return applyMap(*map, map->id.name, arguments);
  }
  if (expr.name == "linear")
    return emitLinear(expr, scope);
  if (expr.name == "softmax_attention")
    return emitSoftmaxAttention(expr, scope);
  return emitBuiltin(expr, scope);
}

Term Emitter::emitBuiltin(const ast::Expr &expr, Scope &scope) {
  Location loc = location(expr.range);
  llvm::SmallVector<Term> terms;
  for (const ExprRef &arg : expr.args)
    terms.push_back(emit(arg, scope));
  llvm::StringRef name = expr.name;
  if (name == "sum")
    return reduce("sum", terms[0], loc);
  if (name == "mean")
    return pointwise("div", {reduce("sum", terms[0], loc), {{}, double(shapeOf(terms[0])[0])}}, loc);
  if (name == "max" && terms.size() == 1)
    return reduce("row_max", terms[0], loc);
  if (name == "softmax")
    return softmax(terms[0], loc);
  if (name == "outer")
    return outer(terms[0], terms[1], loc);
  if (name == "unit")
    return {phi::UnitOp::create(b, loc, terms[0].value.getType(), terms[0].value), {}};
  if (name == "slice")
    return slice(terms[0], int64_t(*terms[1].number), int64_t(*terms[2].number), loc);
  // Rows that depend on their place among all rows are prepared by the runtime (docs/random.md).
  if (name == "component") {
    std::string table = fullName(expr.args[0]->name, scope), alpha = fullName(expr.args[1]->name, scope);
    return {addRowOperand("component(" + table + ", " + alpha + ")", shapeOf(terms[0]).drop_front()), {}};
  }
  if (name == "orthogonalize")
    return {addRowOperand("orthogonalize(noise)", shapeOf(terms[0])), {}};
  return pointwise(name, terms, loc);
}

Term Emitter::emitLinear(const ast::Expr &expr, Scope &scope) {
  Location loc = location(expr.range);
  llvm::SmallVector<Value> qkv;
  for (const ExprRef &arg : expr.args)
    qkv.push_back(materialize(emit(arg, scope), loc));
  Value decay, mask;
  bool causal = false, logDecay = false;
  std::string normalize = "none";
  double threshold = 0;
  for (const ast::Option &option : expr.options) {
    if (option.name == "causal") {
      causal = true;
    } else if (option.name == "decay" || option.name == "log_decay") {
      decay = materialize(emit(option.value, scope), loc);
      logDecay = option.name == "log_decay";
    } else if (option.name == "mask") {
      mask = materialize(emit(option.value, scope), loc);
    } else if (option.args.empty()) {
      normalize = "bare";
    } else {
      normalize = option.args[0].name;
      threshold = constant(option.args[0].value, scope);
    }
  }
  return {phi::LinearOp::create(b, loc, qkv[2].getType(), qkv[0], qkv[1], qkv[2], decay, mask, causal, logDecay,
                                normalize, llvm::APFloat(threshold)),
          {}};
}

Term Emitter::emitSoftmaxAttention(const ast::Expr &expr, Scope &scope) {
  Location loc = location(expr.range);
  llvm::SmallVector<Value> qkv;
  for (const ExprRef &arg : expr.args)
    qkv.push_back(materialize(emit(arg, scope), loc));
  Value scale, mask;
  bool causal = false;
  for (const ast::Option &option : expr.options) {
    if (option.name == "causal")
      causal = true;
    else
      (option.name == "scale" ? scale : mask) = materialize(emit(option.value, scope), loc);
  }
  return {phi::SoftmaxAttentionOp::create(b, loc, qkv[2].getType(), qkv[0], qkv[1], qkv[2], scale, mask, causal), {}};
}

void Emitter::bindLet(const ast::Binding &binding, Scope &scope) {
  if (binding.names.size() == 1) {
    scope.names[binding.names[0].name] = emit(binding.value, scope);
    return;
  }
  Term whole = emit(binding.value->args[0], scope); // split(...)
  int64_t half = shapeOf(whole)[0] / 2;
  Location loc = location(binding.range);
  scope.names[binding.names[0].name] = slice(whole, 0, half, loc);
  scope.names[binding.names[1].name] = slice(whole, half, half, loc);
}

/// Parameters of a sampler are written self.W0 in its formula, those of a map W1.
std::string Emitter::fullName(const std::string &name, const Scope &scope) {
  return scope.owner + (llvm::StringRef(name).starts_with("self.") ? name.substr(4) : "." + name);
}

Term Emitter::emitBody(const ast::Body &body, Scope &scope) {
  for (const ast::Binding &binding : body.bindings) {
    if (binding.kind == ast::BindingKind::Let)
      bindLet(binding, scope);
    else
      for (const ast::Identifier &id : binding.names)
        scope.names[id.name] = {tensors.at(fullName(id.name, scope)), {}};
  }
  return emit(body.result, scope);
}

/// A name that stands alone in an argument's shape and is no `dim` is bound by the argument (T2); [d] when not written.
static void bindDimensions(const ast::Arg &arg, llvm::ArrayRef<int64_t> shape, const DimValues &fixed,
                           DimValues &dims) {
  if (!arg.shape) {
    dims["d"] = shape[0];
    return;
  }
  for (auto [size, value] : llvm::zip(arg.shape->sizes, shape))
    if (size->kind == ExprKind::Name && !fixed.contains(size->name))
      dims[size->name] = value;
}

Term Emitter::applyMap(const ast::MapDecl &map, const std::string &owner, llvm::ArrayRef<Value> arguments) {
  Scope scope{{}, dims, owner, arguments[0]};
  for (auto [arg, value] : llvm::zip(map.args, arguments)) {
    Term term{value, {}};
    bindDimensions(arg, shapeOf(term), dims, scope.dims);
    scope.names[arg.id.name] = term;
  }
  return emitBody(map.body, scope);
}

} // namespace yaglom::compiler
