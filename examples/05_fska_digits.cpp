// FSKA on images as sequences: digits by attention over raw tokens, whose spectrum a flow learns through the draws, and the
// ablation of positive against plain features and of a learned against a fixed spectrum.
// SPDX-License-Identifier: Apache-2.0
#include "learning/Adam.h"
#include "learning/Images.h"
#include "learning/Progress.h"
#include "learning/SequenceClassifier.h"

#include <yaglom/yaglom.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

using namespace learning;
using yaglom::Error, yaglom::Kernel, yaglom::Spec;

namespace {

struct Settings {
  std::string digits = "digits.csv", images, labels, csv;
  std::vector<std::string> redrawn, once; ///< attentions
  std::vector<uint64_t> seeds{1, 2, 3};
  uint64_t split = 1;
  int64_t patch = 2, heads = 8, hidden = 64, epochs = 20, batch = 32, draws = 4, every = 5;
  double scale = 0.5, rate = 6e-3, clip = 1, prior = 1e-3, require = 0;
  int threads = 1;
};

/// What all runs share.
struct Data {
  Images images;
  Split split;
  Sequences sequences;

  std::vector<int> labels(const std::vector<int64_t> &ids) const {
    std::vector<int> result;
    result.reserve(ids.size());
    for (int64_t id : ids)
      result.push_back(images.labels[size_t(id)]);
    return result;
  }
};

/// One attention, and whether its features are drawn again at every step or once.
struct Variant {
  std::string attention;
  bool once;
  std::string name() const { return attention + (once ? ", drawn once" : ", redrawn"); }
};

struct Outcome {
  double firstLoss = 0, lastLoss = 0; ///< means of an epoch, in nats
  double accuracy = 0;                ///< percent of the images held out
};

/// "FILE:NAME", or the name of an attention of fska_ablation.phi.
Kernel kernelOf(const std::string &attention, int64_t width) {
  const size_t colon = attention.rfind(':');
  const std::string file =
      colon == std::string::npos ? YAGLOM_LEARNING_DIR "/fska_ablation.phi" : attention.substr(0, colon);
  const std::string name = colon == std::string::npos ? attention : attention.substr(colon + 1);
  return yaglom::compile(Spec::parseFile(file).value(), name, {.headDim = width}).value();
}

/// A model on its way.
class Training {
public:
  Training(const Variant &variant, const Kernel &kernel, const Data &data, uint64_t seed, const Settings &settings)
      : variant(variant), data(data), settings(settings), seed(seed), random(seed), order(data.split.training),
        model(kernel, data.sequences.tokens, data.sequences.rows.cols(),
              {.heads = settings.heads,
               .hidden = settings.hidden,
               .classes = data.images.classes,
               .seed = seed,
               .threads = settings.threads},
              random),
        adam(model.learned()), batches(int64_t(order.size()) / settings.batch), steps(settings.epochs * batches) {
    draw(0);
    model.measure(gather(data.sequences, {order.begin(), order.begin() + std::min(kBlock, std::ssize(order))}));
  }

  /// Goes through the training images once, in a new order; returns the mean loss.
  double epoch(const Progress &progress) {
    std::shuffle(order.begin(), order.end(), random);
    double sum = 0;
    for (int64_t i = 0; i < batches; ++i) {
      const auto first = order.begin() + i * settings.batch;
      sum += step({first, first + settings.batch});
      progress.show(adam.taken, steps, "");
    }
    return sum / double(batches);
  }

  /// The percentage of images held out that the mean probability over some draws recognises; these are the same every time.
  double accuracy() {
    const std::vector<int64_t> &held = data.split.held;
    int64_t right = 0;
    for (int64_t first = 0; first < std::ssize(held); first += kBlock) {
      const auto begin = held.begin() + first, end = begin + std::min(kBlock, held.end() - begin);
      const std::vector<int64_t> ids(begin, end);
      const Matrix<float> chances = probabilities(gather(data.sequences, ids));
      for (size_t i = 0; i < ids.size(); ++i) {
        Eigen::Index best = 0;
        chances.row(Eigen::Index(i)).maxCoeff(&best);
        right += best == data.images.labels[size_t(ids[i])];
      }
    }
    return 100 * double(right) / double(held.size());
  }

  /// The sum of the spec's losses, a head; 0 where a spectrum is fixed.
  double prior() const { return model.losses(seedOf(kHeldDraws)) / double(settings.heads); }

private:
  static constexpr uint64_t kHeldDraws = 1u << 31; ///< beyond the number of any step
  static constexpr int64_t kBlock = 512;           ///< images looked at together, where no step is taken

  Matrix<float> probabilities(const Matrix<float> &x) {
    Matrix<float> sum = Matrix<float>::Zero(x.rows() / data.sequences.tokens, data.images.classes);
    for (int64_t i = 0; i < (variant.once ? 1 : settings.draws); ++i) {
      draw(kHeldDraws + uint64_t(i));
      const Matrix<float> logits = model.forward(x);
      const Matrix<float> weights = (logits.colwise() - logits.rowwise().maxCoeff()).array().exp();
      sum.array() += weights.array().colwise() / weights.array().rowwise().sum();
    }
    return sum;
  }

  double step(const std::vector<int64_t> &ids) {
    const uint64_t number = uint64_t(adam.taken);
    draw(number); // parameters have moved: also where the noise stays, the features follow
    clearGradients(adam.learned());
    Matrix<float> gradient;
    const double loss = crossEntropy(model.forward(gather(data.sequences, ids)), data.labels(ids), &gradient);
    model.backward(gradient);
    model.addLosses(settings.prior, seedOf(number));
    clipGradients(adam.learned(), settings.clip);
    adam.step(cosineRate(adam.taken, steps, steps / 20, settings.rate));
    return loss;
  }

  uint64_t seedOf(uint64_t number) const { return seed << 32 | number; }
  void draw(uint64_t number) { model.draw(seedOf(variant.once ? 0 : number)); }

  const Variant &variant;
  const Data &data;
  const Settings &settings;
  uint64_t seed;
  Random random;
  std::vector<int64_t> order;
  SequenceClassifier<float> model;
  Adam<float> adam;
  int64_t batches, steps; ///< in an epoch, and in all
};

using File = std::unique_ptr<std::FILE, int (*)(std::FILE *)>;

Outcome train(const Variant &variant, const Kernel &kernel, const Data &data, uint64_t seed, const Settings &settings,
              std::FILE *csv) {
  Training training(variant, kernel, data, seed, settings);
  const Progress progress(variant.name());
  Outcome outcome;
  for (int64_t epoch = 1; epoch <= settings.epochs; ++epoch) {
    outcome.lastLoss = training.epoch(progress);
    if (epoch == 1)
      outcome.firstLoss = outcome.lastLoss;
    if (epoch % settings.every && epoch != settings.epochs)
      continue;
    outcome.accuracy = training.accuracy();
    progress.clear();
    std::printf("%-30s seed %lu  epoch %3ld  loss %.4f  prior %7.3f  accuracy %.1f %%\n", variant.name().c_str(),
                static_cast<unsigned long>(seed), long(epoch), outcome.lastLoss, training.prior(), outcome.accuracy);
    std::fflush(stdout);
    if (csv)
      std::fprintf(csv, "%s,%s,%lu,%ld,%.6f,%.6f,%.2f\n", variant.attention.c_str(),
                   variant.once ? "once" : "every step", static_cast<unsigned long>(seed), long(epoch),
                   outcome.lastLoss, training.prior(), outcome.accuracy);
  }
  return outcome;
}

/// One line of the table, by seed, and the seconds of all runs.
struct Row {
  Variant variant;
  std::vector<Outcome> outcomes;
  double seconds;
};

/// Prints it; false where a required accuracy was not reached, or a loss did not fall.
bool report(const Row &row, double required) {
  double sum = 0, squares = 0;
  bool fell = true;
  for (const Outcome &outcome : row.outcomes) {
    sum += outcome.accuracy;
    fell &= outcome.lastLoss < outcome.firstLoss;
  }
  const double count = double(row.outcomes.size()), mean = sum / count;
  for (const Outcome &outcome : row.outcomes)
    squares += (outcome.accuracy - mean) * (outcome.accuracy - mean);
  const std::string name = row.variant.name();
  std::printf("%-30s  %5.1f  %4.1f ", name.c_str(), mean, std::sqrt(squares / std::max(1.0, count - 1)));
  for (const Outcome &outcome : row.outcomes)
    std::printf(" %5.1f", outcome.accuracy);
  std::printf("  %5.1f\n", row.seconds / count);
  if (required == 0 || (fell && mean >= required))
    return true;
  std::fprintf(stderr, "%s: expected a falling loss and %g %% at least\n", name.c_str(), required);
  return false;
}

Data readData(const Settings &settings) {
  Data data;
  data.images = settings.images.empty() ? readDigits(settings.digits) : readImages(settings.images, settings.labels);
  data.split = splitImages(data.images, settings.split);
  if (int64_t(data.split.training.size()) < settings.batch || data.split.held.empty())
    throw Error("too few images: a fifth is held out, and the others must fill a batch");
  data.sequences = asSequences(data.images, data.split.training, settings.patch, settings.scale);
  std::vector<int64_t> members(size_t(data.images.classes));
  for (int label : data.labels(data.split.held))
    ++members[size_t(label)];
  std::printf("%ld images as sequences of %ld tokens of width %ld, %zu held out; always the same answer: %.1f %%\n\n",
              long(data.images.count()), long(data.sequences.tokens), long(data.sequences.rows.cols()),
              data.split.held.size(),
              100.0 * double(*std::max_element(members.begin(), members.end())) / double(data.split.held.size()));
  return data;
}

/// The ablation, unless attentions are asked for.
std::vector<Variant> variantsOf(const Settings &settings) {
  std::vector<Variant> variants;
  const auto add = [&](const std::string &attention, bool once) { variants.push_back({attention, once}); };
  for (const std::string &attention : settings.redrawn)
    add(attention, false);
  for (const std::string &attention : settings.once)
    add(attention, true);
  if (!variants.empty())
    return variants;
  for (const bool once : {false, true})
    for (const char *attention :
         {"positive_flow", "fourier_flow", "clamped_flow", "positive_gaussian", "fourier_gaussian", "clamped_gaussian"})
      add(attention, once);
  add("uniform", true);
  return variants;
}

/// Trains every variant from every seed; false where one falls short of what is required.
bool ablate(const Settings &settings) {
  const Data data = readData(settings);
  File csv(nullptr, &std::fclose);
  if (!settings.csv.empty()) {
    csv.reset(std::fopen(settings.csv.c_str(), "w"));
    if (!csv)
      throw Error(settings.csv + ": cannot be written");
    std::fprintf(csv.get(), "attention,drawn,seed,epoch,loss,prior,accuracy\n");
  }
  std::vector<Row> table;
  for (const Variant &variant : variantsOf(settings)) {
    Row &row = table.emplace_back(Row{variant, {}, 0});
    const auto start = std::chrono::steady_clock::now();
    const Kernel kernel = kernelOf(variant.attention, data.sequences.rows.cols());
    for (uint64_t seed : settings.seeds)
      row.outcomes.push_back(train(variant, kernel, data, seed, settings, csv.get()));
    row.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  std::printf("\n%-30s  %-11s  each seed, seconds a run\n", "accuracy in %", "mean    sd");
  bool good = true;
  for (const Row &row : table)
    good &= report(row, settings.require);
  return good;
}

} // namespace

int main(int argc, char **argv) try {
  Settings settings;
  CLI::App app("Classifies images by attention whose spectrum is learned, and repeats FSKA's ablation.");
  app.option_defaults()->always_capture_default();
  app.add_option("--data", settings.digits, "scikit-learn's digits: scripts/fetch-digits brings them");
  CLI::Option *images = app.add_option("--images", settings.images, "other images: .npy, [n, height, width]");
  CLI::Option *labels = app.add_option("--labels", settings.labels, "their labels: .npy, [n], from 0")->needs(images);
  images->needs(labels);
  app.add_option("--redrawn", settings.redrawn,
                 "attentions to draw anew every step, not the ablation's: FILE:NAME or NAME");
  app.add_option("--once", settings.once, "attentions to draw once");
  app.add_option("--seeds", settings.seeds, "a run each")->check(CLI::Range(uint64_t(0), uint64_t(UINT32_MAX)));
  app.add_option("--split", settings.split, "seed of the choice of images held out");
  app.add_option("--patch", settings.patch, "pixels of a square that is a token; 0: a row is one")
      ->check(CLI::Range(0, 4096));
  app.add_option("--scale", settings.scale, "factor of tokens")->check(CLI::PositiveNumber);
  app.add_option("--heads", settings.heads, "heads")->check(CLI::PositiveNumber);
  app.add_option("--hidden", settings.hidden, "width of the perceptron")->check(CLI::PositiveNumber);
  app.add_option("--epochs", settings.epochs, "times through the training images")->check(CLI::PositiveNumber);
  app.add_option("--batch", settings.batch, "images a step")->check(CLI::PositiveNumber);
  app.add_option("--rate", settings.rate, "largest rate of Adam")->check(CLI::PositiveNumber);
  app.add_option("--clip", settings.clip, "largest norm of a gradient")->check(CLI::PositiveNumber);
  app.add_option("--prior", settings.prior, "weight of the spec's losses")->check(CLI::NonNegativeNumber);
  app.add_option("--draws", settings.draws, "draws that vote, if drawn anew")->check(CLI::PositiveNumber);
  app.add_option("--every", settings.every, "epochs between lines")->check(CLI::PositiveNumber);
  app.add_option("--threads", settings.threads, "of the kernels; 0: one a core")->check(CLI::NonNegativeNumber);
  app.add_option("--csv", settings.csv, "file for the curves");
  app.add_option("--require", settings.require, "fail unless all reach this accuracy, and losses fall");
  CLI11_PARSE(app, argc, argv);
  return !ablate(settings);
} catch (const std::exception &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
