// Every pass of ours. A pass, its flag, its file and its test share one name.
// SPDX-License-Identifier: Apache-2.0
#ifndef YAGLOM_PASSES_TD
#define YAGLOM_PASSES_TD

include "mlir/Pass/PassBase.td"

def Simplify : Pass<"phi-simplify", "::mlir::func::FuncOp"> {
  let summary = "Rewrites formulas into cheaper or safer equal ones";
  let description = [{
    Constants fold; |x|^2 is the sum of squares; small whole powers are products; a division by what no token changes is
    a product with its reciprocal; elu(x) + 1 is exp(x) below 0.

    ```mlir
    %n = phi.norm %x : (tensor<64xf32>) -> tensor<f32>
    %s = phi.pow %n, %two : (tensor<f32>, tensor<f32>) -> tensor<f32>
    // becomes
    %q = phi.mul %x, %x : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %s = phi.sum %q : (tensor<64xf32>) -> tensor<f32>
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::yaglom::phi::PhiDialect"];
}

def LinearToScan : Pass<"phi-linear-to-scan", "::mlir::func::FuncOp"> {
  let summary = "Makes the state of linear attention explicit and takes exponentials out of its features";
  let description = [{
    A feature exp(f) g becomes mantissa g and exponent f log2(e). What the query row alone multiplies moves behind the
    sum, or goes under a bare `normalize`. Decay becomes its base-2 logarithm. After this pass no phi.linear is left.

    ```mlir
    %o = phi.linear(%q, %k, %v) {causal, normalize = "bare"} : ...
    // becomes
    %o = phi.scan "causal"(%gq, %gk, %v) q_exponent %fq k_exponent %fk state [...] {normalize = "bare", ...} : ...
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::yaglom::phi::PhiDialect"];
}

def Differentiate : Pass<"phi-differentiate", "::mlir::ModuleOp"> {
  let summary = "Adds the gradient of every function, by reverse mode: @backward of @forward";
  let description = [{
    Works on the scan level, where exponents and what a bare `normalize` drops are explicit already: their gradients are
    what is left, and exact zeros elsewhere. A sum over tokens (phi.token_sum) is made where a value without a side served
    all of them. phi.scan becomes phi.scan_grad_query and phi.scan_grad_key.

    ```mlir
    func @forward(%q: tensor<64xf32> {phi.side = "query"}, %w: tensor<64x64xf32>, ...) -> tensor<64xf32>
    // adds
    func @backward(%q, %w, ..., %do: tensor<64xf32>) -> (tensor<64xf32>, tensor<64x64xf32>, ...)
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::yaglom::phi::PhiDialect"];
}

def ScanToTiles : Pass<"phi-scan-to-tiles", "::mlir::ModuleOp"> {
  let summary = "Turns each one-row function into a loop over chunks of rows";
  let description = [{
    A row [d] becomes a tile [chunk, d]: contractions are linalg.contract, pointwise functions linalg.generic, row
    reductions linalg.reduce, stacks and splits slices. A phi.scan becomes a loop with its state carried, and row blocks
    that skip the keys above the diagonal. After this pass no row-level op is left and every shape is static.
  }];
  let options = [
    Option<"chunk", "chunk", "int64_t", "32", "tokens handled together">,
    Option<"granule", "granule", "int64_t", "16", "rows that skip the same keys above the diagonal">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect", "::yaglom::phi::PhiDialect"];
}

def TilesToCpu : Pass<"phi-tiles-to-cpu", "::mlir::ModuleOp"> {
  let summary = "Lowers tile programs to loops over vectors";
  let description = [{
    Groups ops that share an iteration space into loop nests over register tiles, chooses for every value a place and the
    axis along the lanes, and reads operands by address (compiler/Program.h).
  }];
  let options = [
    Option<"cpu", "cpu", "std::string", "\"x86-64-v3\"", "host, x86-64-v3 or x86-64-v4">,
    Option<"schedule", "schedule", "std::string", "\"default\"", "tile, pointwise, unroll, prefetch (yaglom/schedule.h)">,
  ];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
}

def TilesToGpu : Pass<"phi-tiles-to-gpu", "::mlir::ModuleOp"> {
  let summary = "Lowers tile programs to what each thread of a block does";
  let description = [{
    One block of threads works on one item. Every step of the program begins at a barrier; contractions run on tensor cores,
    entries of everything else are dealt to threads, sums run along warps. Values live in shared memory, or in the block's
    scratch memory when shared memory is full. Parameters are those of compiler/targets/nvgpu/KernelAbi.h.
  }];
  let options = [
    Option<"architecture", "architecture", "std::string", "\"sm_80\"", "sm_80, sm_86, sm_89, sm_90, sm_100 or sm_120">,
    Option<"products", "products", "std::string", "\"f32\"", "what contractions multiply: f32, f16 or bf16">,
    Option<"schedule", "schedule", "std::string", "\"default\"", "warps, stages (yaglom/schedule.h)">,
  ];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
}

def ToLlvmDialect : Pass<"phi-to-llvm-dialect", "::mlir::ModuleOp"> {
  let summary = "Converts arithmetic, math, branches and functions to the LLVM dialect";
  let description = [{
    One conversion for all dialects that lowered programs consist of: each walks the module, keeps books for a rollback and
    casts what it meets. Control flow must be branches already, and vectors need no more than arithmetic.
  }];
  let options = [
    Option<"indexBits", "index-bits", "unsigned", "64", "of the integer that an index becomes">,
  ];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

#endif
