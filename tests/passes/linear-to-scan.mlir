// State, exponents and decay become explicit.
// SPDX-License-Identifier: Apache-2.0
// RUN: yaglom-opt --phi-linear-to-scan --split-input-file %s | FileCheck %s

// Under a bare normalize the exponent that all features of a query share goes, the keys' is carried.
// CHECK-LABEL: func @common_exponent
// CHECK:         %[[LOG2E:.*]] = arith.constant dense<1.44269502> : tensor<f32>
// CHECK:         %[[EXPONENT:.*]] = phi.mul %arg3, %[[LOG2E]]
// CHECK:         phi.scan "causal"(%arg0, %{{.*}}, %arg2) k_exponent %[[EXPONENT]]
// CHECK-SAME:      state [tensor<4x3xf32>, tensor<4xf32>, tensor<f32>]
func.func @common_exponent(%q: tensor<4xf32> {phi.side = "query"}, %k: tensor<4xf32> {phi.side = "key"},
                           %v: tensor<3xf32> {phi.side = "key"}, %f: tensor<f32> {phi.side = "key"},
                           %g: tensor<f32> {phi.side = "query"}) -> tensor<3xf32> {
  %ek = phi.exp %f : (tensor<f32>) -> tensor<f32>
  %eq = phi.exp %g : (tensor<f32>) -> tensor<f32>
  %fk = phi.mul %ek, %k : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %fq = phi.mul %q, %eq : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %o = phi.linear(%fq, %fk, %v) {causal, normalize = "bare"}
      : (tensor<4xf32>, tensor<4xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %o : tensor<3xf32>
}

// -----

// Each feature has an exponent of its own, and so has the state.
// CHECK-LABEL: func @exponent_by_feature
// CHECK:         phi.scan "both"(%{{.*}}, %{{.*}}, %arg2) q_exponent %{{[^ ]*}} k_exponent %{{[^ ]*}}
// CHECK-SAME:      state [tensor<4x3xf32>, tensor<4xf32>, tensor<4xf32>]
func.func @exponent_by_feature(%q: tensor<4xf32> {phi.side = "query"}, %k: tensor<4xf32> {phi.side = "key"},
                               %v: tensor<3xf32> {phi.side = "key"}) -> tensor<3xf32> {
  %fq = phi.exp %q : (tensor<4xf32>) -> tensor<4xf32>
  %fk = phi.exp %k : (tensor<4xf32>) -> tensor<4xf32>
  %o = phi.linear(%fq, %fk, %v) {normalize = "bare"}
      : (tensor<4xf32>, tensor<4xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %o : tensor<3xf32>
}

// -----

// With a threshold the query's factor matters: it moves behind the sum.
// CHECK-LABEL: func @factor_moves
// CHECK:         phi.scan "causal"(%arg0, %arg1, %arg2) scale %arg3
// CHECK-SAME:      state [tensor<4x3xf32>, tensor<4xf32>] {normalize = "clamp"
func.func @factor_moves(%q: tensor<4xf32> {phi.side = "query"}, %k: tensor<4xf32> {phi.side = "key"},
                        %v: tensor<3xf32> {phi.side = "key"}, %s: tensor<f32> {phi.side = "query"}) -> tensor<3xf32> {
  %fq = phi.mul %q, %s : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %o = phi.linear(%fq, %k, %v) {causal, normalize = "clamp", threshold = 0.1 : f64}
      : (tensor<4xf32>, tensor<4xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %o : tensor<3xf32>
}

// -----

// CHECK-LABEL: func @decay_is_a_logarithm
// CHECK:         %[[LOG:.*]] = phi.log_decay %arg3
// CHECK:         %[[LOG2:.*]] = phi.mul %[[LOG]]
// CHECK:         phi.scan "causal"(%arg0, %arg1, %arg2) log2_decay %[[LOG2]] state [tensor<4x3xf32>, tensor<f32>]
func.func @decay_is_a_logarithm(%q: tensor<4xf32> {phi.side = "query"}, %k: tensor<4xf32> {phi.side = "key"},
                                %v: tensor<3xf32> {phi.side = "key"}, %g: tensor<f32>) -> tensor<3xf32> {
  %o = phi.linear(%q, %k, %v) decay %g {causal}
      : (tensor<4xf32>, tensor<4xf32>, tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  return %o : tensor<3xf32>
}

// -----

// Sums of exponentials are evaluated as written.
// CHECK-LABEL: func @sums_stay
// CHECK:         phi.exp
// CHECK:         phi.scan "both"
// CHECK-NOT:     k_exponent
func.func @sums_stay(%q: tensor<4xf32> {phi.side = "query"}, %k: tensor<4xf32> {phi.side = "key"},
                     %v: tensor<3xf32> {phi.side = "key"}) -> tensor<3xf32> {
  %one = arith.constant dense<1.0> : tensor<f32>
  %e = phi.exp %k : (tensor<4xf32>) -> tensor<4xf32>
  %fk = phi.add %e, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %o = phi.linear(%q, %fk, %v) : (tensor<4xf32>, tensor<4xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %o : tensor<3xf32>
}
