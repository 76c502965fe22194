// One conversion for all dialects that lowered programs consist of.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/lower/ToLlvmDialect.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Transforms/DialectConversion.h"

using namespace mlir;

namespace yaglom::compiler {

LogicalResult convertToLlvmDialect(ModuleOp module, unsigned indexBits) {
  MLIRContext *context = module.getContext();
  LowerToLLVMOptions options(context);
  options.overrideIndexBitwidth(indexBits);
  LLVMTypeConverter types(context, options);
  RewritePatternSet patterns(context);
  populateMathToLLVMConversionPatterns(types, patterns);
  arith::populateCeilFloorDivExpandOpsPatterns(patterns);
  arith::populateArithToLLVMConversionPatterns(types, patterns);
  cf::populateControlFlowToLLVMConversionPatterns(types, patterns);
  populateFuncToLLVMConversionPatterns(types, patterns);
  ub::populateUBToLLVMConversionPatterns(types, patterns);
  LLVMConversionTarget target(*context);
  target.addLegalOp<ModuleOp>();
  return applyPartialConversion(module, target, std::move(patterns));
}

} // namespace yaglom::compiler
