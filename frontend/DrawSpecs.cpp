// Samplers as they are named in a spec: kinds, options, and what may be drawn where (T10).
// SPDX-License-Identifier: Apache-2.0
#include "frontend/Names.h"
#include "frontend/Samplers.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace yaglom {
namespace {

class DrawSpecChecker {
public:
  DrawSpecChecker(const ast::DrawSpec &spec, DrawPlace place, const ast::Binding *binding, const Symbols &symbols,
                  const BrokenNames &broken, Diagnostics &diagnostics)
      : spec(spec), place(place), binding(binding), symbols(symbols), broken(broken), diagnostics(diagnostics) {}

  void run() {
    const std::string &name = spec.sampler.name;
    declared = place == DrawPlace::Declaration ? nullptr : symbols.find<ast::SamplerDecl>(name);
    const SamplerKind *kind = findSamplerKind(declared ? declared->draw.sampler.name : name);
    if (!kind)
      return unknown();
    if (declared && !spec.options.empty())
      return report(fmt::format("'{}' has its options in its declaration", name));
    if (!declared)
      options(*kind);
    if (place != DrawPlace::Declaration)
      use(*kind);
  }

private:
  void report(std::string message) {
    std::vector<Note> notes;
    if (declared)
      notes.push_back({declared->id.range, fmt::format("'{}' is declared here", declared->id.name)});
    diagnostics.error(spec.sampler.range, std::move(message), {}, std::move(notes));
  }

  void unknown() {
    const std::string &name = spec.sampler.name;
    if (broken.covers(name) || (declared && symbols.isBad(name)))
      return;
    if (const ast::Decl *decl = symbols.find(name); decl && !declared) {
      std::string_view rest = std::holds_alternative<ast::SamplerDecl>(*decl)
                                  ? "a declared sampler; name a kind, such as gaussian"
                                  : "not a sampler";
      return report(fmt::format("'{}' is {}", name, rest));
    }
    std::vector<std::string_view> candidates;
    for (const SamplerKind *kind : samplerKinds())
      candidates.push_back(kind->name);
    if (!declared)
      report(fmt::format("unknown sampler '{}'{}", name, didYouMean(name, candidates)));
  }

  void options(const SamplerKind &kind) {
    std::set<std::string_view> given;
    for (const ast::NamedArg &option : spec.options) {
      std::vector<std::string_view> candidates;
      for (const SamplerOption &known : kind.options)
        candidates.push_back(known.name);
      if (std::find(candidates.begin(), candidates.end(), option.name) == candidates.end())
        diagnostics.error(option.range, fmt::format("'{}' has no option '{}'{}", kind.name, option.name,
                                                    didYouMean(option.name, candidates)));
      else if (!given.insert(option.name).second)
        diagnostics.error(option.range, fmt::format("'{}' is given twice", option.name));
    }
    for (const SamplerOption &known : kind.options)
      if (!known.fallback && !given.contains(known.name))
        report(fmt::format("'{}' needs {} = ...", kind.name, known.name));
  }

  void use(const SamplerKind &kind) {
    const std::string &name = spec.sampler.name;
    size_t axes = binding->shape->sizes.size();
    if (kind.hasParameters && !declared)
      return report(fmt::format("'{0}' has parameters and must be declared: sampler s = {0}(...)", name));
    if (place == DrawPlace::Param) {
      if (kind.hasParameters)
        return report(fmt::format("a param cannot start from '{}', which has parameters itself; use draw", name));
      if (kind.name != "gaussian" && axes != 2)
        return report(fmt::format("'{}' fills a matrix [rows, width] only", name));
      return;
    }
    if (axes != 2)
      diagnostics.error(binding->shape->range,
                        fmt::format("a draw has rows and a width, found {} {}", axes, axes == 1 ? "axis" : "axes"));
    bool pair = binding->names.size() == 2;
    if (pair && kind.pairs == Pairs::Never)
      report(fmt::format("'{}' cannot draw pairs", name));
    if (!pair && kind.pairs == Pairs::Only)
      report(fmt::format("'{}' draws pairs; write draw (A, B): ...", name));
    if (binding->shared && kind.hasParameters && !declared->shared)
      report(fmt::format("a shared draw needs a shared sampler: '{}' has parameters per head", name));
  }

  const ast::DrawSpec &spec;
  DrawPlace place;
  const ast::Binding *binding;
  const Symbols &symbols;
  const BrokenNames &broken;
  Diagnostics &diagnostics;
  const ast::SamplerDecl *declared = nullptr;
};

} // namespace

void checkDrawSpec(const ast::DrawSpec &spec, DrawPlace place, const ast::Binding *binding, const Symbols &symbols,
                   const BrokenNames &broken, Diagnostics &diagnostics) {
  DrawSpecChecker(spec, place, binding, symbols, broken, diagnostics).run();
}

} // namespace yaglom
