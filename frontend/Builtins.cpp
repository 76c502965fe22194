// Elementary functions with their arity, sign and value, and the functions with rules of their own.
// SPDX-License-Identifier: Apache-2.0
#include "frontend/Builtins.h"

#include <algorithm>
#include <cmath>

namespace yaglom {
namespace {

double sigmoid(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }

constexpr Elementary kElementary[] = {
    {"abs", 1, 1, true, [](double x, double) { return std::abs(x); }},
    {"cos", 1, 1, false, [](double x, double) { return std::cos(x); }},
    {"elu", 1, 1, false, [](double x, double) { return x > 0 ? x : std::expm1(x); }},
    {"erf", 1, 1, false, [](double x, double) { return std::erf(x); }},
    {"exp", 1, 1, true, [](double x, double) { return std::exp(x); }},
    {"exp2", 1, 1, true, [](double x, double) { return std::exp2(x); }},
    {"expm1", 1, 1, false, [](double x, double) { return std::expm1(x); }},
    {"log", 1, 1, false, [](double x, double) { return std::log(x); }},
    {"log1p", 1, 1, false, [](double x, double) { return std::log1p(x); }},
    {"max", 2, 2, false, [](double x, double y) { return x >= y ? x : y; }},
    {"min", 2, 2, false, [](double x, double y) { return x <= y ? x : y; }},
    {"relu", 1, 1, true, [](double x, double) { return x < 0 ? 0 : x; }},
    {"rsqrt", 1, 1, true, [](double x, double) { return 1 / std::sqrt(x); }},
    {"sigmoid", 1, 1, true, [](double x, double) { return sigmoid(x); }},
    {"sign", 1, 1, false, [](double x, double) { return sign(x); }},
    {"sin", 1, 1, false, [](double x, double) { return std::sin(x); }},
    {"softplus", 1, 1, true, [](double x, double) { return softplus(x); }},
    {"sqrt", 1, 1, true, [](double x, double) { return std::sqrt(x); }},
    {"tan", 1, 1, false, [](double x, double) { return std::tan(x); }},
    {"tanh", 1, 1, false, [](double x, double) { return std::tanh(x); }},
};

constexpr Special kSpecial[] = {
    {"component", Function::Component, 2, true},
    {"kl", Function::Kl, 2, false},
    {"linear", Function::Linear, 3, false},
    {"max", Function::Max, 1, false},
    {"mean", Function::Mean, 1, false},
    {"orthogonalize", Function::Orthogonalize, 1, true},
    {"outer", Function::Outer, 2, false},
    {"slice", Function::Slice, 3, true},
    {"softmax_attention", Function::SoftmaxAttention, 3, false},
    {"split", Function::Split, 1, false},
    {"sum", Function::Sum, 1, false},
};

} // namespace

std::span<const Elementary> elementaryFunctions() { return kElementary; }
std::span<const Special> specialFunctions() { return kSpecial; }

const Elementary *findElementary(std::string_view name) {
  const auto *found =
      std::find_if(std::begin(kElementary), std::end(kElementary), [&](auto &f) { return f.name == name; });
  return found == std::end(kElementary) ? nullptr : found;
}

const Special *findSpecial(std::string_view name) {
  const auto *found = std::find_if(std::begin(kSpecial), std::end(kSpecial), [&](auto &f) { return f.name == name; });
  return found == std::end(kSpecial) ? nullptr : found;
}

bool takesVector(std::string_view preludeFunction) { return preludeFunction == "softmax" || preludeFunction == "unit"; }

} // namespace yaglom
