// Arithmetic, math, branches and functions in one conversion; an index is as wide as the target asks for.
// SPDX-License-Identifier: Apache-2.0
// RUN: yaglom-opt %s --phi-to-llvm-dialect | FileCheck %s
// RUN: yaglom-opt %s --phi-to-llvm-dialect=index-bits=32 | FileCheck %s --check-prefix=NARROW

// CHECK-LABEL: llvm.func @forward(%arg0: i64, %arg1: f32) -> f32
// NARROW-LABEL: llvm.func @forward(%arg0: i32, %arg1: f32) -> f32
func.func @forward(%rows: index, %x: f32) -> f32 {
  %one = arith.constant 1 : index
  // CHECK: llvm.add %arg0, %{{.*}} : i64
  // NARROW: llvm.add %arg0, %{{.*}} : i32
  %more = arith.addi %rows, %one : index
  // CHECK: llvm.icmp "slt"
  %less = arith.cmpi slt, %more, %rows : index
  // CHECK: llvm.cond_br
  cf.cond_br %less, ^end(%x : f32), ^more
^more:
  // CHECK: llvm.intr.sqrt
  %root = math.sqrt %x : f32
  // CHECK: llvm.br
  cf.br ^end(%root : f32)
^end(%result: f32):
  // CHECK: llvm.return
  return %result : f32
}
