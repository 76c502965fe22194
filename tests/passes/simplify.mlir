// Cheaper or safer formulas with the same meaning.
// SPDX-License-Identifier: Apache-2.0
// RUN: yaglom-opt --phi-simplify --split-input-file %s | FileCheck %s

// CHECK-LABEL: func @square_of_norm
// CHECK:         %[[SQUARES:.*]] = phi.mul %arg0, %arg0
// CHECK:         phi.sum %[[SQUARES]]
// CHECK-NOT:     phi.norm
func.func @square_of_norm(%x: tensor<64xf32>) -> tensor<f32> {
  %two = arith.constant dense<2.0> : tensor<f32>
  %n = phi.norm %x : (tensor<64xf32>) -> tensor<f32>
  %s = phi.pow %n, %two : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %s : tensor<f32>
}

// -----

// Underflow: as written, elu(-20) + 1 is 0 in float32.
// CHECK-LABEL: func @elu_plus_one
// CHECK:         phi.elu_plus_one %arg0
// CHECK-NOT:     phi.add
func.func @elu_plus_one(%x: tensor<8xf32>) -> tensor<8xf32> {
  %one = arith.constant dense<1.0> : tensor<f32>
  %e = phi.elu %x : (tensor<8xf32>) -> tensor<8xf32>
  %y = phi.add %one, %e : (tensor<f32>, tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

// CHECK-LABEL: func @elu_plus_two_stays
// CHECK:         phi.elu %arg0
// CHECK:         phi.add
func.func @elu_plus_two_stays(%x: tensor<8xf32>) -> tensor<8xf32> {
  %two = arith.constant dense<2.0> : tensor<f32>
  %e = phi.elu %x : (tensor<8xf32>) -> tensor<8xf32>
  %y = phi.add %e, %two : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

// What no token changes is inverted once; a division by a token's own value stays.
// CHECK-LABEL: func @divide_once
// CHECK:         %[[INVERSE:.*]] = phi.div %{{.*}}, %arg1
// CHECK:         phi.mul %arg0, %[[INVERSE]]
// CHECK:         phi.div %arg0, %arg2
func.func @divide_once(%x: tensor<8xf32> {phi.side = "query"}, %p: tensor<8xf32> {phi.side = "none"},
                       %y: tensor<8xf32> {phi.side = "query"}) -> (tensor<8xf32>, tensor<8xf32>) {
  %a = phi.div %x, %p : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %b = phi.div %x, %y : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %a, %b : tensor<8xf32>, tensor<8xf32>
}

// -----

// CHECK-LABEL: func @constants_fold
// CHECK:         arith.constant dense<2.82842708>
// CHECK-NOT:     phi.
func.func @constants_fold() -> tensor<f32> {
  %d = arith.constant dense<64.0> : tensor<f32>
  %quarter = arith.constant dense<0.25> : tensor<f32>
  %r = phi.pow %d, %quarter : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %r : tensor<f32>
}

// -----

// CHECK-LABEL: func @powers
// CHECK:         %[[SQUARE:.*]] = phi.mul %arg0, %arg0
// CHECK:         phi.mul %[[SQUARE]], %arg0
// CHECK:         phi.sqrt %arg0
// CHECK:         phi.pow %arg0
func.func @powers(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %three = arith.constant dense<3.0> : tensor<f32>
  %half = arith.constant dense<0.5> : tensor<f32>
  %other = arith.constant dense<2.5> : tensor<f32>
  %a = phi.pow %x, %three : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %b = phi.pow %x, %half : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %c = phi.pow %x, %other : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %a, %b, %c : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}
