// Reverse mode over a function of rows: sums over tokens where a value without a side served all of them.
// SPDX-License-Identifier: Apache-2.0
// RUN: yaglom-opt --phi-differentiate --split-input-file %s | FileCheck %s

// The arguments, the gradient of the result, and a gradient for each argument.
// CHECK-LABEL: func @backward
// CHECK-SAME:    (%[[X:.*]]: tensor<4xf32> {phi.side = "query"}, %[[W:.*]]: tensor<3x4xf32>,
// CHECK-SAME:     %[[DY:.*]]: tensor<3xf32> {phi.side = "query"}) -> (tensor<4xf32>, tensor<3x4xf32>)
// CHECK:         %[[U:.*]] = phi.matvec %[[W]], %[[X]]
// CHECK:         %[[Y:.*]] = phi.sin %[[U]]
// CHECK:         %[[SLOPE:.*]] = phi.derivative "phi.sin" by 0(%[[U]], %[[Y]])
// CHECK:         %[[DU:.*]] = phi.mul %[[DY]], %[[SLOPE]]
// CHECK:         %[[OUTER:.*]] = phi.outer_matrix %[[DU]], %[[X]]
// CHECK:         %[[DW:.*]] = phi.token_sum %[[OUTER]]
// CHECK:         %[[DX:.*]] = phi.matvec_transposed %[[W]], %[[DU]]
// CHECK:         return %[[DX]], %[[DW]]
func.func @forward(%x: tensor<4xf32> {phi.side = "query"}, %w: tensor<3x4xf32>) -> tensor<3xf32> {
  %u = phi.matvec %w, %x : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3xf32>
  %y = phi.sin %u : (tensor<3xf32>) -> tensor<3xf32>
  return %y : tensor<3xf32>
}

// -----

// A scalar that was broadcast collects what its copies get; an argument that does not act gets zeros.
// CHECK-LABEL: func @backward
// CHECK-SAME:    (%[[X:.*]]: tensor<4xf32> {phi.side = "query"}, %[[S:.*]]: tensor<f32>, %{{.*}}: tensor<2xf32>, %[[DY:.*]]: tensor<4xf32>
// CHECK:         %[[DX:.*]] = phi.mul %[[DY]], %[[S]]
// CHECK:         %[[BY:.*]] = phi.mul %[[DY]], %[[X]]
// CHECK:         %[[SUM:.*]] = phi.sum_to %[[BY]] : (tensor<4xf32>) -> tensor<f32>
// CHECK:         %[[DS:.*]] = phi.token_sum %[[SUM]]
// CHECK:         %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : tensor<2xf32>
// CHECK:         return %[[DX]], %[[DS]], %[[ZERO]]
func.func @forward(%x: tensor<4xf32> {phi.side = "query"}, %s: tensor<f32>, %unused: tensor<2xf32>) -> tensor<4xf32> {
  %y = phi.mul %x, %s : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// A scan comes back as one scan for each side; exponents take the gradient of their feature.
// CHECK-LABEL: func @backward
// CHECK:         %[[DQ:.*]], %{{.*}}, %{{.*}}, %[[W:.*]], %[[W0:.*]], %[[B:.*]], %{{.*}} = phi.scan_grad_query "causal"(%arg0, %arg1, %arg2) k_exponent %arg3 grad %arg4
// CHECK:         %[[DK:.*]], %[[DV:.*]], %{{.*}} = phi.scan_grad_key "causal"(%arg0, %arg1, %arg2) k_exponent %arg3 rows(%[[W]], %[[W0]], %[[B]])
// The queries have no exponents of their own: the reversed state has one maximum, of -b.
// CHECK-SAME:      state [tensor<4x3xf32>, tensor<4xf32>, tensor<f32>]
// CHECK:         %[[KDK:.*]] = phi.mul %arg1, %[[DK]]
// CHECK:         %[[DF:.*]] = phi.mul %[[KDK]], %{{.*}}
// CHECK:         return %[[DQ]], %[[DK]], %[[DV]], %[[DF]]
func.func @forward(%q: tensor<4xf32> {phi.side = "query"}, %k: tensor<4xf32> {phi.side = "key"},
                   %v: tensor<3xf32> {phi.side = "key"}, %f: tensor<4xf32> {phi.side = "key"}) -> tensor<3xf32> {
  %o = phi.scan "causal"(%q, %k, %v) k_exponent %f state [tensor<4x3xf32>, tensor<4xf32>, tensor<4xf32>]
      {normalize = "bare", threshold = 0.0 : f64}
      : (tensor<4xf32>, tensor<4xf32>, tensor<3xf32>, tensor<4xf32>) -> tensor<3xf32>
  return %o : tensor<3xf32>
}
