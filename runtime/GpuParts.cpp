// Parts of a sequence: one launch leaves the states between them, a second one computes their rows side by side.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/GpuParts.h"

#include "runtime/GpuLaunch.h"

#include <algorithm>

namespace yaglom::runtime {
namespace {

using compiler::Keeps;
using compiler::Parts;

int64_t divideUp(int64_t x, int64_t y) { return (x + y - 1) / y; }

/// The launches of one call. A state is the same bits wherever it is computed, so the outputs do not depend on the parts, whose
/// number depends on the items.
class PartLaunch {
public:
  PartLaunch(const compiler::Program &program, const Grid &grid, std::span<const Operand> operands, DType dtype,
             GpuSession &session)
      : program(program), grid(grid), operands(operands), session(session), items(grid.batch * grid.heads),
        stateBytes(program.stateElements * static_cast<int64_t>(sizeOf(parameterType(dtype)))) {}

  void forward() {
    if (session.prepares())
      prepareParts();
    const int64_t parts = partsWanted();
    if (parts < 2)
      return run(program.forward, all());
    const int64_t partRows = divideUp(divideUp(grid.queryRows, program.chunk), parts) * program.chunk;
    if (program.parts == Parts::Independent)
      return run(program.forward, inParts(partRows));
    if (program.parts == Parts::Whole)
      return fromWhole(partRows, session.lend(static_cast<std::size_t>(items * stateBytes)), stateBytes);
    StateWords rows = inParts(partRows);
    rows.itemBytes = rows.parts * stateBytes;
    rows.stateIn = session.lend(static_cast<std::size_t>(items * rows.itemBytes));
    rows.partStates = 1;
    runAhead(rows.stateIn, rows.itemBytes, partRows, rows.parts);
    run(program.forward, rows);
  }

  void keeping(const KeptStates &kept) {
    if (session.prepares())
      prepareParts();
    const int64_t parts = partsWanted();
    if (kept.keeps == Keeps::Last && parts >= 2)
      return fromWhole(divideUp(divideUp(grid.queryRows, program.chunk), parts) * program.chunk, kept.data,
                       kept.itemBytes);
    StateWords rows = all();
    rows.itemBytes = kept.itemBytes;
    if (kept.keeps == Keeps::Last) {
      rows.stateOut = kept.data;
      return run(program.forward, rows);
    }
    if (parts < 2) {
      setKeep(rows, kept.data, kept.segmentRows, kept.states);
      return run(program.forward, rows);
    }
    runAhead(kept.data, kept.itemBytes, kept.segmentRows, kept.states);
    // A part is whole segments, so the state before it is among those that are kept.
    const int64_t segments = divideUp(kept.states, parts);
    rows = inParts(segments * kept.segmentRows);
    rows.itemBytes = kept.itemBytes;
    rows.stateIn = kept.data;
    rows.partStates = segments;
    run(program.forward, rows);
  }

private:
  /// A part of fewer rows is not worth a second launch.
  static constexpr int64_t kLeastRows = 512;

  int64_t most() const { return program.parts == Parts::None ? 1 : grid.queryRows / kLeastRows; }
  int64_t partsWanted() const { return std::min(most(), session.multiprocessors() / std::max<int64_t>(items, 1)); }

  StateWords all() const { return {.queryRows = grid.queryRows, .keyRows = grid.keyRows, .stateBytes = stateBytes}; }
  StateWords inParts(int64_t partRows) const {
    StateWords rows = all();
    rows.parts = divideUp(grid.queryRows, partRows);
    rows.partRows = partRows;
    return rows;
  }
  static void setKeep(StateWords &rows, char *states, int64_t keepRows, int64_t count) {
    rows.keep = states;
    rows.keepRows = keepRows;
    rows.keepCount = count;
  }

  void run(const compiler::Entry &entry, const StateWords &rows) { launchGpu(entry, grid, operands, rows, session); }

  /// Leaves `count` states of each item, the first before row 0, the next `apart` rows further on.
  void runAhead(char *states, int64_t itemBytes, int64_t apart, int64_t count) {
    StateWords rows = all();
    rows.queryRows = rows.keyRows = (count - 1) * apart;
    rows.itemBytes = itemBytes;
    setKeep(rows, states, apart, count - 1);
    rows.stateOut = states + (count - 1) * stateBytes; // after the last row
    run(program.advance, rows);
  }

  /// Parts of which each needs the state of all keys.
  void fromWhole(int64_t partRows, char *state, int64_t itemBytes) {
    StateWords keys = all(), rows = inParts(partRows);
    keys.queryRows = grid.keyRows;
    keys.itemBytes = rows.itemBytes = itemBytes;
    keys.stateOut = rows.stateIn = state;
    run(program.advance, keys);
    run(program.forward, rows);
  }

  /// A launch of fewer items may have parts where this one has none: what any of them takes is counted. Together their parts are
  /// no more than the multiprocessors.
  void prepareParts() {
    const int64_t blocks = session.multiprocessors();
    if (most() < 2)
      return;
    const bool hasStates = program.parts != Parts::Independent;
    session.lend(static_cast<std::size_t>(hasStates ? blocks * stateBytes : 0));
    StateWords rows = all();
    rows.parts = blocks;
    const Grid one{.queryRows = grid.queryRows, .keyRows = grid.keyRows};
    launchGpu(program.forward, one, operands, rows, session);
    if (!hasStates)
      return;
    rows.parts = 1;
    launchGpu(program.advance, {blocks, 1, grid.queryRows, grid.keyRows}, operands, rows, session);
  }

  const compiler::Program &program;
  const Grid &grid;
  const std::span<const Operand> operands;
  GpuSession &session;
  const int64_t items, stateBytes;
};

} // namespace

void launchGpuForward(const compiler::Program &program, const Grid &grid, std::span<const Operand> operands,
                      DType dtype, GpuSession &session) {
  PartLaunch(program, grid, operands, dtype, session).forward();
}

void launchGpuKeeping(const compiler::Program &program, const Grid &grid, std::span<const Operand> operands,
                      DType dtype, GpuSession &session, const KeptStates &kept) {
  PartLaunch(program, grid, operands, dtype, session).keeping(kept);
}

} // namespace yaglom::runtime
