// The check of a whole spec, in order: names, calls, maps, attentions, losses.
// SPDX-License-Identifier: Apache-2.0
#include "frontend/Check.h"
#include "frontend/Losses.h"
#include "frontend/Names.h"

#include <fmt/format.h>

#include <algorithm>

namespace yaglom {
namespace {

class SpecChecker {
public:
  SpecChecker(const ast::File &file, const BrokenNames &broken, Dialect dialect, Diagnostics &diagnostics)
      : file(file), broken(broken), dialect(dialect), diagnostics(diagnostics), symbols(file),
        shapes(symbols, dialect, diagnostics) {}

  void run() {
    for (const ast::Mistake &mistake : file.mistakes)
      diagnostics.error(mistake.range, mistake.message);
    checkNames(file, broken, dialect, symbols, diagnostics);
    // Bodies that call themselves or explode are bad from here on and not followed.
    if (!checkCalls(file, symbols, diagnostics))
      return;
    each<ast::SamplerDecl>([&](const ast::SamplerDecl &sampler) {
      if (const SamplerKind *kind = findSamplerKind(sampler.draw.sampler.name))
        shapes.options(*kind, sampler.draw, {});
    });
    each<ast::MapDecl>([&](const ast::MapDecl &map) { shapes.checkMap(map); });
    each<ast::LossDecl>([&](const ast::LossDecl &loss) { checkLoss(loss, symbols, shapes, diagnostics); });
    std::vector<const ast::LossDecl *> losses = allLosses(file);
    each<ast::AttentionDecl>([&](const ast::AttentionDecl &attention) {
      RowWidths widths = rowWidths(shapes.checkAttention(attention), symbols, shapes, diagnostics);
      for (const LossUse &loss : lossesOf(losses, symbols, widths, diagnostics))
        lossesWithWidth.insert(loss.decl);
    });
    each<ast::LossDecl>([&](const ast::LossDecl &loss) { fixed(loss); });
  }

private:
  /// Visits the sound declarations of one type; one that turns out wrong is bad for what follows.
  template <typename T, typename Visit>
  void each(Visit visit) {
    for (const ast::Decl &decl : file.decls) {
      const T *d = std::get_if<T>(&decl);
      if (!d || symbols.isBad(d->id.name))
        continue;
      size_t before = diagnostics.errorCount();
      visit(*d);
      if (diagnostics.errorCount() != before)
        symbols.bad.insert(d->id.name);
    }
  }

  void fixed(const ast::LossDecl &loss) {
    if (lossesWithWidth.contains(&loss))
      return;
    // An attention or sampler with a mistake might have drawn it.
    if (broken.unnamed || !broken.names.empty() || !symbols.bad.empty())
      return;
    const ast::Expr &p = *loss.call->args[0];
    diagnostics.error(p.range, fmt::format("nothing fixes the width of '{}': no attention draws '{}' or '{}'", p.name,
                                           p.name, loss.call->args[1]->name));
  }

  const ast::File &file;
  const BrokenNames &broken;
  Dialect dialect;
  Diagnostics &diagnostics;
  Symbols symbols;
  ShapeChecker shapes;
  std::set<const ast::LossDecl *> lossesWithWidth;
};

} // namespace

void check(const ast::File &file, const BrokenNames &broken, Dialect dialect, Diagnostics &diagnostics) {
  SpecChecker(file, broken, dialect, diagnostics).run();
}

} // namespace yaglom
