// From the checked tree to the formula level of the phi dialect.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frontend/Instance.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace yaglom::compiler {

/// Attribute names of the arguments of an emitted function: the tensor's name in the language, and the side of a row.
inline constexpr llvm::StringLiteral kNameAttr = "phi.name";
inline constexpr llvm::StringLiteral kSideAttr = "phi.side";
/// On a function that runs at most once a launch: its code shall be short before it is fast.
inline constexpr llvm::StringLiteral kCompactAttr = "phi.compact";
/// The name of an attention's function.
inline constexpr llvm::StringLiteral kForward = "forward";
/// The names of gradients: of `forward`, and of another function its name with the suffix. Such a function has the
/// arguments of the first, then the gradient of each of its results, and a result for each argument. The attribute is the
/// number of arguments of the first.
inline constexpr llvm::StringLiteral kBackward = "backward";
/// The element type in memory of an operand of a tile program, where it is not that of its tiles.
inline constexpr llvm::StringLiteral kStoredAttr = "phi.stored";
inline constexpr llvm::StringLiteral kGradientSuffix = "_gradient";
inline constexpr llvm::StringLiteral kGradientAttr = "phi.gradient";
/// On a scan and its gradient: where its state begins among those that a forward launch keeps, in elements.
inline constexpr llvm::StringLiteral kStateOffsetAttr = "phi.state_offset";
/// On a gradient that finds those states among its operands: "segments" or "last", as Program::keeps says.
inline constexpr llvm::StringLiteral kTakesStatesAttr = "phi.takes_states";

/// A module with `@forward` over one token: arguments are the inputs (sides "query" and "key"), then every parameter and
/// draw of maps and of the attention (side "none"); the result is the output row. Maps and fns are inlined as the
/// interpreter would apply them.
mlir::OwningOpRef<mlir::ModuleOp> emitAttention(mlir::MLIRContext &context, const Instance &instance,
                                                mlir::FloatType element);

/// A module with `@draw` over one row of noise: arguments are the noise (side "query"), the sampler's parameters, and rows
/// that depend on their place among all rows and that the runtime prepares (Program.h). The results are the drawn rows, two
/// for a pair.
mlir::OwningOpRef<mlir::ModuleOp> emitDraw(mlir::MLIRContext &context, const Instance &instance, const DrawInfo &draw,
                                           mlir::FloatType element);

/// A module with `@loss` over one sample of kl(p, q): arguments are the noise and the sample's weight (side "query"), the
/// parameters of both samplers, and rows that the runtime prepares for draws of p. The result is the sample's part of the
/// estimate, a scalar.
mlir::OwningOpRef<mlir::ModuleOp> emitLoss(mlir::MLIRContext &context, const Instance &instance, const LossInfo &loss,
                                           mlir::FloatType element);

} // namespace yaglom::compiler
