// Clusters become loop nests over register tiles: accumulators in the loop's arguments, epilogues on the same vectors.
// SPDX-License-Identifier: Apache-2.0
// RUN: yaglom-opt "--phi-scan-to-tiles" "--phi-tiles-to-cpu=cpu=x86-64-v4" %s | FileCheck %s --check-prefixes=CHECK,WIDE
// RUN: yaglom-opt "--phi-scan-to-tiles" "--phi-tiles-to-cpu=cpu=x86-64-v3" %s | FileCheck %s --check-prefixes=CHECK,NARROW
// RUN: yaglom-opt "--phi-scan-to-tiles" "--phi-tiles-to-cpu=cpu=x86-64-v3 schedule=tile=12x1,unroll=2" %s | FileCheck %s --check-prefixes=TILED
// RUN: not yaglom-opt "--phi-scan-to-tiles" "--phi-tiles-to-cpu=schedule=tile=12" %s 2>&1 | FileCheck %s --check-prefixes=REFUSED
// REFUSED: schedule: expected ROWSxVECTORS, like 6x2 for 'tile', found '12'

// Both products share the k loop and its loads; sine and cosine never see memory in between.
// CHECK-LABEL: func @features(%arg0: !llvm.ptr
// WIDE:          scf.for {{.*}} iter_args({{.*}}) -> (vector<4x32xf32>, vector<4x32xf32>)
// NARROW:        scf.for {{.*}} iter_args({{.*}}) -> (vector<2x16xf32>, vector<2x16xf32>)
// TILED:         scf.for {{.*}} iter_args({{.*}}) -> (vector<4x8xf32>, vector<4x8xf32>)
// CHECK-COUNT-1:   llvm.load {{.*}} -> vector<{{32|16}}xf32>
// CHECK:           vector.outerproduct
// CHECK:           vector.outerproduct
// CHECK:           scf.yield
// CHECK:         math.cos
// CHECK:         math.sin
// CHECK:         arith.mulf
// CHECK:         llvm.store
// CHECK-NOT:     linalg
// CHECK-NOT:     tensor<
func.func @features(%x: tensor<64xf32> {phi.name = "Q", phi.side = "query"}, %a: tensor<64x64xf32> {phi.name = "a"},
                    %c: tensor<64x64xf32> {phi.name = "c"}) -> tensor<64xf32> {
  %u = phi.matvec %a, %x : (tensor<64x64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %w = phi.matvec %c, %x : (tensor<64x64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %s = phi.cos %u : (tensor<64xf32>) -> tensor<64xf32>
  %t = phi.sin %w : (tensor<64xf32>) -> tensor<64xf32>
  %y = phi.mul %s, %t : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %y : tensor<64xf32>
}
