// The stages of the compiler, in order: READ THIS FIRST.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/targets/cpu/Machine.h"
#include "compiler/tile/Schedule.h"
#include "yaglom/schedule.h"

#include "mlir/Pass/PassManager.h"

namespace yaglom::compiler {

/// Formula level in, formula level out. Afterwards constants are folded, `elu(x) + 1` is exp(x) below 0, and what several
/// applications of a map compute alike is computed once.
void buildSimplify(mlir::OpPassManager &passes);

/// Afterwards no phi.linear is left: state, direction, exponents and decay are explicit in phi.scan.
void buildScan(mlir::OpPassManager &passes);

/// Afterwards the module also holds @backward.
void buildDifferentiate(mlir::OpPassManager &passes);

/// Afterwards no row-level op is left: loops over chunks of tiles with static shapes, the same for every target.
void buildTile(mlir::OpPassManager &passes, const Schedule &schedule);

/// Afterwards only arith, math, vector, scf, func and llvm are left: loops over register tiles.
void buildCpu(mlir::OpPassManager &passes, const std::string &target, const yaglom::Schedule &schedule);

/// Afterwards only arith, math, scf, func and llvm are left: what one thread of a block does.
/// Contractions multiply `products`: "f32", "f16" or "bf16"; float64 programs ignore it.
void buildGpu(mlir::OpPassManager &passes, const std::string &architecture, const std::string &products,
              const yaglom::Schedule &schedule);

} // namespace yaglom::compiler
