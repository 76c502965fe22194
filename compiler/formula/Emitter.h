// Walks expressions of the tree with values of the phi dialect: the part that attentions, draws and losses share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frontend/Instance.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

#include <functional>
#include <map>
#include <optional>
#include <string>

namespace yaglom::compiler {

/// A value of the phi dialect, or a number that is known while compiling.
struct Term {
  mlir::Value value;
  std::optional<double> number;
};

/// What names mean inside one body.
struct Scope {
  std::map<std::string, Term> names;
  DimValues dims;
  std::string owner; ///< of params and draws: "flexformer_n", or the sampler's name
  mlir::Value row;   ///< what `pos` belongs to; null in an attention
};

class Emitter {
public:
  /// `dims` holds every file-level dimension, bound.
  Emitter(const ast::File &file, DimValues dims, mlir::FloatType element, mlir::OpBuilder &builder)
      : file(file), dims(std::move(dims)), element(element), b(builder) {}

  /// Tensors by full name ("flexformer_n.W1"): what params and draws refer to.
  std::map<std::string, mlir::Value> tensors;
  /// Adds an operand that the runtime prepares, one row a row: samplers' gathers over the rows of a block.
  std::function<mlir::Value(const std::string &name, llvm::ArrayRef<int64_t> shape)> addRowOperand;

  Term emit(const ast::ExprRef &expr, Scope &scope);
  /// Binds lets, params and draws, then the result.
  Term emitBody(const ast::Body &body, Scope &scope);
  /// `owner` prefixes the names of its params and draws: the map's own name, or the sampler's.
  Term applyMap(const ast::MapDecl &map, const std::string &owner, llvm::ArrayRef<mlir::Value> arguments);
  mlir::Value materialize(Term term, mlir::Location loc);
  mlir::Location location(ast::Range range) const;

private:
  Term emitName(const ast::Expr &expr, Scope &scope);
  Term emitCall(const ast::Expr &expr, Scope &scope);
  Term emitBuiltin(const ast::Expr &expr, Scope &scope);
  Term emitLinear(const ast::Expr &expr, Scope &scope);
  Term emitSoftmaxAttention(const ast::Expr &expr, Scope &scope);
  Term emitStack(llvm::ArrayRef<Term> parts, mlir::Location loc);
  Term pointwise(llvm::StringRef function, llvm::ArrayRef<Term> operands, mlir::Location loc);
  Term reduce(llvm::StringRef op, Term x, mlir::Location loc);
  Term slice(Term x, int64_t begin, int64_t size, mlir::Location loc);
  Term matVec(Term a, Term x, mlir::Location loc);
  Term outer(Term x, Term y, mlir::Location loc);
  Term softmax(Term x, mlir::Location loc);
  void bindLet(const ast::Binding &binding, Scope &scope);
  static std::string fullName(const std::string &name, const Scope &scope);
  double constant(const ast::ExprRef &expr, Scope &scope);

  mlir::RankedTensorType type(llvm::ArrayRef<int64_t> shape) { return mlir::RankedTensorType::get(shape, element); }
  llvm::ArrayRef<int64_t> shapeOf(const Term &term) const;

  const ast::File &file;
  DimValues dims;
  mlir::FloatType element;
  mlir::OpBuilder &b;
};

} // namespace yaglom::compiler
