// The functions of the formula level: one for an attention, one for each draw.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/formula/Emit.h"

#include "compiler/formula/Emitter.h"
#include "dialect/Phi.h"
#include "frontend/Samplers.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <set>

using namespace mlir;

namespace yaglom::compiler {

namespace {

/// A function under construction: arguments are added by name, then the body is emitted, then it is closed.
class FunctionBuilder {
public:
  FunctionBuilder(MLIRContext &context, FloatType element, llvm::StringRef name) : element(element), builder(&context) {
    Location loc = builder.getUnknownLoc();
    module = ModuleOp::create(builder, loc);
    builder.setInsertionPointToStart(module->getBody());
    function = func::FuncOp::create(builder, loc, name, builder.getFunctionType({}, {}));
    builder.setInsertionPointToStart(function.addEntryBlock());
  }

  Value argument(llvm::StringRef name, llvm::StringRef side, llvm::ArrayRef<int64_t> shape) {
    auto type = RankedTensorType::get(shape, element);
    auto attrs = builder.getDictionaryAttr({builder.getNamedAttr(kNameAttr, builder.getStringAttr(name)),
                                            builder.getNamedAttr(kSideAttr, builder.getStringAttr(side))});
    unsigned index = function.getNumArguments();
    if (failed(function.insertArgument(index, type, attrs, builder.getUnknownLoc())))
      llvm_unreachable("an argument can always be appended");
    return function.getArgument(index);
  }

  OwningOpRef<ModuleOp> finish(llvm::ArrayRef<Value> results) {
    func::ReturnOp::create(builder, builder.getUnknownLoc(), results);
    function.setFunctionType(builder.getFunctionType(function.getArgumentTypes(), ValueRange(results).getTypes()));
    return std::move(module);
  }

  void setLocation(Location location) {
    module->getOperation()->setLoc(location);
    function->setLoc(location);
  }

  void makeCompact() { function->setAttr(kCompactAttr, builder.getUnitAttr()); }

  FloatType element;
  OpBuilder builder;

private:
  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
};

llvm::StringRef sideName(Side side) { return side == Side::Query ? "query" : side == Side::Key ? "key" : "none"; }

} // namespace

OwningOpRef<ModuleOp> emitAttention(MLIRContext &context, const Instance &instance, FloatType element) {
  FunctionBuilder function(context, element, kForward);
  Emitter emitter(*instance.file, instance.dims, element, function.builder);
  Scope scope{{}, instance.dims, instance.attention->id.name, {}};
  for (const InputInfo &input : instance.inputs)
    scope.names[input.name] = {function.argument(input.name, sideName(input.side), input.shape), {}};

  std::set<std::string> ofSamplers;
  for (const SamplerInfo &sampler : instance.samplers)
    ofSamplers.insert(sampler.parameters.begin(), sampler.parameters.end());
  for (const ParameterInfo &parameter : instance.parameters)
    if (!ofSamplers.contains(parameter.name))
      emitter.tensors[parameter.name] = function.argument(parameter.name, "none", parameter.shape);
  for (const DrawInfo &draw : instance.draws) {
    int64_t width = draw.width / int64_t(draw.names.size());
    for (const std::string &name : draw.names)
      emitter.tensors[name] = function.argument(name, "none", {draw.rows, width});
  }
  Location loc = emitter.location(instance.attention->id.range);
  function.setLocation(loc);
  return function.finish({emitter.materialize(emitter.emitBody(instance.attention->body, scope), loc)});
}

namespace {

/// The formulas of one sampler as rows of a function.
class SamplerEmitter {
public:
  SamplerEmitter(FunctionBuilder &function, const std::string &kind, const SamplerOptions &options, int64_t width,
                 std::string name)
      : formula(samplerFormula(*findSamplerKind(kind), options, width).value()), // checked with the spec
        name(std::move(name)), builder(function.builder), emitter(formula, dimsOf(formula), function.element, builder) {
  }

  Value apply(llvm::StringRef map, Value row) {
    return emitter.materialize(emitter.applyMap(*formula.find<ast::MapDecl>(map.str()), name, {row}),
                               builder.getUnknownLoc());
  }
  bool has(llvm::StringRef map) const { return formula.find<ast::MapDecl>(map.str()); }

private:
  static DimValues dimsOf(const ast::File &formula) {
    DimValues dims;
    for (const ast::Decl &decl : formula.decls)
      if (const auto *dim = std::get_if<ast::DimDecl>(&decl))
        dims[dim->id.name] = dim->value;
    return dims;
  }

  ast::File formula;
  std::string name;
  OpBuilder &builder;

public:
  Emitter emitter;
};

/// Arguments for the parameters of sampler `name`, shared by emitters that use the same one.
void addParameters(FunctionBuilder &function, const Instance &instance, const std::string &name,
                   llvm::ArrayRef<SamplerEmitter *> emitters) {
  for (const ParameterInfo &parameter : instance.parameters)
    if (llvm::StringRef(parameter.name).starts_with(name + ".")) {
      Value argument = function.argument(parameter.name, "none", parameter.shape);
      for (SamplerEmitter *each : emitters)
        each->emitter.tensors[parameter.name] = argument;
    }
}

} // namespace

OwningOpRef<ModuleOp> emitDraw(MLIRContext &context, const Instance &instance, const DrawInfo &draw,
                               FloatType element) {
  FunctionBuilder function(context, element, "draw");
  function.makeCompact();
  SamplerEmitter sampler(function, draw.kind, draw.options, draw.width, draw.sampler);
  sampler.emitter.addRowOperand = [&](const std::string &name, llvm::ArrayRef<int64_t> shape) {
    return function.argument(name + " of " + draw.names.front(), "query", shape);
  };
  Value noise = function.argument(draw.noiseName(), "query", {draw.noiseWidth});
  addParameters(function, instance, draw.sampler, {&sampler});
  Value row = sampler.apply("sample", noise);
  if (draw.names.size() == 1)
    return function.finish({row});
  auto half = RankedTensorType::get({draw.width / 2}, element);
  OpBuilder &b = function.builder;
  Location loc = b.getUnknownLoc();
  Value first = phi::SliceOp::create(b, loc, half, row, 0),
        second = phi::SliceOp::create(b, loc, half, row, draw.width / 2);
  return function.finish({first, second});
}

OwningOpRef<ModuleOp> emitLoss(MLIRContext &context, const Instance &instance, const LossInfo &loss,
                               FloatType element) {
  FunctionBuilder function(context, element, "loss");
  function.makeCompact();
  auto infoOf = [&](const std::string &name) -> const SamplerInfo & {
    return *llvm::find_if(instance.samplers, [&](const SamplerInfo &info) { return info.name == name; });
  };
  const SamplerInfo &pInfo = infoOf(loss.p), &qInfo = infoOf(loss.q);
  SamplerEmitter p(function, pInfo.kind, pInfo.options, pInfo.width, loss.p),
      q(function, qInfo.kind, qInfo.options, qInfo.width, loss.q);
  for (SamplerEmitter *each : {&p, &q})
    each->emitter.addRowOperand = [&](const std::string &name, llvm::ArrayRef<int64_t> shape) {
      return function.argument(name + " of " + loss.name, "query", shape);
    };
  Value noise = function.argument(loss.name + ".noise", "query", {loss.noiseWidth});
  Value weight = function.argument("weight of " + loss.name, "query", {});
  if (loss.p == loss.q) {
    addParameters(function, instance, loss.p, {&p, &q});
  } else {
    addParameters(function, instance, loss.p, {&p});
    addParameters(function, instance, loss.q, {&q});
  }
  OpBuilder &b = function.builder;
  Location loc = b.getUnknownLoc();
  auto scalar = RankedTensorType::get({}, element);
  Value row = p.apply("sample", noise), sum;
  // Of a symmetrised density every sample stands for itself and its negative.
  const bool symmetric = findSamplerKind(pInfo.kind)->symmetric;
  for (int sign = 0; sign < (symmetric ? 2 : 1); ++sign) {
    if (sign)
      row = phi::NegOp::create(b, loc, row.getType(), row);
    Value ofP = p.has("sample_log_density") ? p.apply("sample_log_density", noise) : p.apply("log_density", row);
    Value part = phi::SubOp::create(b, loc, scalar, ofP, q.apply("log_density", row));
    sum = sum ? phi::AddOp::create(b, loc, scalar, sum, part).getResult() : part;
  }
  if (symmetric) {
    auto half = DenseElementsAttr::get(scalar, Attribute(FloatAttr::get(element, 0.5)));
    sum = phi::MulOp::create(b, loc, scalar, sum, arith::ConstantOp::create(b, loc, half));
  }
  return function.finish({phi::MulOp::create(b, loc, scalar, weight, sum)});
}

} // namespace yaglom::compiler
