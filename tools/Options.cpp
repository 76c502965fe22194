// Options that several commands have.
// SPDX-License-Identifier: Apache-2.0
#include "tools/Options.h"

#include <map>

namespace yaglom::tools {
namespace {

/// `n=64`; anything else is a mistake of usage.
void addSet(const std::vector<std::string> &pairs, CompileOptions &options) {
  for (const std::string &pair : pairs) {
    const std::size_t equals = pair.find('=');
    int64_t value = 0;
    if (equals == 0 || equals == std::string::npos || !CLI::detail::lexical_cast(pair.substr(equals + 1), value))
      throw CLI::ValidationError("--set", "expected NAME=NUMBER, found '" + pair + "'");
    options.dims[pair.substr(0, equals)] = value;
  }
}

} // namespace

void addTarget(CLI::App &command, CompileOptions &options, bool runs) {
  command
      .add_option_function<std::string>(
          "--target",
          [&options, runs](const std::string &name) {
            Result<Target> target = Target::parse(name);
            if (!target)
              throw CLI::ValidationError("--target", target.error().what());
            if (runs && !target->isRunnable())
              throw CLI::ValidationError("--target", "a kernel for '" + name + "' can be emitted but not run");
            options.target = *target;
          },
          "What the kernel runs on: host, cuda, cuda:1, reference, emulated, ...")
      ->type_name("NAME");
}

void addAttention(CLI::App &command, AttentionOptions &options) {
  command.add_option("FILE", options.file, "The spec")->required()->type_name("");
  command.add_option("--attention", options.attention, "Which attention of the spec")->required()->type_name("NAME");
  command
      .add_option_function<std::vector<std::string>>(
          "--set", [&options](const std::vector<std::string> &pairs) { addSet(pairs, options.compile); },
          "Binds a dim of the spec to another value")
      ->type_name("NAME=NUMBER");
}

void addWidths(CLI::App &command, CompileOptions &options) {
  command.add_option("--head-dim", options.headDim, "d, the width of Q and K (64)")
      ->check(CLI::PositiveNumber)
      ->type_name("D");
  command.add_option("--value-dim", options.valueDim, "e, the width of V (as --head-dim)")
      ->check(CLI::PositiveNumber)
      ->type_name("E");
}

void addDType(CLI::App &command, CompileOptions &options) {
  static const std::map<std::string, DType> kTypes = {
      {"f32", DType::f32}, {"f64", DType::f64}, {"f16", DType::f16}, {"bf16", DType::bf16}};
  command
      .add_option_function<std::string>(
          "--dtype", [&options](const std::string &name) { options.dtype = kTypes.at(name); }, "Element type (f32)")
      ->check(CLI::IsMember(kTypes))
      ->type_name("f32|f64|f16|bf16");
}

void addSchedule(CLI::App &command, CompileOptions &options) {
  command
      .add_option_function<std::string>(
          "--schedule",
          [&options](const std::string &text) {
            Result<Schedule> schedule = Schedule::parse(text);
            if (!schedule)
              throw CLI::ValidationError("--schedule", schedule.error().what());
            options.schedule = *schedule;
          },
          "How the kernel is cut: chunk=64,tile=6x2,... (a tuned schedule, or the compiler chooses)")
      ->type_name("NAME=VALUE,...");
  command
      .add_option_function<int64_t>(
          "--chunk", [&options](int64_t chunk) { options.schedule.chunk = chunk; },
          "Tokens a chunk: as --schedule chunk=C")
      ->check(CLI::NonNegativeNumber)
      ->excludes("--schedule")
      ->type_name("C");
}

void addExecution(CLI::App &command, CompileOptions &options, int &threads) {
  addTarget(command, options, /*runs=*/true);
  addDType(command, options);
  addSchedule(command, options);
  command.add_option("--threads", threads, "Threads (one a core)")->check(CLI::NonNegativeNumber)->type_name("T");
}

CLI::Option *addBackward(CLI::App &command, bool &backward, const std::string &description) {
  return command.add_flag_function(
      "--backward",
      [&backward](int64_t times) {
        if (times > 1)
          throw CLI::ValidationError("--backward", "second derivatives are not supported: give it once");
        backward = true;
      },
      description);
}

void addResidual(CLI::App &command, int64_t &interval) {
  command.add_option("--residual", interval, "Keep the state before every K-th chunk for the gradient (none)")
      ->check(CLI::PositiveNumber)
      ->needs("--backward")
      ->type_name("K");
}

} // namespace yaglom::tools
