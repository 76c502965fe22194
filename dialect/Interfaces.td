// What generic code needs to know about an op of the phi dialect.
// SPDX-License-Identifier: Apache-2.0
#ifndef YAGLOM_INTERFACES_TD
#define YAGLOM_INTERFACES_TD

include "mlir/IR/OpBase.td"

def PointwiseOpInterface : OpInterface<"PointwiseOpInterface"> {
  let cppNamespace = "::yaglom::phi";
  let description = [{
    An elementary function, applied entry by entry. Its record in Pointwise.td is the only place that knows it: the
    emitter, folder, tiling and tests reach it through this interface.
  }];
  let methods = [
    InterfaceMethod<"Emits the function of scalars or vectors in arith and math ops.", "::mlir::Value", "lower",
                    (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc, "::mlir::ValueRange":$operands)>,
    InterfaceMethod<"The function's value; what constant folding computes.", "double", "evaluate",
                    (ins "::llvm::ArrayRef<double>":$operands)>,
    StaticInterfaceMethod<[{
      Emits the derivative by operand `index`, given the operands and the function's result. At a kink it is what the
      language says (language.md section 8).
    }], "::mlir::Value", "derivative",
                    (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc, "unsigned":$index,
                         "::mlir::ValueRange":$operands, "::mlir::Value":$result)>,
  ];
}

#endif
