// The phi dialect and the shapes of its values.
// SPDX-License-Identifier: Apache-2.0
#ifndef YAGLOM_DIALECT_TD
#define YAGLOM_DIALECT_TD

include "mlir/IR/OpBase.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "dialect/Interfaces.td"

def Phi_Dialect : Dialect {
  let name = "phi";
  let cppNamespace = "::yaglom::phi";
  let summary = "Formulas of attention, one row at a time";
  let description = [{
    A value is what one token sees: a scalar `tensor<f32>`, a vector `tensor<nxf32>` or a matrix `tensor<nxmxf32>`.
    Batch, head and token are never written. An argument of the attention carries `phi.name` and `phi.side` ("query",
    "key" or "none"); every other side follows from the operands.
  }];
}

class Phi_Op<string mnemonic, list<Trait> traits = []> : Op<Phi_Dialect, mnemonic, traits>;

def Phi_Value : StaticShapeTensorOf<[F32, F64]>;
def Phi_Float : AnyTypeOf<[F32, F64, VectorOfAnyRankOf<[F32, F64]>]>;

#endif
