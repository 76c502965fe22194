// The table of contents of the compiler.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Pipeline.h"

#include "compiler/Passes.h"
#include "compiler/lower/ExpandMath.h"
#include "mlir/Transforms/Passes.h"

namespace yaglom::compiler {

void buildSimplify(mlir::OpPassManager &passes) {
  mlir::OpPassManager &function = passes.nest<mlir::func::FuncOp>();
  function.addPass(createSimplify());
  function.addPass(mlir::createCSEPass());
}

void buildScan(mlir::OpPassManager &passes) {
  mlir::OpPassManager &function = passes.nest<mlir::func::FuncOp>();
  function.addPass(createLinearToScan());
  function.addPass(createSimplify());
  function.addPass(mlir::createCSEPass());
}

void buildDifferentiate(mlir::OpPassManager &passes) {
  passes.addPass(createDifferentiate());
  mlir::OpPassManager &function = passes.nest<mlir::func::FuncOp>();
  function.addPass(createSimplify());
  function.addPass(mlir::createCSEPass());
}

void buildTile(mlir::OpPassManager &passes, const Schedule &schedule) {
  passes.addPass(createScanToTiles({schedule.chunk, schedule.granule}));
}

void buildCpu(mlir::OpPassManager &passes, const std::string &target, const yaglom::Schedule &schedule) {
  passes.addPass(createTilesToCpu({target, schedule.toText()}));
  passes.addPass(createExpandMathPass());
}

void buildGpu(mlir::OpPassManager &passes, const std::string &architecture, const std::string &products,
              const yaglom::Schedule &schedule) {
  passes.addPass(createTilesToGpu({architecture, products, schedule.toText()}));
  passes.addPass(createExpandMathPass());
  passes.addPass(mlir::createCSEPass());
}

} // namespace yaglom::compiler
