// yaglom tune: looks for the fastest schedule of an attention, and keeps it in the cache folder.
// SPDX-License-Identifier: Apache-2.0
#include "yaglom/tune.h"
#include "tools/Json.h"
#include "tools/Options.h"
#include "tools/Provenance.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <unistd.h>

namespace yaglom::tools {
namespace {

struct TuneCommand : AttentionOptions {
  TuneOptions tuning;
  bool backward = false;
  bool residual = false;
  bool json = false;
};

/// Set by Ctrl-C.
std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler writes it");

/// Ctrl-C ends the tuning while this lives, and the process when it is pressed again.
class Interruptible {
public:
  Interruptible() {
    struct sigaction action{};
    action.sa_handler = [](int) { interrupted = true; };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(SIGINT, &action, &before);
  }
  ~Interruptible() { sigaction(SIGINT, &before, nullptr); }
  Interruptible(const Interruptible &) = delete;
  Interruptible &operator=(const Interruptible &) = delete;

private:
  struct sigaction before{};
};

const char *nameOf(Pass pass) {
  return pass == Pass::Forward ? "forward" : pass == Pass::Backward ? "backward" : "backward from residual";
}

std::string outcomeOf(const TuneCandidate &candidate) {
  if (candidate.outcome == TuneOutcome::Measured)
    return fmt::format("{:.3f} ms, {:.3f} of the compiler's own", candidate.medianMs, candidate.ratio);
  const char *const colon = candidate.message.empty() ? "" : ": ";
  return fmt::format("{}{}{}", toText(candidate.outcome), colon, candidate.message);
}

/// What happens meanwhile, on stderr: a bar on a terminal, a line for each candidate elsewhere.
class Progress {
public:
  explicit Progress(Pass pass) : pass(pass), isTerminal(isatty(STDERR_FILENO)) {}
  ~Progress() {
    if (isTerminal)
      fmt::print(stderr, "\r\033[K");
  }

  void show(const TuneProgress &now) const {
    if (!isTerminal && now.last)
      fmt::print(stderr, "{} {:6.1f} s  {}: {}\n", nameOf(pass), now.seconds, now.last->schedule.toText(),
                 outcomeOf(*now.last));
    if (!isTerminal)
      return;
    constexpr int kWidth = 30;
    const int filled = static_cast<int>(kWidth * std::clamp(now.seconds / now.budgetSeconds, 0.0, 1.0));
    fmt::print(stderr, "\r\033[K{} [{:=<{}}{: <{}}] {:.0f}/{:.0f} s  {} tried, fastest {:.3f}: {}", nameOf(pass), "",
               filled, "", kWidth - filled, now.seconds, now.budgetSeconds, now.done, now.fastestRatio,
               now.fastest->toText());
    std::fflush(stderr);
  }

private:
  const Pass pass;
  const bool isTerminal;
};

std::string toJson(const TuneCandidate &candidate) {
  return JsonObject()
      .add("schedule", candidate.schedule.toText())
      .add("outcome", toText(candidate.outcome))
      .add("message", candidate.message)
      .add("ms_median", candidate.medianMs)
      .add("spread_ms", candidate.spreadMs)
      .add("ratio", candidate.ratio)
      .add("ratio_spread", candidate.ratioSpread)
      .add("samples", candidate.samples)
      .addRaw("new", candidate.isNew ? "true" : "false")
      .text();
}

void printJson(const TuneCommand &command, Pass pass, const TuneReport &report) {
  std::string candidates;
  for (const TuneCandidate &candidate : report.candidates)
    candidates += (candidates.empty() ? "" : ", ") + toJson(candidate);
  fmt::print("{}\n", JsonObject()
                         .add("kind", "tune")
                         .add("attention", command.attention)
                         .add("pass", nameOf(pass))
                         .add("target", command.compile.target.name())
                         .add("dtype", toText(command.compile.dtype))
                         .add("batch", command.tuning.batch)
                         .add("heads", command.tuning.heads)
                         .add("length", command.tuning.length)
                         .add("machine", processorName())
                         .add("date", nowText())
                         .add("bucket", report.bucket)
                         .add("chosen", report.fastest().schedule.toText())
                         .add("ratio", report.fastest().ratio)
                         .add("default_ms", report.candidates.front().medianMs)
                         .add("tuned_ms", report.fastest().medianMs)
                         .addRaw("complete", report.complete ? "true" : "false")
                         .add("message", report.message)
                         .add("seconds", report.seconds)
                         .addRaw("candidates", "[" + candidates + "]")
                         .text());
}

void printText(const TuneCommand &command, Pass pass, const TuneReport &report) {
  const auto count = [&](auto predicate) {
    return std::count_if(report.candidates.begin(), report.candidates.end(), predicate);
  };
  const auto isReached = [](const TuneCandidate &c) { return c.outcome != TuneOutcome::NotReached; };
  fmt::print("{} {}, {}\n", command.attention, nameOf(pass), report.bucket);
  for (const TuneCandidate &candidate : report.candidates)
    if (isReached(candidate) && candidate.outcome != TuneOutcome::Measured)
      fmt::print("rejected   {}: {}\n", candidate.schedule.toText(), outcomeOf(candidate));
  fmt::print("own        {:.3f} ms (spread {:.3f})\n", report.candidates.front().medianMs,
             report.candidates.front().spreadMs);
  const TuneCandidate &fastest = report.fastest();
  if (report.chosen)
    fmt::print("tuned      {:.3f} ms (spread {:.3f}), {:.3f} +- {:.3f} of that: {}\n", fastest.medianMs,
               fastest.spreadMs, fastest.ratio, fastest.ratioSpread, fastest.schedule.toText());
  else
    fmt::print("tuned      nothing was faster beyond noise\n");
  fmt::print("tried      {} now, {} before, {} not reached, in {:.1f} s{}\n",
             count([&](const TuneCandidate &c) { return isReached(c) && c.isNew && !c.schedule.isDefault(); }),
             count([&](const TuneCandidate &c) { return isReached(c) && !c.isNew && !c.schedule.isDefault(); }),
             count([&](const TuneCandidate &c) { return !isReached(c); }), report.seconds,
             report.complete ? "; nothing is left to try" : "");
  if (!report.message.empty())
    fmt::print("note       {}\n", report.message);
}

/// Each pass gets what is left of the budget, in equal shares.
int tuneAll(const TuneCommand &command) {
  const Spec spec = loadSpec(command.file);
  std::vector<Pass> passes{Pass::Forward};
  if (command.backward)
    passes.push_back(Pass::Backward);
  if (command.residual)
    passes.push_back(Pass::BackwardFromResidual);
  const Interruptible interruptible;
  double left = command.tuning.budgetSeconds;
  for (std::size_t i = 0; i < passes.size() && !interrupted; ++i) {
    TuneOptions tuning = command.tuning;
    tuning.pass = passes[i];
    tuning.budgetSeconds = left / static_cast<double>(passes.size() - i);
    tuning.cancel = &interrupted;
    TuneReport report;
    {
      const Progress progress(passes[i]);
      tuning.progress = [&](const TuneProgress &now) { progress.show(now); };
      report = tune(spec, command.attention, command.compile, tuning).value();
    }
    left = std::max(left - report.seconds, 0.1);
    (command.json ? printJson : printText)(command, passes[i], report);
    std::fflush(stdout);
  }
  if (!interrupted)
    return kSuccess;
  fmt::print(stderr, "interrupted: what was measured is kept\n");
  return kInterrupted;
}

} // namespace

void addTune(CLI::App &app, Action &action) {
  CLI::App *command = app.add_subcommand("tune", "Looks for the fastest schedule of an attention, and keeps it");
  auto options = std::make_shared<TuneCommand>();
  addAttention(*command, *options);
  addWidths(*command, options->compile);
  addTarget(*command, options->compile, /*runs=*/true);
  addDType(*command, options->compile);
  TuneOptions &tuning = options->tuning;
  command->add_option("--batch", tuning.batch, "Batch (1)")->check(CLI::PositiveNumber)->type_name("B");
  command->add_option("--heads", tuning.heads, "Heads (8)")->check(CLI::PositiveNumber)->type_name("H");
  command->add_option("--length", tuning.length, "Tokens (4096)")->check(CLI::PositiveNumber)->type_name("N");
  command->add_option("--budget", tuning.budgetSeconds, "How long it may take, for all passes (30)")
      ->check(CLI::PositiveNumber)
      ->type_name("SECONDS");
  command->add_option("--threads", tuning.threads, "Threads of the launches (one a core)")
      ->check(CLI::NonNegativeNumber)
      ->type_name("T");
  CLI::Option *backward = addBackward(*command, options->backward, "Also the gradient");
  command->add_flag("--residual", options->residual, "Also the gradient from a residual")->needs(backward);
  command->add_flag("--again", tuning.again, "Forgets what was measured before");
  command->add_flag("--json", options->json, "One JSON object for each pass");
  command->callback([options, &action] { action = [options] { return tuneAll(*options); }; });
}

} // namespace yaglom::tools
