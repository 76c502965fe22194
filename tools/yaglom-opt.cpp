// mlir-opt with the phi dialect and our passes: what the tests of single passes run.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Passes.h"
#include "compiler/Pipeline.h"
#include "compiler/lower/ExpandMath.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::registerAllPasses();
  yaglom::compiler::registerYaglomPasses();
  mlir::registerPass([] { return yaglom::compiler::createExpandMathPass(); });
  mlir::PassPipelineRegistration<>("phi-pipeline", "every stage from formulas to loops over vectors",
                                   [](mlir::OpPassManager &passes) {
                                     yaglom::compiler::buildSimplify(passes);
                                     yaglom::compiler::buildScan(passes);
                                     yaglom::compiler::buildTile(passes, {});
                                     yaglom::compiler::buildCpu(passes, "x86-64-v3", {});
                                   });
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  registry.insert<yaglom::phi::PhiDialect>();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "yaglom optimizer driver\n", registry));
}
