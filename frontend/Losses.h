// How wide the rows of samplers are in one attention, and the losses that belong to it (T10, section 5).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frontend/Shapes.h"

namespace yaglom {

/// The width D of a declared sampler's rows, and the size in a spec that fixes it.
struct RowWidth {
  Poly width;
  ast::Range where;
};
using RowWidths = std::map<std::string, RowWidth>;

/// What the draws of one attention fix. Reports draws of one sampler that disagree.
RowWidths rowWidths(const AttentionUse &use, const Symbols &symbols, ShapeChecker &shapes, Diagnostics &diagnostics);

/// A loss of one attention: it draws `p` or `q`, or both, and so fixes the width of their rows.
struct LossUse {
  const ast::LossDecl *decl = nullptr;
  std::string p, q;
  Poly width;
};

/// Of `losses`, those that draw what has a width in `widths`. Reports two samplers of one loss that disagree.
std::vector<LossUse> lossesOf(const std::vector<const ast::LossDecl *> &losses, const Symbols &symbols,
                              const RowWidths &widths, Diagnostics &diagnostics);

/// Every loss of the file.
std::vector<const ast::LossDecl *> allLosses(const ast::File &file);

/// The rules of a loss that need no attention: densities, the number of samples.
void checkLoss(const ast::LossDecl &loss, Symbols &symbols, ShapeChecker &shapes, Diagnostics &diagnostics);

/// The kind of a sampler by the name it is drawn by, declared or not; null for an unknown one.
const SamplerKind *kindOfSampler(const std::string &name, const Symbols &symbols);

} // namespace yaglom
