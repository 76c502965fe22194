// Options after `with`: which exist, which need or exclude another (language.md section 4).
// SPDX-License-Identifier: Apache-2.0
#include "frontend/Names.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace yaglom {
namespace {

enum class Takes { Nothing, Value, Arguments };

struct OptionRule {
  std::string_view name;
  Takes takes;
  bool linear;
  bool softmax;
  std::string_view example;
};

constexpr OptionRule kRules[] = {
    {"causal", Takes::Nothing, true, true, "causal"},
    {"decay", Takes::Value, true, false, "decay = g"},
    {"log_decay", Takes::Value, true, false, "log_decay = a"},
    {"mask", Takes::Value, true, true, "mask = m"},
    {"normalize", Takes::Arguments, true, false, "normalize(eps = c)"},
    {"scale", Takes::Value, false, true, "scale = s"},
};

class OptionChecker {
public:
  OptionChecker(const ast::Expr &call, Diagnostics &diagnostics) : call(call), diagnostics(diagnostics) {}

  void run() {
    std::set<std::string_view> seen;
    for (const ast::Option &option : call.options) {
      if (!seen.insert(option.name).second)
        diagnostics.error(option.range, fmt::format("'{}' is given twice", option.name));
      else if (const OptionRule *rule = find(option))
        form(option, *rule);
    }
    for (const ast::Option &option : call.options) {
      bool isDecay = option.name == "decay" || option.name == "log_decay";
      if (isDecay && call.name == "linear" && !seen.contains("causal"))
        diagnostics.error(
            option.range,
            fmt::format("'{}' needs 'causal': it weighs key j by the distance to a later query i", option.name));
    }
    conflict();
  }

private:
  const OptionRule *find(const ast::Option &option) {
    bool linear = call.name == "linear";
    std::vector<std::string_view> candidates;
    for (const OptionRule &rule : kRules) {
      bool fits = linear ? rule.linear : rule.softmax;
      if (rule.name == option.name && fits)
        return &rule;
      if (fits)
        candidates.push_back(rule.name);
      if (rule.name == option.name) {
        diagnostics.error(option.range, fmt::format("'{}' has no option '{}'", call.name, option.name));
        return nullptr;
      }
    }
    diagnostics.error(option.range,
                      fmt::format("unknown option '{}'{}", option.name, didYouMean(option.name, candidates)));
    return nullptr;
  }

  void form(const ast::Option &option, const OptionRule &rule) {
    if (rule.takes == Takes::Nothing && (option.value || option.hasParentheses))
      diagnostics.error(option.range, fmt::format("'{}' takes no value", option.name));
    if (rule.takes == Takes::Value && !option.value)
      diagnostics.error(option.range, fmt::format("'{}' needs a value; write {}", option.name, rule.example));
    if (rule.takes != Takes::Arguments)
      return;
    if (option.value)
      diagnostics.error(option.range,
                        "write normalize, normalize(eps = c), normalize(clamp = c) or normalize(signed = c)");
    for (size_t i = 0; i < option.args.size(); ++i) {
      const ast::NamedArg &arg = option.args[i];
      if (arg.name != "eps" && arg.name != "clamp" && arg.name != "signed")
        diagnostics.error(arg.range, fmt::format("unknown form '{}' of normalize{}", arg.name,
                                                 didYouMean(arg.name, {"eps", "clamp", "signed"})));
      else if (i == 1)
        diagnostics.error(arg.range, "normalize takes one of eps, clamp and signed");
    }
  }

  /// decay and log_decay are one thing said twice; the second one is wrong.
  void conflict() {
    auto isDecay = [](const ast::Option &o) { return o.name == "decay" || o.name == "log_decay"; };
    auto first = std::find_if(call.options.begin(), call.options.end(), isDecay);
    if (first == call.options.end())
      return;
    for (auto it = first + 1; it != call.options.end(); ++it)
      if (isDecay(*it) && it->name != first->name)
        diagnostics.error(it->range, fmt::format("'{}' excludes '{}'", it->name, first->name));
  }

  const ast::Expr &call;
  Diagnostics &diagnostics;
};

} // namespace

void checkOptions(const ast::Expr &call, Diagnostics &diagnostics) {
  if (!call.options.empty())
    OptionChecker(call, diagnostics).run();
}

} // namespace yaglom
