// The command line of yaglom. The commands themselves are in a file each; newer ones bring their options along.
// SPDX-License-Identifier: Apache-2.0
#include "tools/Options.h"

#include <unistd.h>

#include <map>
#include <memory>

namespace {

using namespace yaglom;
using namespace yaglom::tools;

constexpr const char *kVersion = "yaglom " YAGLOM_VERSION;

void addCheck(CLI::App &app, Action &action) {
  CLI::App *command = app.add_subcommand("check", "Parses and checks specs, and prints what is wrong");
  auto options = std::make_shared<CheckOptions>();
  command->add_option("FILE", options->files, "Specs")->required()->type_name("");
  command->callback([options, &action] { action = [options] { return check(*options); }; });
}

void addDescribe(CLI::App &app, Action &action) {
  CLI::App *command =
      app.add_subcommand("describe", "Lists the tensors of an attention, their shapes and initial values");
  auto options = std::make_shared<DescribeOptions>();
  addAttention(*command, *options);
  addWidths(*command, options->compile);
  command->add_flag("--json", options->json, "As one JSON object");
  command->callback([options, &action] { action = [options] { return describe(*options); }; });
}

void addEmit(CLI::App &app, Action &action) {
  static constexpr const char *kSassInfo = "sass-info";
  static const std::map<std::string, Stage> kStages = {
      {"ast", Stage::Ast},   {"formula", Stage::Formula}, {"scan", Stage::Scan}, {"tile", Stage::Tile},
      {"llvm", Stage::Llvm}, {"asm", Stage::Asm},         {"ptx", Stage::Ptx},   {kSassInfo, Stage::Ptx}};
  CLI::App *command = app.add_subcommand("emit", "Prints the program after a stage of the compiler");
  auto options = std::make_shared<EmitOptions>();
  options->locations = isatty(STDOUT_FILENO) != 0;
  addAttention(*command, *options);
  addWidths(*command, options->compile);
  addTarget(*command, options->compile, /*runs=*/false);
  addDType(*command, options->compile);
  addSchedule(*command, options->compile);
  command
      ->add_option_function<std::string>(
          "--stage",
          [options](const std::string &name) {
            options->sassInfo = name == kSassInfo;
            options->stage = kStages.at(name);
          },
          "After which stage: ast, formula, scan, tile, llvm, asm or ptx; sass-info: registers and memory, by ptxas")
      ->required()
      ->check(CLI::IsMember(kStages))
      ->type_name("STAGE");
  command->add_flag("--locations,!--no-locations", options->locations,
                    "Comments that say where in the spec each operation comes from (only on a terminal)");
  command->add_flag("--json", options->json, "sass-info as one JSON object");
  CLI::Option *backward = addBackward(*command, options->backward, "The gradient's program");
  command->add_flag("--residual", options->residual, "The gradient's program that takes a residual")->needs(backward);
  command->callback([options, &action] { action = [options] { return emit(*options); }; });
}

void addRun(CLI::App &app, Action &action) {
  CLI::App *command = app.add_subcommand("run", "Computes an attention over the tensors of a file");
  auto options = std::make_shared<RunOptions>();
  addAttention(*command, *options);
  command->add_option("--input", options->input, "Inputs, parameters, draws and noise by name (safetensors)")
      ->required()
      ->type_name("FILE");
  command->add_option("--output", options->output, "Where O goes (safetensors)")->required()->type_name("FILE");
  addExecution(*command, options->compile, options->threads);
  command->add_option("--seed", options->seed, "Of parameters and draws that the input file lacks (0)")->type_name("S");
  addBackward(*command, options->backward, "Also reads grad.O and writes grad.NAME for every tensor");
  addResidual(*command, options->residual);
  command->add_flag("--draws", options->writeDraws, "Also writes draw.NAME for every draw");
  command->add_option("--loss", options->losses, "Also writes loss.NAME")->type_name("NAME");
  CLI::Option *counters = command->add_flag("--counters", options->counters,
                                            "Prints what the emulator counted, by kernel (--target emulated)");
  command->add_flag("--json", options->json, "Counters as JSON objects")->needs(counters);
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

void addBench(CLI::App &app, Action &action) {
  CLI::App *command = app.add_subcommand("bench", "Measures the speed of an attention");
  auto options = std::make_shared<BenchOptions>();
  addAttention(*command, *options);
  addWidths(*command, options->compile);
  addExecution(*command, options->compile, options->threads);
  command->add_option("--batch", options->batch, "Batch (1)")->check(CLI::PositiveNumber)->type_name("B");
  command->add_option("--heads", options->heads, "Heads (8)")->check(CLI::PositiveNumber)->type_name("H");
  CLI::Option *length =
      command->add_option("--length", options->length, "Tokens (4096)")->check(CLI::PositiveNumber)->type_name("N");
  command->add_option("--lengths", options->lengths, "Several lengths, one after the other: 512,1024,2048")
      ->check(CLI::PositiveNumber)
      ->delimiter(',')
      ->excludes(length)
      ->type_name("N,...");
  addBackward(*command, options->backward, "Also measures the gradient, in turns with the forward pass");
  addResidual(*command, options->residual);
  command->add_option("--seconds", options->seconds, "How long to measure each length (2)")
      ->check(CLI::PositiveNumber)
      ->type_name("SECONDS");
  command->add_flag("--json", options->json, "As one flat JSON object a line, for yaglom report");
  command->callback([options, &action] { action = [options] { return bench(*options); }; });
}

void addGradcheck(CLI::App &app, Action &action) {
  CLI::App *command = app.add_subcommand(
      "gradcheck", "Compares compiled gradients with the reference's: random directions, small ones entry by entry");
  auto options = std::make_shared<GradcheckOptions>();
  options->compile.headDim = 7;
  options->compile.valueDim = 5;
  options->compile.dtype = DType::f64;
  addAttention(*command, *options);
  addTarget(*command, options->compile, /*runs=*/true);
  static const std::map<std::string, DType> kTypes = {{"f32", DType::f32}, {"f64", DType::f64}};
  command
      ->add_option_function<std::string>(
          "--dtype", [options](const std::string &name) { options->compile.dtype = kTypes.at(name); },
          "Element type (f64)")
      ->check(CLI::IsMember(kTypes))
      ->type_name("f32|f64");
  command->add_option("--head-dim", options->compile.headDim, "d, the width of Q and K (7)")
      ->check(CLI::PositiveNumber)
      ->type_name("D");
  command->add_option("--value-dim", options->compile.valueDim, "e, the width of V (5)")
      ->check(CLI::PositiveNumber)
      ->type_name("E");
  command->add_option("--batch", options->batch, "Batch (1)")->check(CLI::PositiveNumber)->type_name("B");
  command->add_option("--heads", options->heads, "Heads (2)")->check(CLI::PositiveNumber)->type_name("H");
  command->add_option("--length", options->length, "Tokens (33); the reference takes time by their square")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  command->add_option("--seed", options->seed, "Of all tensors (0)")->type_name("S");
  command->add_flag("--json", options->json, "As one JSON object");
  command->callback([options, &action] { action = [options] { return gradcheck(*options); }; });
}

void addEmulate(CLI::App &app, Action &action) {
  CLI::App *command = app.add_subcommand("emulate", "Runs a kernel of a PTX text on the CPU: findings and counters");
  auto options = std::make_shared<EmulateOptions>();
  command->add_option("FILE", options->file, "The PTX text")->required()->type_name("");
  command->add_option("--kernel", options->kernel, "Which kernel, when there are several")->type_name("NAME");
  command->add_option("--grid", options->grid, "Blocks")
      ->required()
      ->delimiter(',')
      ->expected(1, 3)
      ->type_name("X,Y,Z");
  command->add_option("--block", options->block, "Threads of a block")
      ->required()
      ->delimiter(',')
      ->expected(1, 3)
      ->type_name("X,Y,Z");
  command->add_option("--shared", options->sharedBytes, "Dynamic shared memory (0)")->type_name("BYTES");
  command->add_option("--inputs", options->input, "Tensors by name (safetensors)")->type_name("FILE");
  command
      ->add_option("--args", options->arguments,
                   "By position: NAME, NAME:inout, NAME:out, NAME:out:BYTES, NAME:out:TYPE:SHAPE or a number")
      ->type_name("A,B,...");
  command->add_option("--arg", options->named, "By the parameter's name")->type_name("NAME=VALUE");
  command->add_option("-o,--output", options->output, "Where written tensors go (safetensors)")->type_name("FILE");
  command->add_option("--seed", options->seed, "Of the order of warps between barriers (0: by number)")->type_name("S");
  command->add_option("--threads", options->threads, "Blocks at a time (one a core)")
      ->check(CLI::NonNegativeNumber)
      ->type_name("T");
  command->add_option("--budget", options->budget, "Warp instructions before a block is stopped")->type_name("N");
  command->add_flag("--json", options->json, "As one JSON object");
  command->callback([options, &action] { action = [options] { return emulate(*options); }; });
}

/// Reads the command line. Returns an exit code when there is nothing to do.
int parse(CLI::App &app, int argc, char **argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? kSuccess : kUsage; // help and version arrive here too
  }
  return kSuccess;
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app("Compiles formulas of attention kernels to fused machine code", "yaglom");
  app.set_version_flag("--version", kVersion);
  app.require_subcommand(1);
  Action action;
  addCheck(app, action);
  addDescribe(app, action);
  addEmit(app, action);
  addRun(app, action);
  addBench(app, action);
  addGradcheck(app, action);
  addEmulate(app, action);
  addCache(app, action);
  addTune(app, action);
  addExport(app, action);
  addReport(app, action);
  if (const int code = parse(app, argc, argv); code != kSuccess || !action)
    return code;
  onWarning([](const std::string &text) { printError("warning: " + text); });
  try {
    return action();
  } catch (const std::exception &error) {
    printError(error.what());
    return kFailure;
  }
}
