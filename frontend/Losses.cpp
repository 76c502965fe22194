// Row widths of samplers and the rules of kl.
// SPDX-License-Identifier: Apache-2.0
#include "frontend/Losses.h"

#include <fmt/format.h>

namespace yaglom {

const SamplerKind *kindOfSampler(const std::string &name, const Symbols &symbols) {
  const auto *declared = symbols.find<ast::SamplerDecl>(name);
  return findSamplerKind(declared ? declared->draw.sampler.name : name);
}

RowWidths rowWidths(const AttentionUse &use, const Symbols &symbols, ShapeChecker &shapes, Diagnostics &diagnostics) {
  RowWidths widths;
  for (const OwnerUse &owner : use.owners)
    for (const ast::Binding &b : owner.body->bindings) {
      if (b.kind != ast::BindingKind::Draw || !symbols.find<ast::SamplerDecl>(b.draw->sampler.name))
        continue;
      const ast::Expr &size = *b.shape->sizes.at(1);
      Poly width = shapes.size(size, owner.dims) * Poly(static_cast<int64_t>(b.names.size()));
      if (!width.valid())
        continue;
      auto [place, isNew] = widths.emplace(b.draw->sampler.name, RowWidth{width, size.range});
      const RowWidth &first = place->second;
      if (!isNew && first.width != width)
        diagnostics.error(size.range,
                          fmt::format("'{}' draws rows of {} entries here, of {} before: {} is not {}", place->first,
                                      width.text(), first.width.text(), width.text(), first.width.text()),
                          {}, {{first.where, fmt::format("'{}' is first drawn here", place->first)}});
    }
  return widths;
}

std::vector<const ast::LossDecl *> allLosses(const ast::File &file) {
  std::vector<const ast::LossDecl *> losses;
  for (const ast::Decl &decl : file.decls)
    if (const auto *loss = std::get_if<ast::LossDecl>(&decl))
      losses.push_back(loss);
  return losses;
}

std::vector<LossUse> lossesOf(const std::vector<const ast::LossDecl *> &losses, const Symbols &symbols,
                              const RowWidths &widths, Diagnostics &diagnostics) {
  std::vector<LossUse> result;
  for (const ast::LossDecl *loss : losses) {
    if (symbols.isBad(loss->id.name))
      continue;
    const ast::ExprRef &p = loss->call->args[0], &q = loss->call->args[1];
    auto widthP = widths.find(p->name), widthQ = widths.find(q->name);
    if (widthP == widths.end() && widthQ == widths.end())
      continue;
    if (widthP != widths.end() && widthQ != widths.end() && widthP->second.width != widthQ->second.width)
      diagnostics.error(q->range,
                        fmt::format("'{}' draws rows of {} entries, '{}' of {}", p->name, widthP->second.width.text(),
                                    q->name, widthQ->second.width.text()),
                        {p->range},
                        {{widthP->second.where, fmt::format("'{}' is drawn here", p->name)},
                         {widthQ->second.where, fmt::format("'{}' is drawn here", q->name)}});
    result.push_back({loss, p->name, q->name, (widthP != widths.end() ? widthP : widthQ)->second.width});
  }
  return result;
}

void checkLoss(const ast::LossDecl &loss, Symbols &symbols, ShapeChecker &shapes, Diagnostics &diagnostics) {
  size_t before = diagnostics.errorCount();
  for (const ast::ExprRef &arg : loss.call->args) {
    const SamplerKind *kind = kindOfSampler(arg->name, symbols);
    if (!kind || kind->hasDensity)
      continue;
    bool vowel = std::string_view("aeiou").find(kind->name[0]) != std::string_view::npos;
    diagnostics.error(arg->range, fmt::format("'{}' has no density: kl cannot use {} '{}' sampler", arg->name,
                                              vowel ? "an" : "a", kind->name));
  }
  for (const ast::NamedArg &named : loss.call->named)
    shapes.positiveConstant(*named.value, "samples", true, {});
  if (diagnostics.errorCount() != before)
    symbols.bad.insert(loss.id.name);
}

} // namespace yaglom
