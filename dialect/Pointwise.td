// Every elementary function of the language, one record each: its name, its value, its lowering.
// A record's code sees its operands as x and y, and derivatives the result as r. `value` is C++ on doubles; the rest is C++
// on dialect/Scalar.h. Constant derivatives are written with a constant of the operand's type.
// SPDX-License-Identifier: Apache-2.0
#ifndef YAGLOM_POINTWISE_TD
#define YAGLOM_POINTWISE_TD

include "dialect/Dialect.td"

class Phi_Pointwise<string mnemonic, dag operands, string unpackValue, string unpackLowering>
    : Phi_Op<mnemonic, [Pure, DeclareOpInterfaceMethods<PointwiseOpInterface>]> {
  code value = [{}];
  code lowering = [{}];
  code byX = [{}];
  code byY = [{ return x; }]; // of a function of one operand: never asked for
  let arguments = operands;
  let results = (outs Phi_Value:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  // Scalars broadcast, and [d] broadcasts along the rows of [n, d] (T3).
  let hasVerifier = 1;
  let extraClassDefinition =
      "double $cppClass::evaluate(::llvm::ArrayRef<double> v) {" # unpackValue # value # "}\n"
      "::mlir::Value $cppClass::lower(::mlir::OpBuilder &builder, ::mlir::Location loc, ::mlir::ValueRange v) {"
      # unpackLowering # lowering # "}\n"
      "::mlir::Value $cppClass::derivative(::mlir::OpBuilder &builder, ::mlir::Location loc, unsigned index, "
      "::mlir::ValueRange v, ::mlir::Value result) {" # unpackLowering # "[[maybe_unused]] Scalar r(builder, loc, result);"
      "auto byX = [&]() -> Scalar {" # byX # "}; auto byY = [&]() -> Scalar {" # byY # "};"
      "return index ? byY() : byX(); }\n"
      "::llvm::LogicalResult $cppClass::verify() { return verifyPointwise(*this); }\n";
}

class Phi_Unary<string mnemonic, code scalar, code emitted, code slope>
    : Phi_Pointwise<mnemonic, (ins Phi_Value:$x), "double x = v[0];", "Scalar x(builder, loc, v[0]);"> {
  let value = scalar;
  let lowering = emitted;
  let byX = slope;
}

class Phi_Binary<string mnemonic, code scalar, code emitted, code slopeX, code slopeY>
    : Phi_Pointwise<mnemonic, (ins Phi_Value:$x, Phi_Value:$y), "double x = v[0], y = v[1];",
                    "Scalar x(builder, loc, v[0]), y(builder, loc, v[1]);"> {
  let value = scalar;
  let lowering = emitted;
  let byX = slopeX;
  let byY = slopeY;
}

// Arithmetic, written as operators.
def Phi_AddOp : Phi_Binary<"add", [{ return x + y; }], [{ return x + y; }],
    [{ return x.constant(1); }], [{ return y.constant(1); }]>;
def Phi_SubOp : Phi_Binary<"sub", [{ return x - y; }], [{ return x - y; }],
    [{ return x.constant(1); }], [{ return y.constant(-1); }]>;
def Phi_MulOp : Phi_Binary<"mul", [{ return x * y; }], [{ return x * y; }],
    [{ return y; }], [{ return x; }]>;
def Phi_DivOp : Phi_Binary<"div", [{ return x / y; }], [{ return x / y; }],
    [{ return y.constant(1) / y; }], [{ return -r / y; }]>;
def Phi_NegOp : Phi_Unary<"neg", [{ return -x; }], [{ return -x; }],
    [{ return x.constant(-1); }]>;
def Phi_PowOp : Phi_Binary<"pow", [{ return std::pow(x, y); }], [{ return pow(x, y); }],
    [{ return select(y == y.constant(0), y, y * pow(x, y - y.constant(1))); }], [{ return select(r == r.constant(0), r, r * log(x)); }]>;

// Functions by name.
def Phi_ExpOp : Phi_Unary<"exp", [{ return std::exp(x); }], [{ return exp(x); }],
    [{ return r; }]>;
def Phi_Exp2Op : Phi_Unary<"exp2", [{ return std::exp2(x); }], [{ return exp2(x); }],
    [{ return r * r.constant(M_LN2); }]>;
def Phi_Expm1Op : Phi_Unary<"expm1", [{ return std::expm1(x); }], [{ return expm1(x); }],
    [{ return r + r.constant(1); }]>;
def Phi_LogOp : Phi_Unary<"log", [{ return std::log(x); }], [{ return log(x); }],
    [{ return x.constant(1) / x; }]>;
def Phi_Log1pOp : Phi_Unary<"log1p", [{ return std::log1p(x); }], [{ return log1p(x); }],
    [{ return x.constant(1) / (x.constant(1) + x); }]>;
def Phi_SinOp : Phi_Unary<"sin", [{ return std::sin(x); }], [{ return sin(x); }],
    [{ return cos(x); }]>;
def Phi_CosOp : Phi_Unary<"cos", [{ return std::cos(x); }], [{ return cos(x); }],
    [{ return -sin(x); }]>;
def Phi_TanOp : Phi_Unary<"tan", [{ return std::tan(x); }], [{ return tan(x); }],
    [{ return r * r + r.constant(1); }]>;
def Phi_TanhOp : Phi_Unary<"tanh", [{ return std::tanh(x); }], [{ return tanh(x); }],
    [{ return r.constant(1) - r * r; }]>;
def Phi_SqrtOp : Phi_Unary<"sqrt", [{ return std::sqrt(x); }], [{ return sqrt(x); }],
    [{ return r.constant(0.5) / r; }]>;
def Phi_RsqrtOp : Phi_Unary<"rsqrt", [{ return 1 / std::sqrt(x); }], [{ return x.constant(1) / sqrt(x); }],
    [{ return r.constant(-0.5) * r / x; }]>;
def Phi_AbsOp : Phi_Unary<"abs", [{ return std::fabs(x); }], [{ return abs(x); }],
    [{ return select(x > x.constant(0), x.constant(1), select(x < x.constant(0), x.constant(-1), x)); }]>;
def Phi_SignOp : Phi_Unary<"sign",
    [{ return std::isnan(x) ? x : double((x > 0) - (x < 0)); }],
    // The last choice is x itself: a zero, or a NaN that must stay one.
    [{ return select(x > x.constant(0), x.constant(1), select(x < x.constant(0), x.constant(-1), x)); }],
    [{ return select(x == x, x.constant(0), x); }]>;
def Phi_ErfOp : Phi_Unary<"erf", [{ return std::erf(x); }], [{ return erf(x); }],
    [{ return exp(-(x * x)) * x.constant(M_2_SQRTPI); }]>;
def Phi_MinOp : Phi_Binary<"min",
    [{ return std::isnan(x) || std::isnan(y) ? NAN : std::fmin(x, y); }], [{ return min(x, y); }],
    [{ return half(x < y, x == y, x); }], [{ return half(y < x, x == y, y); }]>;
def Phi_MaxOp : Phi_Binary<"max",
    [{ return std::isnan(x) || std::isnan(y) ? NAN : std::fmax(x, y); }], [{ return max(x, y); }],
    [{ return half(x > y, x == y, x); }], [{ return half(y > x, x == y, y); }]>;
def Phi_ReluOp : Phi_Unary<"relu", [{ return x < 0 ? 0 : x; }], [{ return max(x, x.constant(0)); }],
    [{ return select(x > x.constant(0), x.constant(1), select(x <= x.constant(0), x.constant(0), x)); }]>;
def Phi_EluOp : Phi_Unary<"elu",
    [{ return x > 0 ? x : std::expm1(x); }], [{ return select(x > x.constant(0), x, expm1(min(x, x.constant(0)))); }],
    [{ return select(x > x.constant(0), x.constant(1), r + r.constant(1)); }]>;
def Phi_SigmoidOp : Phi_Unary<"sigmoid",
    [{ return 1 / (1 + std::exp(-x)); }], [{ return x.constant(1) / (x.constant(1) + exp(-x)); }],
    [{ return r * (r.constant(1) - r); }]>;
// Right at both ends: softplus(-20) is exp(-20), softplus(1000) is 1000.
def Phi_SoftplusOp : Phi_Unary<"softplus",
    [{ return std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x))); }],
    [{ return max(x, x.constant(0)) + log1p(exp(-abs(x))); }],
    [{ return x.constant(1) / (x.constant(1) + exp(-x)); }]>;

// x / y, and 0 where y is 0: derivatives at the kinks of |x| and x / |x|; no spec can name it.
def Phi_DivOrZeroOp : Phi_Binary<"div_or_zero",
    [{ return y == 0 ? 0 : x / y; }], [{ return select(y == y.constant(0), y, x / y); }],
    [{ return select(y == y.constant(0), y, y.constant(1) / y); }], [{ return select(y == y.constant(0), y, -r / y); }]>;

// The logarithm of a decay: a decay of 0 forgets all, and nothing near it is felt (language.md section 4).
def Phi_LogDecayOp : Phi_Unary<"log_decay", [{ return std::log(x); }], [{ return log(x); }],
    [{ return select(x == x.constant(0), x, x.constant(1) / x); }]>;

// elu(x) + 1, exact below 0 where the sum as written underflows; simplification makes it, no spec can name it.
def Phi_Elu1Op : Phi_Unary<"elu_plus_one",
    [{ return x > 0 ? x + 1 : std::exp(x); }],
    [{ return select(x > x.constant(0), x + x.constant(1), exp(min(x, x.constant(0)))); }],
    [{ return select(x > x.constant(0), x.constant(1), r); }]>;

#endif
