// The structural ops of the phi dialect: contractions, reductions, stacking, attention, and what tiles need beyond linalg.
// SPDX-License-Identifier: Apache-2.0
#ifndef YAGLOM_OPS_TD
#define YAGLOM_OPS_TD

include "dialect/Pointwise.td"

//===- Formula level: one row in, one row out -===//

def Phi_MatVecOp : Phi_Op<"matvec", [Pure]> {
  let summary = "[n, d] @ [d] : [n] (T4)";
  let arguments = (ins Phi_Value:$matrix, Phi_Value:$vector);
  let results = (outs Phi_Value:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

class Phi_RowReduction<string mnemonic, string text> : Phi_Op<mnemonic, [Pure]> {
  let summary = text;
  let arguments = (ins Phi_Value:$x);
  let results = (outs Phi_Value:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}
def Phi_SumOp : Phi_RowReduction<"sum", "the sum of a vector's entries">;
def Phi_RowMaxOp : Phi_RowReduction<"row_max", "the largest entry of a vector">;
def Phi_NormOp : Phi_RowReduction<"norm", "the Euclidean norm |x|">;

def Phi_UnitOp : Phi_Op<"unit", [Pure]> {
  let summary = "x / |x|, and 0 at 0";
  let arguments = (ins Phi_Value:$x);
  let results = (outs Phi_Value:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Phi_StackOp : Phi_Op<"stack", [Pure]> {
  let summary = "[a; b; ...]: vectors and scalars one after the other (T5)";
  let arguments = (ins Variadic<Phi_Value>:$parts);
  let results = (outs Phi_Value:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Phi_SliceOp : Phi_Op<"slice", [Pure]> {
  let summary = "entries begin .. begin + size of the result - 1 of a vector (T6)";
  let arguments = (ins Phi_Value:$x, I64Attr:$begin);
  let results = (outs Phi_Value:$result);
  let assemblyFormat = "$x `from` $begin attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Phi_OuterOp : Phi_Op<"outer", [Pure]> {
  let summary = "all products x_i y_j, at place i*m + j (T5)";
  let arguments = (ins Phi_Value:$x, Phi_Value:$y);
  let results = (outs Phi_Value:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Phi_PositionOp : Phi_Op<"position", [Pure]> {
  let summary = "pos: the place of the token that the row belongs to, from 1 (T11)";
  let arguments = (ins Phi_Value:$row);
  let results = (outs Phi_Value:$result);
  let assemblyFormat = "`of` $row attr-dict `:` functional-type(operands, results)";
}

def Phi_LengthOp : Phi_Op<"length", [Pure]> {
  let summary = "len: the length of the sequence (T11)";
  let results = (outs Phi_Value:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

class Phi_Attention<string mnemonic> : Phi_Op<mnemonic, [Pure, AttrSizedOperandSegments]> {
  let results = (outs Phi_Value:$result);
  let hasVerifier = 1;
}

def Phi_LinearOp : Phi_Attention<"linear"> {
  let summary = "linear(q, k, v) with ... (language.md section 4)";
  let description = [{
    O_i = sum_j (q_i . k_j) v_j over the keys. `normalize` is "none", "bare", "eps", "clamp" or "signed"; `threshold` is
    its constant. `decay` is a scalar per head or per key token; with `log_decay` it is its logarithm. `mask` selects
    keys.
  }];
  let arguments = (ins Phi_Value:$q, Phi_Value:$k, Phi_Value:$v, Optional<Phi_Value>:$decay, Optional<Phi_Value>:$mask,
                       UnitAttr:$causal, UnitAttr:$log_decay, DefaultValuedStrAttr<StrAttr, "none">:$normalize,
                       DefaultValuedAttr<F64Attr, "0.0">:$threshold);
  let assemblyFormat = [{
    `(` $q `,` $k `,` $v `)` (`decay` $decay^)? (`mask` $mask^)? attr-dict `:` functional-type(operands, results)
  }];
}

def Phi_SoftmaxAttentionOp : Phi_Attention<"softmax_attention"> {
  let summary = "softmax_attention(q, k, v) with ... (language.md section 4)";
  let description = "O_i = sum_j softmax_j(scale q_i . k_j) v_j; `scale` is 1/sqrt(width of q) when it is not given.";
  let arguments = (ins Phi_Value:$q, Phi_Value:$k, Phi_Value:$v, Optional<Phi_Value>:$scale, Optional<Phi_Value>:$mask,
                       UnitAttr:$causal);
  let assemblyFormat = [{
    `(` $q `,` $k `,` $v `)` (`scale` $scale^)? (`mask` $mask^)? attr-dict `:` functional-type(operands, results)
  }];
}

//===- Scan level: which state is carried, in which order -===//

def Phi_ScanOp : Phi_Attention<"scan"> {
  let summary = "linear attention with its state, exponents and decay made explicit";
  let description = [{
    The features of query i and key j are
        scale_i * q_i[f] * 2^(q_exponent_i[f])   and   k_j[f] * 2^(k_exponent_j[f]);
    an exponent is a vector over f, a scalar common to all f, or absent. `log2_decay` is the base-2 logarithm of the
    decay. `direction` is "causal" or "both". The state, as the result's type list shows, is S [F, e], z [F] (when the
    op normalises) and a, the running maxima of the keys' exponents in log2: [F], [], or none (language.md, N1).
  }];
  let arguments = (ins Phi_Value:$q, Phi_Value:$k, Phi_Value:$v, Optional<Phi_Value>:$scale,
                       Optional<Phi_Value>:$q_exponent, Optional<Phi_Value>:$k_exponent,
                       Optional<Phi_Value>:$log2_decay, Optional<Phi_Value>:$mask,
                       StrAttr:$direction, StrAttr:$normalize, F64Attr:$threshold, TypeArrayAttr:$state);
  let assemblyFormat = [{
    $direction `(` $q `,` $k `,` $v `)` (`scale` $scale^)? (`q_exponent` $q_exponent^)? (`k_exponent` $k_exponent^)?
    (`log2_decay` $log2_decay^)? (`mask` $mask^)? `state` $state attr-dict `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = [{
    bool isCausal() { return getDirection() == "causal"; }
    bool normalizes() { return getNormalize() != "none"; }
    bool tracksExponents() { return getState().size() > (normalizes() ? 2u : 1u); }
  }];
}

//===- Tile level: what linalg lacks -===//

def Phi_LoadRowsOp : Phi_Op<"load_rows", [Pure]> {
  let summary = "rows first .. first + valid - 1 of an operand; the rest of the tile is 0";
  let arguments = (ins AnyRankedTensor:$source, Index:$first, Index:$valid);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$source `[` $first `]` `valid` $valid attr-dict `:` type($source) `to` type($result)";
}

def Phi_StoreRowsOp : Phi_Op<"store_rows"> {
  let summary = "rows 0 .. valid - 1 of a tile become rows first .. of an operand";
  let arguments = (ins AnyRankedTensor:$tile, AnyRankedTensor:$target, Index:$first, Index:$valid);
  let assemblyFormat = "$tile `,` $target `[` $first `]` `valid` $valid attr-dict `:` type($tile) `to` type($target)";
}

def Phi_StateInOp : Phi_Op<"state_in"> {
  let summary = "a member of the state that the caller hands in, or `initial` when there is none";
  let description = "`offset` is where the member begins among all members, in elements, each stored row by row.";
  let arguments = (ins AnyStaticShapeTensor:$initial, I64Attr:$offset);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$initial `at` $offset attr-dict `:` type($initial) `to` type($result)";
}

def Phi_StateOutOp : Phi_Op<"state_out"> {
  let summary = "hands a member of the state to the caller, when it asks for it";
  let arguments = (ins AnyStaticShapeTensor:$value, I64Attr:$offset);
  let assemblyFormat = "$value `at` $offset attr-dict `:` type($value)";
}

def Phi_HasStateOp : Phi_Op<"has_state"> {
  let summary = "whether the caller hands a state in";
  let results = (outs I1:$result);
  let assemblyFormat = "attr-dict";
}

def Phi_Exp2ScaledOp : Phi_Op<"exp2_scaled", [Pure, SameOperandsAndResultType, Elementwise, Scalarizable, Vectorizable, Tensorizable]> {
  let summary = "2^(f - a), a whole: f alone is rounded, so the bits do not depend on a but for the exponent";
  let arguments = (ins Phi_Float:$f, Phi_Float:$a);
  let results = (outs Phi_Float:$result);
  let assemblyFormat = "operands attr-dict `:` type($result)";
}

def Phi_LdexpOp : Phi_Op<"ldexp", [Pure, SameOperandsAndResultType, Elementwise, Scalarizable, Vectorizable, Tensorizable]> {
  let summary = "x * 2^n, n whole: exact while the result is in range";
  let arguments = (ins Phi_Float:$x, Phi_Float:$n);
  let results = (outs Phi_Float:$result);
  let assemblyFormat = "operands attr-dict `:` type($result)";
}

#endif
