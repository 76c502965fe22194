// Options that several commands have, and the commands that add themselves to the command line.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/Commands.h"

#include <CLI/CLI.hpp>

#include <functional>
#include <string>

namespace yaglom::tools {

/// What the chosen command does, once all options are read.
using Action = std::function<int()>;

/// --target; `runs`: what can only be emitted is refused.
void addTarget(CLI::App &command, CompileOptions &options, bool runs);
/// FILE, --attention and --set.
void addAttention(CLI::App &command, AttentionOptions &options);
/// --head-dim and --value-dim.
void addWidths(CLI::App &command, CompileOptions &options);
void addDType(CLI::App &command, CompileOptions &options);
/// --chunk and --schedule.
void addSchedule(CLI::App &command, CompileOptions &options);
/// --target, --dtype, --chunk, --schedule and --threads.
void addExecution(CLI::App &command, CompileOptions &options, int &threads);
/// --backward. Given twice, it would ask for what there is not.
CLI::Option *addBackward(CLI::App &command, bool &backward, const std::string &description);
/// --residual; needs --backward.
void addResidual(CLI::App &command, int64_t &interval);

// A command in a file of its own: its options, and what it does.
void addCache(CLI::App &app, Action &action);
void addTune(CLI::App &app, Action &action);
void addExport(CLI::App &app, Action &action);
void addReport(CLI::App &app, Action &action);

} // namespace yaglom::tools
