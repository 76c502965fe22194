// A block of threads for an item: rows arrive by cp.async, products run on tensor cores, sums along lanes.
// SPDX-License-Identifier: Apache-2.0
// RUN: yaglom-opt "--phi-scan-to-tiles" "--phi-tiles-to-gpu=products=bf16" %s | FileCheck %s --check-prefixes=CHECK,HALF
// RUN: yaglom-opt "--phi-scan-to-tiles" "--phi-tiles-to-gpu=architecture=sm_90" %s | FileCheck %s --check-prefixes=CHECK,FLOAT
// RUN: not yaglom-opt "--phi-scan-to-tiles" "--phi-tiles-to-gpu=architecture=sm_70" %s 2>&1 | FileCheck %s --check-prefix=OLD
// RUN: not yaglom-opt "--phi-scan-to-tiles" "--phi-tiles-to-gpu=products=f8" %s 2>&1 | FileCheck %s --check-prefix=KIND

// OLD: unknown GPU architecture 'sm_70'; expected one of sm_80, sm_86
// KIND: unknown products 'f8'; expected f32, f16 or bf16

// Eighteen words of sizes, then five for each operand.
// CHECK-LABEL: func @features(%arg0: i64,
// CHECK-SAME:    attributes {phi.scratch_bytes = 0 : i64, phi.shared_bytes = {{[0-9]+}} : i64}
// The first rows are on their way before the loop, the next ones before this turn's are used.
// CHECK:         llvm.nvvm.cp.async.cg.shared.global.16.s
// CHECK:         llvm.nvvm.cp.async.commit.group
// CHECK:         scf.for
// CHECK:           llvm.nvvm.cp.async.wait.all
// CHECK:           llvm.nvvm.barrier.cta.sync.aligned.all
// CHECK:           llvm.nvvm.cp.async.cg.shared.global.16.s
// HALF:            llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16
// HALF:            llvm.nvvm.mma.m16n8k16.row.col.bf16
// FLOAT-COUNT-3:   llvm.nvvm.mma.m16n8k8.row.col.tf32
// CHECK:           llvm.nvvm.shfl.sync.bfly.i32
// CHECK-NOT:     linalg
// CHECK-NOT:     tensor<
func.func @features(%x: tensor<64xf32> {phi.name = "Q", phi.side = "query"},
                    %a: tensor<64x64xf32> {phi.name = "a"}) -> tensor<64xf32> {
  %u = phi.matvec %a, %x : (tensor<64x64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %s = phi.sum %u : (tensor<64xf32>) -> tensor<f32>
  %y = phi.mul %u, %s : (tensor<64xf32>, tensor<f32>) -> tensor<64xf32>
  return %y : tensor<64xf32>
}
