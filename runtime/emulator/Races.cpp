// Which accesses of a block's threads to the same bytes no barrier orders.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/Races.h"

#include <algorithm>
#include <bit>

namespace yaglom::emulator {
namespace {

constexpr uint32_t kAtomic = 1u << 30;
constexpr uint32_t kPresent = 1u << 31;
constexpr uint32_t kSplit = 0xfffffffeu; ///< a word's writeClock when its bytes are followed; no clock reaches it

uint32_t pack(const Accessor &by) {
  return (by.op & 0xfffffu) | uint32_t{by.lane} << 20 | uint32_t{by.warp} << 25 | (by.atomic ? kAtomic : 0) | kPresent;
}
uint32_t opOf(uint32_t info) { return info & 0xfffffu; }
uint8_t laneOf(uint32_t info) { return info >> 20 & 31; }
uint8_t warpOf(uint32_t info) { return info >> 25 & 31; }

} // namespace

void WarpSyncs::add(uint32_t serial, uint32_t mask, uint32_t alive) {
  if ((mask & alive) == alive) {
    lastFull = serial;
    partial.clear();
  } else {
    partial.push_back({serial, mask});
  }
}

bool WarpSyncs::ordered(unsigned a, unsigned b, uint32_t serial) const {
  if (lastFull > serial)
    return true;
  const uint32_t both = 1u << a | 1u << b;
  for (auto sync = partial.rbegin(); sync != partial.rend() && sync->serial > serial; ++sync)
    if ((sync->mask & both) == both)
      return true;
  return false;
}

Conflict RaceTable::access(const Accessor &by, std::size_t offset, unsigned count) {
  Conflict first;
  for (std::size_t at = offset, end = offset + count; at < end;) {
    const std::size_t word = at / 4;
    Cell &cell = words[word];
    const bool whole = at % 4 == 0 && end - at >= 4;
    if (whole && cell.writeClock != kSplit) {
      accessCell(by, cell, word, first);
      at += 4;
      continue;
    }
    if (cell.writeClock != kSplit) {
      const Cell copy = cell;
      cell = Cell();
      cell.writeClock = kSplit;
      cell.writeSerial = static_cast<uint32_t>(bytes.size());
      bytes.push_back({copy, copy, copy, copy});
      if (exactReaders && !readClocks.empty())
        for (unsigned part = 0; part < 4; ++part)
          for (unsigned warp = 0; warp < by.clocks->warps; ++warp) {
            const Accessor other{.clocks = by.clocks, .warp = static_cast<uint8_t>(warp)};
            const uint32_t clock = readClockOf(word, other);
            readClockOf(words.size() + 4 * (bytes.size() - 1) + part, other) = clock;
          }
    }
    const uint32_t index = cell.writeSerial;
    for (const std::size_t stop = std::min(end, (word + 1) * 4); at < stop; ++at)
      accessCell(by, bytes[index][at % 4], words.size() + 4 * std::size_t{index} + at % 4, first);
  }
  return first;
}

bool RaceTable::conflictsWithWrite(const Accessor &by, const Cell &cell) const {
  const uint32_t info = cell.writeInfo;
  if (!(info & kPresent) || (by.atomic && (info & kAtomic)))
    return false;
  if (by.clocks->ordered(warpOf(info), cell.writeClock, by.warp))
    return false;
  if (warpOf(info) != by.warp)
    return true;
  if (laneOf(info) == by.lane || by.syncs->ordered(laneOf(info), by.lane, cell.writeSerial))
    return false;
  // Two lanes of one instruction may write the same value.
  return !(by.write && by.sameValue && cell.writeSerial == by.serial);
}

void RaceTable::conflictWithReads(const Accessor &by, const Cell &cell, std::size_t id, Conflict &conflict) const {
  // With barriers of all threads only, all readers have the clock of the last one.
  if (!exactReaders && by.clocks->ordered(std::countr_zero(cell.readWarps), cell.readClock, by.warp))
    return;
  const uint32_t op = opOf(cell.readInfo);
  const uint8_t lastWarp = warpOf(cell.readInfo);
  for (uint32_t rest = cell.readWarps; rest; rest &= rest - 1) {
    const auto warp = static_cast<uint8_t>(std::countr_zero(rest));
    const uint32_t clock = exactReaders ? readClocks[id * by.clocks->warps + warp] : cell.readClock;
    if (by.clocks->ordered(warp, clock, by.warp))
      continue;
    if (warp != by.warp) {
      conflict = {true, false, op, warp, warp == lastWarp ? laneOf(cell.readInfo) : uint8_t{0}};
      return;
    }
    if (cell.readWarps != 1u << warp || by.syncs->lastFull > cell.readSerial || cell.readSerial == by.serial)
      continue;
    for (uint32_t lanes = cell.readLanes & ~(1u << by.lane); lanes; lanes &= lanes - 1) {
      const auto lane = static_cast<uint8_t>(std::countr_zero(lanes));
      if (by.syncs->ordered(lane, by.lane, cell.readSerial))
        continue;
      conflict = {true, false, op, warp, lane};
      return;
    }
  }
}

uint32_t &RaceTable::readClockOf(std::size_t id, const Accessor &by) {
  const std::size_t at = id * by.clocks->warps + by.warp;
  if (at >= readClocks.size())
    readClocks.resize((words.size() + 4 * bytes.size() + 4) * by.clocks->warps);
  return readClocks[at];
}

void RaceTable::recordRead(const Accessor &by, Cell &cell, std::size_t id) {
  const uint32_t clock = by.clocks->own[by.warp];
  const uint32_t me = 1u << by.warp;
  if (exactReaders) {
    if (!(cell.readWarps & me) || readClockOf(id, by) != clock)
      cell.readLanes = 0; // earlier reads of this warp lie before a barrier
    readClockOf(id, by) = clock;
  } else if (cell.readClock != clock) {
    cell.readWarps = cell.readLanes = 0;
  }
  if (cell.readWarps & ~me)
    cell.readLanes = 0;
  if (cell.readLanes == 0 || by.syncs->lastFull > cell.readSerial) {
    cell.readLanes = 0;
    cell.readSerial = by.serial;
  }
  cell.readClock = clock;
  cell.readWarps |= me;
  cell.readLanes |= 1u << by.lane;
  cell.readInfo = pack(by);
}

/// Keeps the first conflict.
void RaceTable::accessCell(const Accessor &by, Cell &cell, std::size_t id, Conflict &conflict) {
  if (conflictsWithWrite(by, cell) && !conflict.found)
    conflict = {true, true, opOf(cell.writeInfo), warpOf(cell.writeInfo), laneOf(cell.writeInfo)};
  if (!by.write)
    return recordRead(by, cell, id);
  if (cell.readWarps && !conflict.found)
    conflictWithReads(by, cell, id, conflict);
  cell.writeClock = by.clocks->own[by.warp];
  cell.writeSerial = by.serial;
  cell.writeInfo = pack(by);
  cell.readWarps = cell.readLanes = 0;
}

const RaceTable::Cell &RaceTable::cellAt(std::size_t offset) const {
  const Cell &cell = words[offset / 4];
  return cell.writeClock == kSplit ? bytes[cell.writeSerial][offset % 4] : cell;
}

RaceTable::Who RaceTable::writer(std::size_t offset) const {
  const uint32_t info = cellAt(offset).writeInfo;
  return {opOf(info), (info & kPresent) != 0};
}

RaceTable::Who RaceTable::reader(std::size_t offset) const {
  const uint32_t info = cellAt(offset).readInfo;
  return {opOf(info), (info & kPresent) != 0};
}

} // namespace yaglom::emulator
