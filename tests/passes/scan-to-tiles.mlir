// Rows become tiles of a chunk; what is above the diagonal of row blocks is never formed.
// SPDX-License-Identifier: Apache-2.0
// RUN: yaglom-opt "--phi-scan-to-tiles=chunk=4 granule=2" --split-input-file %s | FileCheck %s

// A plain formula: one load, one contraction, one store a chunk; the weights' sum is made once.
// CHECK-LABEL: func @rows
// CHECK:         %[[W:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<3x2xf32>, tensor<3x2xf32>)
// CHECK:         scf.for %[[FIRST:.*]] =
// CHECK:           %[[X:.*]] = phi.load_rows %{{.*}}[%[[FIRST]]] valid %{{.*}} : tensor<?x2xf32> to tensor<4x2xf32>
// CHECK:           linalg.contract {{.*}} ins(%[[X]], %[[W]] : tensor<4x2xf32>, tensor<3x2xf32>)
// CHECK:           phi.store_rows {{.*}} : tensor<4x3xf32> to tensor<?x3xf32>
func.func @rows(%x: tensor<2xf32> {phi.name = "Q", phi.side = "query"}, %a: tensor<3x2xf32> {phi.name = "a"},
                %c: tensor<3x2xf32> {phi.name = "c"}) -> tensor<3xf32> {
  %w = phi.add %a, %c : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  %y = phi.matvec %w, %x : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3xf32>
  return %y : tensor<3xf32>
}

// -----

// CHECK-LABEL: func @causal
// CHECK:         scf.for {{.*}} iter_args(%[[S:.*]] = %{{.*}}, %[[Z:.*]] = %{{.*}}) -> (tensor<2x3xf32>, tensor<2xf32>)
// CHECK:           scf.while
// CHECK:             linalg.contract {{.*}} -> tensor<2x2xf32>
// CHECK:             linalg.contract {{.*}} ins({{.*}} : tensor<2x2xf32>, tensor<2x3xf32>)
// CHECK:             linalg.contract {{.*}} -> tensor<4x2xf32>
// CHECK:             linalg.contract {{.*}} ins({{.*}} : tensor<4x2xf32>, tensor<4x3xf32>)
// CHECK:             scf.yield
// CHECK:           phi.store_rows
// CHECK-NOT:     phi.scan
func.func @causal(%q: tensor<2xf32> {phi.name = "Q", phi.side = "query"}, %k: tensor<2xf32> {phi.name = "K", phi.side = "key"},
                  %v: tensor<3xf32> {phi.name = "V", phi.side = "key"}) -> tensor<3xf32> {
  %o = phi.scan "causal"(%q, %k, %v) state [tensor<2x3xf32>, tensor<2xf32>] {normalize = "bare", threshold = 0.0 : f64}
      : (tensor<2xf32>, tensor<2xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %o : tensor<3xf32>
}

// -----

// Without `causal` all keys come first, in a loop of their own.
// CHECK-LABEL: func @both
// CHECK:         %[[STATE:.*]] = scf.for {{.*}} -> (tensor<2x3xf32>)
// CHECK:         scf.for
// CHECK-NOT:       iter_args
// CHECK:           linalg.contract {{.*}} ins(%{{.*}}, %[[STATE]] : tensor<4x2xf32>, tensor<2x3xf32>)
// CHECK:           phi.store_rows
func.func @both(%q: tensor<2xf32> {phi.name = "Q", phi.side = "query"}, %k: tensor<2xf32> {phi.name = "K", phi.side = "key"},
                %v: tensor<3xf32> {phi.name = "V", phi.side = "key"}) -> tensor<3xf32> {
  %o = phi.scan "both"(%q, %k, %v) state [tensor<2x3xf32>] {normalize = "none", threshold = 0.0 : f64}
      : (tensor<2xf32>, tensor<2xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %o : tensor<3xf32>
}
