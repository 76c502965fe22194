// A grammar of random programs, from the attention down to the leaves.
// SPDX-License-Identifier: Apache-2.0
#include "tests/numeric/RandomProgram.h"

#include <vector>

namespace yaglom::tests {
namespace {

using Names = std::vector<std::string>;

/// A value by name: what expressions may refer to. The width is text ("k1 + k2"); "" for a scalar.
struct Known {
  std::string name, width;
};

/// The body of one map or attention while it grows.
class Body {
public:
  Body(Random &random, std::string prefix, Names dims, bool hasPosition, bool hasLength)
      : random(random), prefix(std::move(prefix)), dims(std::move(dims)), hasPosition(hasPosition),
        hasLength(hasLength) {}

  void know(std::string name, std::string width) { known.push_back({std::move(name), std::move(width)}); }
  std::string vector(const std::string &width, int depth);
  std::string scalar(int depth);
  std::string positive(const std::string &width, int depth);
  /// exp(f) g in several forms.
  std::string exponential(const std::string &width, int depth);
  std::string param(const std::string &shape, const std::string &initial);
  std::string let(const std::string &value, const std::string &width);
  bool chance(double p) { return random.uniform() < p; }
  const std::string &anyDim() {
    return dims[static_cast<std::size_t>(random.below(static_cast<int64_t>(dims.size())))];
  }
  std::string fresh() { return prefix + std::to_string(counter++); }

  std::string text; ///< bindings so far

private:
  std::string leaf(const std::string &width);
  std::string contraction(const std::string &width, int depth);
  std::string pointwise(const std::string &x);
  std::string halves(const std::string &width, int depth);

  Random &random;
  std::string prefix;
  Names dims;
  bool hasPosition, hasLength;
  std::vector<Known> known;
  int counter = 0;
};

std::string Body::param(const std::string &shape, const std::string &initial) {
  const std::string name = prefix + "p" + std::to_string(counter++);
  text += std::string("  ") + (chance(0.2) ? "shared " : "") + "param " + name + ": [" + shape + "] " + initial + "\n";
  return name;
}

std::string Body::let(const std::string &value, const std::string &width) {
  const std::string name = fresh();
  text += "  let " + name + " = " + value + "\n";
  if (!width.empty())
    know(name, width);
  return name;
}

std::string Body::leaf(const std::string &width) {
  Names fitting;
  for (const Known &value : known)
    if (value.width == width)
      fitting.push_back(value.name);
  if (fitting.empty() && chance(0.75))
    return "(" + param(width + ", " + known[0].width, "~ gaussian(scale = 0.6)") + " @ " + known[0].name + ")";
  if (fitting.empty() || chance(0.1))
    return param(width, "~ gaussian(scale = 0.5)");
  return fitting[static_cast<std::size_t>(random.below(static_cast<int64_t>(fitting.size())))];
}

std::string Body::pointwise(const std::string &x) {
  static const Names kForms = {"sin($)",
                               "cos($)",
                               "tanh($)",
                               "sigmoid($)",
                               "softplus($)",
                               "relu($)",
                               "elu($)",
                               "(elu($) + 1)",
                               "silu($)",
                               "gelu($)",
                               "abs($)",
                               "erf($)",
                               "square(tanh($))",
                               "sqrt(0.1 + abs($))",
                               "rsqrt(1 + square($))",
                               "log(1 + abs($))",
                               "log1p(abs($))",
                               "exp(min($, 2))",
                               "exp2(-abs($))",
                               "expm1(tanh($))",
                               "min($, 0.3)",
                               "max($, -0.2)",
                               "(0.5 + abs($))^1.5",
                               "sign($)",
                               "tan(0.5 * tanh($))",
                               "(-$)",
                               "tanh($)^2",
                               "tanh($)^3",
                               "(1 / (1 + $ * $))",
                               "(2 * $ - 0.1)"};
  std::string form = kForms[static_cast<std::size_t>(random.below(static_cast<int64_t>(kForms.size())))];
  std::string result;
  for (const char c : form)
    result += c == '$' ? x : std::string(1, c);
  return result;
}

std::string Body::contraction(const std::string &width, int depth) {
  const std::string &inner = anyDim();
  const auto matrix = [&] { return param(width + ", " + inner, "~ gaussian(scale = 0.4)"); };
  const std::string x = let(vector(inner, depth - 1), inner);
  switch (random.below(9)) {
  case 0:
    return "(" + matrix() + " + " + matrix() + ") / 2 @ " + x;
  case 1:
    return "(" + matrix() + " * " + x + ") @ " + let(vector(inner, depth - 1), inner);
  case 2:
    return "tanh(" + matrix() + " * " + x + ") @ " + x;
  case 3:
    return "(" + matrix() + " + " + x + ") @ " + let(vector(inner, depth - 1), inner);
  case 4:
    return "sin(" + matrix() + ") @ " + x;
  case 5:
    return "(" + matrix() + " * " + param(inner, "= 1") + ") @ " + x;
  default:
    return "(" + matrix() + " @ " + x + ")";
  }
}

/// Both halves of a vector of twice the width.
std::string Body::halves(const std::string &width, int depth) {
  const std::string whole = let("[" + vector(width, depth - 1) + "; " + vector(width, depth - 1) + "]", "");
  const std::string a = fresh(), b = fresh();
  text += "  let (" + a + ", " + b + ") = split(" + pointwise(whole) + ")\n";
  know(a, width), know(b, width);
  return "(" + a + " * 0.7 - " + b + ")";
}

std::string Body::vector(const std::string &width, int depth) {
  if (depth <= 0)
    return leaf(width);
  switch (random.below(19)) {
  case 0:
  case 1:
  case 2:
  case 3:
    return pointwise(let(vector(width, depth - 1), width));
  case 4:
  case 5:
  case 6:
  case 7:
    return let(contraction(width, depth), width);
  case 8:
    return "(" + vector(width, depth - 1) + " + " + vector(width, depth - 1) + ")";
  case 9:
    return "(" + vector(width, depth - 1) + " * " + scalar(depth - 1) + ")";
  case 10:
    return "(" + vector(width, depth - 1) + " * tanh(" + vector(width, depth - 1) + "))";
  case 11:
    return "(" + vector(width, depth - 1) + " / (0.5 + abs(" + scalar(depth - 1) + ")))";
  case 12:
    return "softmax(" + vector(width, depth - 1) + ")";
  case 13:
    return "unit(" + vector(width, depth - 1) + ")";
  case 14: {
    const std::string x = let(vector(width, depth - 1), width);
    return "(" + x + " / (1 + |" + x + "|))";
  }
  case 15: {
    const std::string x = let(vector(width, depth - 1), width);
    return "(" + x + " - mean(" + x + "))";
  }
  case 16:
    return halves(width, depth);
  case 17: {
    const std::string a = anyDim(), b = anyDim();
    const std::string stack =
        let("[" + vector(a, depth - 1) + "; " + scalar(depth - 1) + "; " + vector(b, depth - 1) + "]", "");
    return "(" + param(width + ", " + a + " + 1 + " + b, "~ gaussian(scale = 0.3)") + " @ " + stack + ")";
  }
  default: {
    const std::string a = anyDim(), b = anyDim();
    const std::string product = let("outer(" + vector(a, depth - 1) + ", " + vector(b, depth - 1) + ")", "");
    return "(" + param(width + ", " + a + " * " + b, "~ gaussian(scale = 0.3)") + " @ " + product + ")";
  }
  }
}

std::string Body::scalar(int depth) {
  const std::string &width = anyDim();
  switch (random.below(depth > 0 ? 10 : 4)) {
  case 0:
    return "0.7";
  case 1:
    return param("", "= 0.8");
  case 2:
    return hasPosition ? "sin(0.3 * pos)" : hasLength ? "cos(len)" : "1.3";
  case 3:
    return hasPosition && hasLength ? "(pos / len)" : "0.4";
  case 4:
    return "sum(" + vector(width, depth - 1) + ")";
  case 5:
    return "mean(" + vector(width, depth - 1) + ")";
  case 6:
    return "max(" + vector(width, depth - 1) + ")";
  case 7:
    return "|" + vector(width, depth - 1) + "|";
  case 8:
    return "tanh(" + scalar(depth - 1) + " - " + scalar(depth - 1) + ")";
  default:
    return "sum(" + let(vector(width, depth - 1), width) + " * " + vector(width, depth - 1) + ")";
  }
}

std::string Body::positive(const std::string &width, int depth) {
  const std::string x = vector(width, depth);
  switch (random.below(6)) {
  case 0:
    return "(elu(" + x + ") + 1)";
  case 1:
    return "softplus(" + x + ")";
  case 2:
    return "(0.1 + square(" + x + "))";
  case 3:
    return "sigmoid(" + x + ")";
  case 4:
    return "softmax(" + x + ")";
  default:
    return exponential(width, depth);
  }
}

std::string Body::exponential(const std::string &width, int depth) {
  const std::string f = let("tanh(" + vector(width, depth) + ")", width);
  const std::string g = "(0.1 + sigmoid(" + vector(width, depth - 1) + "))";
  switch (random.below(8)) {
  case 0:
    return "exp(" + f + ")";
  case 1:
    return "(exp(" + scalar(1) + " / 4) * " + g + ")";
  case 2:
    return "(exp(" + f + ") * " + g + ")";
  case 3:
    return "(exp(3 * " + f + ") * exp2(-" + scalar(1) + " / 4) * " + g + ")";
  case 4:
    return "(" + g + " / exp(" + f + "))";
  case 5:
    return "(exp(" + f + " - " + scalar(1) + ") / 2)";
  case 6:
    return "(exp2(2 * " + f + ") / (1 + abs(" + scalar(1) + ")))";
  default:
    return "(0.3 * " + g + " * exp(40 * " + f + "))";
  }
}

/// A spec with one attention.
class Generator {
public:
  explicit Generator(uint64_t seed) : random(seed * 2 + 1) {}
  RandomProgram run();

private:
  bool chance(double p) { return random.uniform() < p; }
  std::string pick(const Names &names) {
    return names[static_cast<std::size_t>(random.below(static_cast<int64_t>(names.size())))];
  }
  std::string map(const std::string &argument, const std::string &width, bool positive);
  std::string options(Body &body);
  std::string linear(Body &body, const std::string &query, const std::string &queryWidth);

  Random random;
  std::string maps;
  int mapCount = 0;
  bool causal = false, positive = false;
};

/// Declares a map from [argument] to [width] and returns its name.
std::string Generator::map(const std::string &argument, const std::string &width, bool positiveResult) {
  const std::string name = "f" + std::to_string(mapCount++);
  Body body(random, "x" + std::to_string(mapCount) + "_", {argument, "k1", "k2", "k3"}, true, true);
  const std::string input = name + "_in";
  body.know(input, argument);
  const int depth = 1 + static_cast<int>(random.below(3));
  std::string result = positiveResult ? body.positive(width, depth) : body.vector(width, depth);
  // Something of the input reaches the result.
  const std::string last = body.let(result, "");
  const std::string link = "sum(" + input + ")";
  result = positiveResult ? last + " * (1 + sigmoid(" + link + "))" : last + " + 0.2 * sin(" + link + ")";
  maps += "map " + name + "(" + input + ": [" + argument + "]) -> [" + width + "] {\n" + body.text + "  return " +
          result + "\n}\n\n";
  return name;
}

std::string Generator::options(Body &body) {
  Names list;
  if (causal && chance(0.9)) {
    list.push_back("causal");
    switch (random.below(12)) {
    case 0:
      list.push_back("decay = g");
      break;
    case 1:
      list.push_back("log_decay = -g");
      break;
    case 2:
      list.push_back("decay = " + body.param("", "= 0.9"));
      break;
    case 3:
      list.push_back("log_decay = " + body.param("", "= -0.3"));
      break;
    case 4:
      list.push_back("decay = sigmoid(2 + sum(K))");
      break;
    case 5:
      list.push_back("log_decay = -softplus(mean(" + body.param("k1, d", "~ gaussian") + " @ K))");
      break;
    default:
      break;
    }
  }
  if (chance(0.3))
    list.push_back(pick({"mask = m - 0.5 - abs(m - 0.5)", "mask = relu(sum(K))", "mask = m"}));
  if (positive && chance(0.8))
    list.push_back(pick({"normalize", "normalize(eps = 0.01)", "normalize(clamp = 0.5)", "normalize(signed = 0.2)"}));
  else if (!positive && chance(0.3))
    list.push_back("normalize(signed = 5)");
  std::string text;
  for (const std::string &option : list)
    text += (text.empty() ? " with " : ", ") + option;
  return text;
}

std::string Generator::linear(Body &body, const std::string &query, const std::string &queryWidth) {
  positive = chance(0.6);
  const std::string width = pick({"k1", "k2", "k3", "2*k1", "d"});
  std::string q, k;
  if (queryWidth == "d" && chance(0.4)) {
    const std::string shared = map("d", width, positive);
    q = shared + "(" + query + ")", k = shared + "(K)";
  } else {
    q = map(queryWidth, width, positive) + "(" + query + ")";
    k = map("d", width, positive) + "(K)";
  }
  if (chance(0.1))
    q = positive ? "softplus(" + body.param(width, "~ gaussian") + ")" : body.param(width, "~ gaussian");
  if (chance(0.2))
    k = "(" + k + " * (0.5 + sigmoid(mean(V))))";
  std::string v = pick({"V", "V", "V", "K", map("e", pick({"k1", "k2", "e"}), false) + "(V)",
                        k.starts_with("(") ? "V" : k, "(V * sigmoid(sum(K)))", body.param("k2", "~ gaussian")});
  if (chance(0.1)) {
    const std::string form = causal
                                 ? pick({" with causal", " with causal, mask = m", " with causal, scale = 0.4"})
                                 : pick({"", " with mask = relu(sum(K))", " with scale = " + body.param("", "= 0.4")});
    return "softmax_attention(" + q + ", " + k + ", " + v + ")" + form;
  }
  return "linear(" + q + ", " + k + ", " + v + ")" + options(body);
}

RandomProgram Generator::run() {
  RandomProgram program;
  static const std::vector<int64_t> kSizes = {1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 20};
  const auto size = [&] { return kSizes[static_cast<std::size_t>(random.below(static_cast<int64_t>(kSizes.size())))]; };
  program.d = size(), program.e = size();
  program.chunk = std::vector<int64_t>{8, 8, 8, 8, 16, 20, 0}[static_cast<std::size_t>(random.below(7))];
  program.dtype = chance(0.25) ? DType::f32 : DType::f64;
  causal = chance(0.6);
  program.sizes = {1 + random.below(2), 1 + random.below(2), 1 + random.below(75)};
  if (!causal && chance(0.5))
    program.sizes.keyRows = random.below(75);

  Body body(random, "y", {"d"}, false, true);
  body.know("Q", "d");
  std::string result;
  const std::string first = body.let(linear(body, "Q", "d"), "");
  switch (random.below(5)) {
  case 0:
    result = "tanh(0.1 * " + first + ")";
    break;
  case 1:
    result = "[" + first + "; " + body.let(linear(body, "Q", "d"), "") + "]";
    break;
  case 2:
    result = first + " * (1 + sigmoid(sum(Q))) * (r + 1)";
    break;
  case 3: {
    // A linear of a linear: its result, contracted to a known width, asks again.
    const std::string inner = body.let("unit(" + first + ") * sigmoid(sum(Q))", "");
    result = "[" + body.let(linear(body, "(Q + 0.3 * sum(" + inner + "))", "d"), "") + "; " + inner + "]";
    break;
  }
  default:
    result = first;
  }
  std::string dims;
  for (const char *name : {"k1", "k2", "k3"})
    dims += std::string("dim ") + name + " = " + std::to_string(size()) + "\n";
  program.text =
      dims + "\n" + maps + "attention a(Q, r: []; K, V, g: [], m: []) {\n" + body.text + "  return " + result + "\n}\n";
  return program;
}

} // namespace

RandomProgram randomProgram(uint64_t seed) { return Generator(seed).run(); }

} // namespace yaglom::tests
