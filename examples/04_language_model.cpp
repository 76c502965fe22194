// A language model of characters whose attention is any spec by name: trains several attentions in turn on a text, and
// compares them with each other and with a bigram model. What learning takes stands in Training::step().
// SPDX-License-Identifier: Apache-2.0
#include "learning/Adam.h"
#include "learning/Checkpoint.h"
#include "learning/LanguageModel.h"
#include "learning/Progress.h"
#include "learning/Text.h"

#include <yaglom/yaglom.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <numbers>
#include <numeric>
#include <optional>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

using namespace learning;
using yaglom::Error, yaglom::Kernel, yaglom::Spec;

namespace {

struct Settings {
  std::vector<std::string> texts;
  std::vector<std::string> attentions{"flexformer_n_attention", "flexformer_s_attention", "linear_transformer",
                                      "performer", "exact"};
  std::vector<std::string> dims; ///< NAME=SIZE
  LanguageModel<float>::Options model;
  int64_t batch = 2, steps = 1000, warmup = 50, every = 100;
  std::optional<int64_t> stop;
  double rate = 3e-3, clip = 1;
  std::string target = "host", csv, checkpoint;
  bool resume = false, mustBeatBigram = false, checkReference = false;
};

/// One line of the table.
struct Outcome {
  std::string attention;
  int64_t weights = 0;     ///< how many numbers are learned
  double validation = 0;   ///< nats a character
  double stepSeconds = 0;  ///< the median
  double totalSeconds = 0; ///< with compiling and validation
};

using File = std::unique_ptr<std::FILE, decltype([](std::FILE *file) { std::fclose(file); })>;

double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double mean(const std::vector<double> &values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

/// `attention` is FILE:NAME, or the name of one in examples/specs.
Kernel kernelOf(const std::string &attention, const std::string &target, const Settings &settings) {
  const auto compiled = [&](const Spec &spec, const std::string &name) {
    yaglom::CompileOptions options{.target = yaglom::Target::parse(target).value(),
                                   .headDim = settings.model.width / settings.model.heads};
    for (const std::string &dim : settings.dims) {
      const std::string declared = dim.substr(0, dim.find('='));
      if (spec.print().find("dim " + declared + " = ") != std::string::npos)
        options.dims[declared] = std::stoll(dim.substr(declared.size() + 1));
    }
    return compile(spec, name, options).value();
  };
  if (const size_t colon = attention.rfind(':'); colon != std::string::npos)
    return compiled(Spec::parseFile(attention.substr(0, colon)).value(), attention.substr(colon + 1));
  for (const auto &file : std::filesystem::directory_iterator(YAGLOM_SPECS_DIR)) {
    const Spec spec = Spec::parseFile(file.path().string()).value();
    const std::vector<std::string> names = spec.attentions();
    if (std::find(names.begin(), names.end(), attention) != names.end())
      return compiled(spec, attention);
  }
  throw Error("no spec in " YAGLOM_SPECS_DIR " has an attention '" + attention + "'; for another file write FILE:NAME");
}

/// A model in training: whatever changes from step to step, and so what a checkpoint keeps.
struct Training {
  Training(const Kernel &kernel, const Text &text, const Settings &settings)
      : text(text), settings(settings), random(settings.model.seed),
        model(kernel, text.alphabet, settings.model, random), adam(model.learned()) {}

  /// One step of Adam, on random windows of the training part. Returns their loss.
  double step() {
    clearGradients(adam.learned());
    const double loss = model.learn(randomWindows(text.training, settings.batch, settings.model.context, random));
    clipGradients(adam.learned(), settings.clip);
    adam.step(cosineRate(adam.taken, settings.steps, settings.warmup, settings.rate));
    model.draw();
    return loss;
  }

  /// The loss of the validation part.
  double validate() {
    double sum = 0, count = 0;
    for (const Batch &batch : allWindows(text.validation, settings.batch, settings.model.context)) {
      sum += model.loss(batch) * double(batch.inputs.size());
      count += double(batch.inputs.size());
    }
    return sum / count;
  }

  void save(const std::string &run) const {
    std::ostringstream state;
    state << random;
    saveCheckpoint(settings.checkpoint, adam, {{"run", run}, {"random", state.str()}});
  }

  void resume(const std::string &run) {
    const Metadata strings = loadCheckpoint(settings.checkpoint, adam);
    if (entry(strings, "run") != run)
      throw Error(settings.checkpoint + ": is of another run\n  there: " + entry(strings, "run") + "\n  here:  " + run);
    if (std::istringstream state(entry(strings, "random")); !(state >> random))
      throw Error(settings.checkpoint + ": the generator's state cannot be read");
    model.draw();
  }

  const Text &text;
  const Settings &settings;
  Random random;
  LanguageModel<float> model;
  Adam<float> adam;
};

/// Everything that a run's numbers depend on. The number of threads is not among it.
std::string describe(const std::string &attention, const Text &text, const Settings &settings) {
  const auto &model = settings.model;
  std::ostringstream run;
  run << attention;
  for (const std::string &dim : settings.dims)
    run << " " << dim;
  run << " on " << settings.target << ", text " << std::hex << text.fingerprint << std::dec << ", layers "
      << model.layers << ", width " << model.width << ", heads " << model.heads << ", context " << model.context
      << ", batch " << settings.batch << ", steps " << settings.steps << ", rate " << settings.rate << ", warmup "
      << settings.warmup << ", clip " << settings.clip << ", seed " << model.seed;
  return run.str();
}

/// Prints a point of the curve, and adds it to the CSV file if there is one.
void report(const std::string &attention, int64_t step, double training, double validation, const File &csv) {
  const double bits = validation / std::numbers::ln2;
  std::printf("%-24s step %5ld  training %.4f  validation %.4f  %.4f bits/character\n", attention.c_str(), long(step),
              training, validation, bits);
  std::fflush(stdout);
  if (csv) {
    std::fprintf(csv.get(), "%s,%ld,%.6f,%.6f,%.6f\n", attention.c_str(), long(step), training, validation, bits);
    std::fflush(csv.get());
  }
}

Outcome train(const std::string &attention, const Text &text, const Settings &settings, const File &csv) {
  const auto start = std::chrono::steady_clock::now();
  const std::string name = attention.substr(attention.rfind(':') + 1); // all of it without a file
  const std::string run = describe(attention, text, settings);
  Training training(kernelOf(attention, settings.target, settings), text, settings);
  if (training.model.looksAhead())
    throw Error(attention + ": lets a token see later ones; a language model needs an attention with 'causal'");
  if (settings.resume)
    training.resume(run);

  Outcome outcome{.attention = name, .validation = training.validate()};
  Progress progress(name);
  std::vector<double> seconds, losses;
  int64_t &step = training.adam.taken;
  while (step < std::min(settings.steps, settings.stop.value_or(settings.steps))) {
    const auto stepStart = std::chrono::steady_clock::now();
    losses.push_back(training.step());
    seconds.push_back(secondsSince(stepStart));
    progress.show(step, settings.steps, "loss " + std::to_string(losses.back()));
    if (step % settings.every && step != settings.steps)
      continue;
    outcome.validation = training.validate();
    progress.clear();
    report(name, step, mean(losses), outcome.validation, csv);
    losses.clear();
    if (!settings.checkpoint.empty())
      training.save(run);
  }

  for (const Learned<float> &weight : training.adam.learned())
    outcome.weights += weight.size();
  outcome.stepSeconds = median(seconds);
  outcome.totalSeconds = secondsSince(start);
  return outcome;
}

/// Trains every attention and prints the table.
void compareAttentions(const Text &text, const Settings &settings) {
  if (!settings.checkpoint.empty() && settings.attentions.size() > 1)
    throw Error("a checkpoint holds one model: choose one --attention");
  File csv;
  if (!settings.csv.empty()) {
    const bool append = settings.resume && std::filesystem::exists(settings.csv);
    csv.reset(std::fopen(settings.csv.c_str(), append ? "a" : "w"));
    if (!csv)
      throw Error(settings.csv + ": cannot be written");
    if (!append)
      std::fprintf(csv.get(), "attention,step,training,validation,bits\n");
  }
  std::vector<Outcome> outcomes;
  for (const std::string &attention : settings.attentions)
    outcomes.push_back(train(attention, text, settings, csv));

  const double bigram = bigramLoss(text, allWindows(text.validation, settings.batch, settings.model.context));
  std::printf("\n%-24s %8s %15s %15s %9s %8s\n", "", "weights", "nats/character", "bits/character", "s/step", "s");
  std::printf("%-24s %8d %15.4f %15.4f\n", "bigram", text.alphabet * text.alphabet, bigram, bigram / std::numbers::ln2);
  for (const Outcome &outcome : outcomes)
    std::printf("%-24s %8ld %15.4f %15.4f %9.3f %8.1f\n", outcome.attention.c_str(), long(outcome.weights),
                outcome.validation, outcome.validation / std::numbers::ln2, outcome.stepSeconds, outcome.totalSeconds);
  for (const Outcome &outcome : outcomes)
    if (settings.mustBeatBigram && !(outcome.validation < bigram)) // also when it is no number
      throw Error(outcome.attention + ": is no better than the bigram model");
}

/// The validation loss after every fourth step. With `shake`, every step also moves all weights by a rounding of float32, at
/// random: how far apart such curves are is what arithmetic alone does to training.
std::vector<double> curve(const Kernel &kernel, const Text &text, const Settings &settings, Random *shake = nullptr) {
  Training training(kernel, text, settings);
  std::vector<double> losses;
  while (training.adam.taken < settings.steps) {
    training.step();
    if (shake)
      for (const Learned<float> &weight : training.adam.learned())
        weight.value() *= 1 + gaussian<float>(weight.size(), 1, 0x1p-24, *shake).array();
    if (training.adam.taken % 4 == 0)
      losses.push_back(training.validate());
  }
  return losses;
}

double largestDifference(const std::vector<double> &a, const std::vector<double> &b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

/// Trains a tiny model by compiled kernels and by the interpreter that defines the language. Returns whether their losses
/// differ by no more than rounding explains.
bool checkReference(Text text, Settings settings) {
  settings.model = {.layers = 2, .width = 8, .heads = 2, .context = 16, .seed = settings.model.seed};
  settings.batch = 1;
  settings.steps = 40;
  settings.warmup = 5;
  settings.rate = 0.02;
  settings.dims = {"n=8", "m=8"};
  text.validation.resize(std::min<size_t>(text.validation.size(), 16 * 16 + 1));
  bool agree = true;
  for (const std::string &attention : settings.attentions) {
    const Kernel host = kernelOf(attention, "host", settings), reference = kernelOf(attention, "reference", settings);
    const std::vector<double> compiled = curve(host, text, settings), exact = curve(reference, text, settings);
    double noise = 0;
    Random shake(settings.model.seed);
    for (int i = 0; i < 3; ++i)
      noise = std::max(noise, largestDifference(compiled, curve(host, text, settings, &shake)));
    const double difference = largestDifference(compiled, exact);
    std::printf("%s, losses by compiled and by exact gradients:\n", attention.c_str());
    for (size_t i = 0; i < compiled.size(); ++i)
      std::printf("  step %2zu  %.8f  %.8f\n", 4 * (i + 1), compiled[i], exact[i]);
    std::printf("  differ by %.1e at most; roundings of the weights alone make %.1e\n", difference, noise);
    std::fflush(stdout);
    agree = agree && difference <= noise;
  }
  return agree;
}

void addOptions(CLI::App &app, Settings &settings) {
  auto &model = settings.model;
  const CLI::Validator positive = CLI::Range(1, 1 << 30).description("");
  const CLI::Validator size(
      [](const std::string &text) {
        return std::regex_match(text, std::regex("\\w+=[1-9]\\d{0,8}")) ? "" : "expected NAME=SIZE, found " + text;
      },
      "");
  app.add_option("--text", settings.texts, "files to learn from (default: the licences that Debian ships)");
  app.option_defaults()->always_capture_default();
  app.add_option("--attention", settings.attentions, "FILE:NAME, or a name from examples/specs; may be repeated");
  app.add_option("--dim", settings.dims, "NAME=SIZE: another size for a dimension, in the specs that have it")
      ->check(size)
      ->default_str("");
  app.add_option("--layers", model.layers, "blocks of attention and perceptron")->check(positive);
  app.add_option("--width", model.width, "numbers a token")->check(positive);
  app.add_option("--heads", model.heads, "heads a layer")->check(positive);
  app.add_option("--context", model.context, "tokens a window")->check(positive);
  app.add_option("--batch", settings.batch, "windows a step")->check(positive);
  app.add_option("--steps", settings.steps, "steps of Adam")->check(positive);
  app.add_option("--rate", settings.rate, "its largest rate");
  app.add_option("--warmup", settings.warmup, "steps until that is reached");
  app.add_option("--clip", settings.clip, "largest norm of a gradient");
  app.add_option("--every", settings.every, "steps between validations")->check(positive);
  app.add_option("--seed", model.seed, "of all chance");
  app.add_option("--threads", model.threads, "of the kernels; 0 means one a core");
  app.add_option("--target", settings.target, "host, or reference: exact and slow");
  app.add_option("--csv", settings.csv, "file for the curves");
  CLI::Option *checkpoint =
      app.add_option("--checkpoint", settings.checkpoint, "safetensors file, replaced at every validation");
  app.add_flag("--resume", settings.resume, "go on from the checkpoint")->needs(checkpoint);
  app.add_option("--stop", settings.stop, "end after this step, as if killed")->check(positive);
  app.add_flag("--must-beat-bigram", settings.mustBeatBigram, "fail unless every attention does");
  app.add_flag("--check-reference", settings.checkReference, "train a tiny model by compiled and by exact gradients");
}

} // namespace

int main(int argc, char **argv) try {
  Settings settings;
  CLI::App app("Trains language models of characters, each with another attention, and compares them.");
  addOptions(app, settings);
  CLI11_PARSE(app, argc, argv);

  const Text text = readText(settings.texts.empty() ? licenceTexts() : settings.texts);
  if (text.validation.size() <= size_t(settings.model.context))
    throw Error("the text is too short: a tenth of it holds no window of " + std::to_string(settings.model.context));
  if (settings.checkReference)
    return checkReference(text, settings) ? 0 : 1;
  compareAttentions(text, settings);
} catch (const std::exception &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
