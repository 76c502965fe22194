// Math functions become arithmetic; the numeric tests say how exact it is.
// SPDX-License-Identifier: Apache-2.0
// RUN: yaglom-opt --phi-expand-math %s | FileCheck %s
// RUN: yaglom-opt --phi-expand-math %s | FileCheck %s --check-prefix=NONE
// NONE-NOT: math.{{sin|cos|sincos|tan|exp|exp2|expm1|log|log2|log1p|tanh|erf|powf|rsqrt}} {{.*}}f{{32|64}}

// A lone sine reduces by multiples of pi, and takes its sign from the lowest bit of the count.
// CHECK-LABEL: func @lone_sine
// CHECK-SAME:      (%[[X:.*]]: vector<16xf32>)
// CHECK-DAG:     %[[INV_PI:.*]] = arith.constant dense<0.318309873>
// CHECK-DAG:     %[[MINUS_PI:.*]] = arith.constant dense<-3.14159274>
// CHECK:         %[[SHIFTED:.*]] = math.fma %[[X]], %[[INV_PI]], %[[MAGIC:.*]] :
// CHECK:         %[[N:.*]] = arith.subf %[[SHIFTED]], %[[MAGIC]]
// CHECK:         math.fma %[[N]], %[[MINUS_PI]], %[[X]]
// CHECK:         %[[COUNT:.*]] = arith.bitcast %[[SHIFTED]] : vector<16xf32> to vector<16xi32>
// CHECK:         %[[SIGN:.*]] = arith.shli %[[COUNT]]
// CHECK:         arith.xori %{{.*}}, %[[SIGN]]
func.func @lone_sine(%x: vector<16xf32>) -> vector<16xf32> {
  %s = math.sin %x : vector<16xf32>
  return %s : vector<16xf32>
}

// Sine and cosine of one value share one reduction, by multiples of pi/2, and both polynomials.
// CHECK-LABEL: func @shared_reduction
// CHECK-DAG:     %[[TWO_BY_PI:.*]] = arith.constant dense<0.636619746>
// CHECK-COUNT-1: math.fma %{{.*}}, %[[TWO_BY_PI]]
// CHECK-COUNT-2: arith.xori
// CHECK-NOT:     arith.xori
// CHECK:         return
func.func @shared_reduction(%x: vector<4x16xf32>) -> vector<4x16xf32> {
  %s = math.sin %x : vector<4x16xf32>
  %y = arith.addf %s, %s : vector<4x16xf32>
  %c = math.cos %x : vector<4x16xf32>
  %r = arith.mulf %y, %c : vector<4x16xf32>
  return %r : vector<4x16xf32>
}

// Constants go once to the start of the function, also from within a loop.
// CHECK-LABEL: func @constants
// CHECK:         arith.constant dense<1.44269502>
// CHECK-NOT:     arith.constant dense<1.44269502>
// CHECK:         scf.for
// CHECK-NOT:     arith.constant
// CHECK:         return
func.func @constants(%n: index, %x: vector<16xf32>) -> vector<16xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%v = %x) -> vector<16xf32> {
    %e = math.exp %v : vector<16xf32>
    %f = math.exp %e : vector<16xf32>
    scf.yield %f : vector<16xf32>
  }
  return %r : vector<16xf32>
}

// A power of float32 is computed in float64.
// CHECK-LABEL: func @power
// CHECK:         arith.extf %{{.*}} : vector<8xf32> to vector<8xf64>
// CHECK:         arith.truncf %{{.*}} : vector<8xf64> to vector<8xf32>
func.func @power(%x: vector<8xf32>, %y: vector<8xf32>) -> vector<8xf32> {
  %r = math.powf %x, %y : vector<8xf32>
  return %r : vector<8xf32>
}

// All the others, on scalars and vectors of float64.
// CHECK-LABEL: func @others
func.func @others(%x: f64, %y: vector<2x8xf64>) -> (f64, vector<2x8xf64>) {
  %0 = math.exp2 %x : f64
  %1 = math.expm1 %0 : f64
  %2 = math.log %1 : f64
  %3 = math.log2 %2 : f64
  %4 = math.log1p %3 : f64
  %5 = math.rsqrt %4 : f64
  %6 = math.tan %5 : f64
  %7 = math.tanh %y : vector<2x8xf64>
  %8 = math.erf %7 : vector<2x8xf64>
  %9, %10 = math.sincos %8 : vector<2x8xf64>
  %11 = math.powf %9, %10 : vector<2x8xf64>
  return %6, %11 : f64, vector<2x8xf64>
}

// What one instruction does stays, and so do other types.
// CHECK-LABEL: func @untouched
// CHECK:         math.sqrt
// CHECK:         math.absf
// CHECK:         math.floor
// CHECK:         math.roundeven
// CHECK:         math.copysign
// CHECK:         math.fma
// CHECK:         math.exp %{{.*}} : f16
func.func @untouched(%x: vector<16xf32>, %h: f16) -> (vector<16xf32>, f16) {
  %0 = math.sqrt %x : vector<16xf32>
  %1 = math.absf %0 : vector<16xf32>
  %2 = math.floor %1 : vector<16xf32>
  %3 = math.roundeven %2 : vector<16xf32>
  %4 = math.copysign %3, %x : vector<16xf32>
  %5 = math.fma %4, %x, %x : vector<16xf32>
  %6 = math.exp %h : f16
  return %5, %6 : vector<16xf32>, f16
}
