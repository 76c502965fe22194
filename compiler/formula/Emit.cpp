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
  return function.finish({emitter.materialize(emitter.emitBody(instance.attention->body, scope), loc)});
}

OwningOpRef<ModuleOp> emitDraw(MLIRContext &context, const Instance &instance, const DrawInfo &draw,
                               FloatType element) {
  // The formula is parsed when the spec is checked; failing here is a bug of the sampler's file.
  ast::File formula = samplerFormula(*findSamplerKind(draw.kind), draw.options, draw.width).value();

  FunctionBuilder function(context, element, "draw");
  function.makeCompact();
  DimValues dims;
  for (const ast::Decl &decl : formula.decls)
    if (const auto *dim = std::get_if<ast::DimDecl>(&decl))
      dims[dim->id.name] = dim->value;
  Emitter emitter(formula, dims, element, function.builder);
  emitter.addRowOperand = [&](const std::string &name, llvm::ArrayRef<int64_t> shape) {
    return function.argument(name + " of " + draw.names.front(), "query", shape);
  };
  Value noise = function.argument(draw.noiseName(), "query", {draw.noiseWidth});
  for (const ParameterInfo &parameter : instance.parameters)
    if (llvm::StringRef(parameter.name).starts_with(draw.sampler + "."))
      emitter.tensors[parameter.name] = function.argument(parameter.name, "none", parameter.shape);
  Location loc = function.builder.getUnknownLoc();
  Value row = emitter.materialize(emitter.applyMap(*formula.find<ast::MapDecl>("sample"), draw.sampler, {noise}), loc);
  if (draw.names.size() == 1)
    return function.finish({row});
  auto half = RankedTensorType::get({draw.width / 2}, element);
  OpBuilder &b = function.builder;
  Value first = phi::SliceOp::create(b, loc, half, row, 0),
        second = phi::SliceOp::create(b, loc, half, row, draw.width / 2);
  return function.finish({first, second});
}

} // namespace yaglom::compiler
