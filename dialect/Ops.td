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

//===- Formula level: what derivatives add -===//

def Phi_DerivativeOp : Phi_Op<"derivative", [Pure]> {
  let summary = "the derivative of an elementary function by one of its operands";
  let description = "`of` is the function's op; the operands are its operands and its result, each of which broadcasts.";
  let arguments = (ins StrAttr:$of, I64Attr:$index, Variadic<Phi_Value>:$operands);
  let results = (outs Phi_Value:$result);
  let assemblyFormat = "$of `by` $index `(` operands `)` attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = [{
    ::mlir::Value lower(::mlir::OpBuilder &builder, ::mlir::Location loc, ::mlir::ValueRange operands);
  }];
}

def Phi_MatVecTransposedOp : Phi_Op<"matvec_transposed", [Pure]> {
  let summary = "[n, d]^T @ [n] : [d], the adjoint of matvec";
  let arguments = (ins Phi_Value:$matrix, Phi_Value:$vector);
  let results = (outs Phi_Value:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Phi_OuterMatrixOp : Phi_Op<"outer_matrix", [Pure]> {
  let summary = "[n], [d] : the matrix [n, d] of all products x_i y_j";
  let arguments = (ins Phi_Value:$x, Phi_Value:$y);
  let results = (outs Phi_Value:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Phi_MatrixOp : Phi_Op<"matrix", [Pure]> {
  let summary = "a vector [n*d] as the matrix [n, d], row by row";
  let arguments = (ins Phi_Value:$x);
  let results = (outs Phi_Value:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Phi_SumToOp : Phi_RowReduction<"sum_to", "sums over the axes that the result lacks: the adjoint of broadcasting (T3)">;

def Phi_FirstMaxOp : Phi_RowReduction<"first_max", "1 at the first largest entry of a vector, 0 elsewhere">;

def Phi_TokenSumOp : Phi_RowReduction<"token_sum", "the sum of a row value over all tokens of its side: a value without a side">;

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
    /// Of all members together.
    int64_t stateElements() {
      int64_t elements = 0;
      for (::mlir::Attribute member : getState())
        elements += ::mlir::cast<::mlir::RankedTensorType>(::mlir::cast<::mlir::TypeAttr>(member).getValue()).getNumElements();
      return elements;
    }
  }];
}

def Phi_ScanGradQueryOp : Phi_Op<"scan_grad_query", [Pure, AttrSizedOperandSegments]> {
  let summary = "the adjoint of phi.scan by everything on the query's side, and what its other half needs";
  let description = [{
    The operands are those of the scan and the gradient of its result. It is a scan in the same direction with the same
    state. With N_i = sum_j (sum_f q_i[f] 2^(e_i[f] - b_i) k_j[f] 2^k_exponent_j[f]) v_j, D_i the same without v_j, e_i the
    query's exponents when there is one for each f and else 0, the scan's result is N_i s_i for `normalize` "none", else
    N_i s_i / (s_i D_i + ...). Results of a query row: the gradients dq of q, w [e] of N_i and w0 [] of D_i; the whole number
    b [] itself; dscale [] of `scale`, and t [], of the natural logarithm of s_i; r [], with a decay, as phi.scan_grad_decay
    wants it.
  }];
  let arguments = (ins Phi_Value:$q, Phi_Value:$k, Phi_Value:$v, Optional<Phi_Value>:$scale,
                       Optional<Phi_Value>:$q_exponent, Optional<Phi_Value>:$k_exponent,
                       Optional<Phi_Value>:$log2_decay, Optional<Phi_Value>:$mask, Phi_Value:$grad,
                       StrAttr:$direction, StrAttr:$normalize, F64Attr:$threshold, TypeArrayAttr:$state);
  let results = (outs Phi_Value:$dq, Phi_Value:$dscale, Phi_Value:$t, Phi_Value:$w, Phi_Value:$w0, Phi_Value:$b,
                      Phi_Value:$r);
  let assemblyFormat = [{
    $direction `(` $q `,` $k `,` $v `)` (`scale` $scale^)? (`q_exponent` $q_exponent^)? (`k_exponent` $k_exponent^)?
    (`log2_decay` $log2_decay^)? (`mask` $mask^)? `grad` $grad `state` $state attr-dict `:` functional-type(operands, results)
  }];
}

def Phi_ScanGradKeyOp : Phi_Op<"scan_grad_key", [Pure, AttrSizedOperandSegments]> {
  let summary = "the adjoint of phi.scan by everything on the key's side";
  let description = [{
    w, w0 and b are those of phi.scan_grad_query. The state, from the last token to the first, is
    G[f] = sum_i q_i[f] 2^(e_i[f] - b_i) w_i over the queries that see a key, and the same with w0; its running maxima are of
    the exponents e_i - b_i. Results of a key row: the gradients of k and of v; c [], with a decay, as phi.scan_grad_decay wants it. `state` lists the types of G, of its
    companion when `normalizes`, and of the maxima when exponents are tracked.
  }];
  let arguments = (ins Phi_Value:$q, Phi_Value:$k, Phi_Value:$v, Optional<Phi_Value>:$q_exponent,
                       Optional<Phi_Value>:$k_exponent, Optional<Phi_Value>:$log2_decay, Optional<Phi_Value>:$mask,
                       Phi_Value:$w, Phi_Value:$w0, Phi_Value:$b, StrAttr:$direction, StrAttr:$normalize,
                       TypeArrayAttr:$state);
  let results = (outs Phi_Value:$dk, Phi_Value:$dv, Phi_Value:$c);
  let assemblyFormat = [{
    $direction `(` $q `,` $k `,` $v `)` (`q_exponent` $q_exponent^)? (`k_exponent` $k_exponent^)?
    (`log2_decay` $log2_decay^)? (`mask` $mask^)? `rows` `(` $w `,` $w0 `,` $b `)` `state` $state attr-dict `:`
    functional-type(operands, results)
  }];
}

def Phi_SoftmaxGradQueryOp : Phi_Op<"softmax_grad_query", [Pure, AttrSizedOperandSegments]> {
  let summary = "the adjoint of phi.softmax_attention by the query, and what its other half needs";
  let description = [{
    With p_ij the weights and u_ij = p_ij (grad_i . v_j - delta_i): y_i = sum_j u_ij k_j, which is the gradient of q but for
    the scale; lse_i, the base-2 logarithm of the sum of 2^score, scores in log2; delta_i = grad_i . O_i.
  }];
  let arguments = (ins Phi_Value:$q, Phi_Value:$k, Phi_Value:$v, Optional<Phi_Value>:$scale, Optional<Phi_Value>:$mask,
                       Phi_Value:$grad, UnitAttr:$causal);
  let results = (outs Phi_Value:$y, Phi_Value:$lse, Phi_Value:$delta);
  let assemblyFormat = [{
    `(` $q `,` $k `,` $v `)` (`scale` $scale^)? (`mask` $mask^)? `grad` $grad attr-dict `:`
    functional-type(operands, results)
  }];
}

def Phi_SoftmaxGradKeyOp : Phi_Op<"softmax_grad_key", [Pure, AttrSizedOperandSegments]> {
  let summary = "the adjoint of phi.softmax_attention by the key and the value";
  let description = "y_j = sum_i u_ij q_i, the gradient of k but for the scale, and dv_j = sum_i p_ij grad_i.";
  let arguments = (ins Phi_Value:$q, Phi_Value:$k, Phi_Value:$v, Optional<Phi_Value>:$scale, Optional<Phi_Value>:$mask,
                       Phi_Value:$grad, Phi_Value:$lse, Phi_Value:$delta, UnitAttr:$causal);
  let results = (outs Phi_Value:$y, Phi_Value:$dv);
  let assemblyFormat = [{
    `(` $q `,` $k `,` $v `)` (`scale` $scale^)? (`mask` $mask^)? `grad` $grad `rows` `(` $lse `,` $delta `)` attr-dict `:`
    functional-type(operands, results)
  }];
}

def Phi_ScanGradDecayOp : Phi_Op<"scan_grad_decay", [Pure]> {
  let summary = "the gradient of a causal scan by the base-2 logarithm of its decay";
  let description = [{
    With c_ij the weight of key j at query i times its gradient, step t is felt by the pairs j < t <= i: ln 2 times the sum of
    r_i - c_i over all i >= t, kept in float64, where r_i is the sum of c_ij over the keys j < i, and c_j over the queries
    i > j. No pair i = j is in them: it would cancel, but for a rounding that a weak decay makes large. 0 where the step
    forgets all or the token is masked.
  }];
  let arguments = (ins Phi_Value:$r, Phi_Value:$c, Phi_Value:$log2_decay, Optional<Phi_Value>:$mask);
  let results = (outs Phi_Value:$result);
  let assemblyFormat = [{
    `(` $r `,` $c `)` `decay` $log2_decay (`mask` $mask^)? attr-dict `:` functional-type(operands, results)
  }];
}

//===- Tile level: what linalg lacks -===//

def Phi_StoreValueOp : Phi_Op<"store_value", [AllTypesMatch<["value", "target"]>]> {
  let summary = "a value without tokens becomes an operand";
  let arguments = (ins AnyStaticShapeTensor:$value, AnyStaticShapeTensor:$target);
  let assemblyFormat = "$value `to` $target attr-dict `:` type($value)";
}

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

def Phi_LoadItemOp : Phi_Op<"load_item", [Pure]> {
  let summary = "one of the tensors that an operand holds one after the other";
  let arguments = (ins AnyRankedTensor:$source, Index:$item);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$source `[` $item `]` attr-dict `:` type($source) `to` type($result)";
}

def Phi_StoreItemOp : Phi_Op<"store_item"> {
  let summary = "a tensor becomes one of those that an operand holds one after the other";
  let arguments = (ins AnyStaticShapeTensor:$value, AnyRankedTensor:$target, Index:$item);
  let assemblyFormat = "$value `,` $target `[` $item `]` attr-dict `:` type($value) `to` type($target)";
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
