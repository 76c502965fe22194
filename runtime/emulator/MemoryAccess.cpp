// Loads and stores of one lane: bounds, alignment, permission, validity and races.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/Block.h"
#include "runtime/emulator/Transactions.h"

#include <fmt/format.h>

#include <algorithm>

namespace yaglom::emulator {

using syntax::Space;

namespace {

/// memcpy and memcmp with the usual sizes as constants: a call costs more than the copy.
void copyBytes(void *to, const void *from, unsigned bytes) {
  switch (bytes) {
  case 4:
    std::memcpy(to, from, 4);
    break;
  case 8:
    std::memcpy(to, from, 8);
    break;
  case 16:
    std::memcpy(to, from, 16);
    break;
  default:
    std::memcpy(to, from, bytes);
  }
}
bool equalBytes(const void *a, const void *b, unsigned bytes) {
  switch (bytes) {
  case 4:
    return std::memcmp(a, b, 4) == 0;
  case 16:
    return std::memcmp(a, b, 16) == 0;
  default:
    return std::memcmp(a, b, bytes) == 0;
  }
}

} // namespace

std::string_view toText(Space space) {
  switch (space) {
  case Space::Generic:
    return "generic";
  case Space::Param:
    return "param";
  case Space::Const:
    return "const";
  case Space::Global:
    return "global";
  case Space::Shared:
    return "shared";
  case Space::Local:
    return "local";
  }
  return "";
}

void Block::misplaced(Warp &warp, const Op &op, unsigned lane, uint64_t address, unsigned bytes,
                      const std::string &buffer, int64_t offset, uint64_t size) {
  RawFinding &finding = report(FindingKind::OutOfBounds, op, threadOf(warp, lane),
                               fmt::format("{} bytes at byte {} of '{}', which has {}", bytes, offset, buffer, size));
  if (finding.count > 1)
    return;
  finding.buffer = buffer;
  finding.offset = offset;
  finding.address = address;
}

/// Regions lie kGap apart: the address alone says which is meant, also a little in front of it.
Place Block::locateGlobal(Warp &warp, const Op &op, unsigned lane, uint64_t address, unsigned bytes, bool write) {
  const uint64_t index = (address - kGlobalBase + kGap / 2) / kGap;
  if (address < kGlobalBase - kGap / 2 || index >= launch.regions.size()) {
    RawFinding &finding = report(FindingKind::OutOfBounds, op, threadOf(warp, lane),
                                 fmt::format("{} bytes at address 0x{:x}, which lies in no buffer", bytes, address));
    if (finding.count == 1)
      finding.address = address;
    return {};
  }
  const Region &region = launch.regions[index];
  const auto offset = static_cast<int64_t>(address - baseOfGlobal(index));
  if (offset < 0 || static_cast<uint64_t>(offset) + bytes > region.bytes) {
    misplaced(warp, op, lane, address, bytes, region.name, offset, region.bytes);
    return {};
  }
  if (write && !region.writable) {
    RawFinding &finding = report(FindingKind::ReadOnly, op, threadOf(warp, lane),
                                 fmt::format("{} bytes at byte {} of '{}'", bytes, offset, region.name));
    if (finding.count == 1)
      finding.buffer = region.name, finding.offset = offset, finding.address = address;
    return {};
  }
  return {region.data + offset, Space::Global, static_cast<uint32_t>(index), static_cast<uint64_t>(offset)};
}

Place Block::locate(Warp &warp, const Op &op, unsigned lane, Space space, uint64_t address, unsigned bytes,
                    bool write) {
  if (address & (bytes - 1)) { // sizes are powers of 2
    RawFinding &finding = report(FindingKind::Misaligned, op, threadOf(warp, lane),
                                 fmt::format("{} address 0x{:x} is no multiple of {}", toText(space), address, bytes));
    if (finding.count == 1)
      finding.address = address;
    return {};
  }
  uint64_t at = address;
  if (space == Space::Generic)
    space = spaceOfGeneric(address, at);
  switch (space) {
  case Space::Shared:
    if (at > shared.data.size() || bytes > shared.data.size() - at) {
      misplaced(warp, op, lane, address, bytes, "shared", static_cast<int64_t>(at), shared.data.size());
      return {};
    }
    return {shared.data.data() + at, space, 0, at};
  case Space::Local: {
    if (at > local.bytes || bytes > local.bytes - at) {
      misplaced(warp, op, lane, address, bytes, "local", static_cast<int64_t>(at), local.bytes);
      return {};
    }
    const uint64_t offset = threadOf(warp, lane) * local.bytes + at;
    return {local.data.data() + offset, space, 0, offset};
  }
  case Space::Param:
    if (write || at > launch.parameters.size() || bytes > launch.parameters.size() - at) {
      misplaced(warp, op, lane, address, bytes, "param", static_cast<int64_t>(at), launch.parameters.size());
      return {};
    }
    return {const_cast<std::byte *>(launch.parameters.data()) + at, space, 0, at};
  default:
    return locateGlobal(warp, op, lane, address, bytes, write);
  }
}

Page &Block::pageOf(uint32_t region, uint64_t page) {
  const uint64_t key = uint64_t{region} << 40 | page;
  CachedPage &cached = cachedPages[(page + region * 11u) % cachedPages.size()];
  if (cached.key != key) {
    std::unique_ptr<Page> &made = result.footprint[key];
    if (!made)
      made = std::make_unique<Page>(launch.regions[region].writable, program.partialBarriers);
    cached = {key, made.get()};
  }
  return *cached.page;
}

uint64_t Block::validBytes(const Place &place, unsigned bytes) {
  switch (place.space) {
  case Space::Shared:
    return shared.valid.get(place.offset, bytes);
  case Space::Local:
    return local.valid.get(place.offset, bytes);
  case Space::Global:
    if (const Region &region = launch.regions[place.region]; !region.initialised) {
      Page &page = pageOf(place.region, place.offset / kPageBytes);
      const std::size_t at = place.offset % kPageBytes;
      uint64_t valid = page.written.get(at, bytes);
      if (launch.written && (*launch.written)[place.region])
        valid |= (*launch.written)[place.region]->get(place.offset, bytes);
      return valid & ~page.poisoned.get(at, bytes);
    }
    return ByteSet::maskOf(bytes);
  default:
    return ByteSet::maskOf(bytes);
  }
}

void Block::setValidBytes(const Place &place, unsigned bytes, uint64_t valid) {
  if (place.space == Space::Shared)
    shared.valid.put(place.offset, bytes, valid);
  else if (place.space == Space::Local)
    local.valid.put(place.offset, bytes, valid);
  else if (place.space == Space::Global && !launch.regions[place.region].initialised)
    pageOf(place.region, place.offset / kPageBytes)
        .poisoned.put(place.offset % kPageBytes, bytes, ~valid & ByteSet::maskOf(bytes));
}

void Block::reportRace(Warp &warp, const Op &op, unsigned lane, const Place &place, const Conflict &conflict,
                       bool write) {
  const bool global = place.space == Space::Global;
  const std::string &buffer = global ? launch.regions[place.region].name : "shared";
  RawFinding &finding =
      report(global ? FindingKind::GlobalRace : FindingKind::SharedRace, op, threadOf(warp, lane), "");
  if (finding.count > 1)
    return;
  finding.detail =
      fmt::format("{} byte {} of '{}', which {} {} at line {}: no barrier between", write ? "writes" : "reads",
                  place.offset, buffer, threadText(conflict.warp * kLanes + conflict.lane),
                  conflict.write ? "wrote" : "read", program.info[conflict.op].line);
  finding.buffer = buffer;
  finding.offset = static_cast<int64_t>(place.offset);
}

void Block::touchGlobal(const Accessor &by, const Op &op, const Place &place, unsigned bytes, Warp &warp) {
  RegionTraffic &traffic = result.traffic[place.region];
  (by.write ? traffic.bytesWritten : traffic.bytesRead) += bytes;
  if (by.atomic)
    traffic.bytesRead += bytes;
  const bool tracked = launch.options.checks || !launch.regions[place.region].initialised;
  if (!tracked)
    return;
  Page &page = pageOf(place.region, place.offset / kPageBytes);
  const std::size_t at = place.offset % kPageBytes;
  const uint64_t all = ByteSet::maskOf(bytes);
  if (by.atomic) {
    const uint64_t untouched = ~(page.read.get(at, bytes) | page.written.get(at, bytes)) & all;
    page.atomics.put(at, bytes, page.atomics.get(at, bytes) | untouched);
    page.read.put(at, bytes, all);
  } else if (page.atomics.get(at, bytes)) {
    page.atomics.put(at, bytes, 0);
  }
  (by.write ? page.written : page.read).put(at, bytes, all);
  if (!launch.options.checks || !launch.regions[place.region].writable)
    return;
  if (const Conflict conflict = page.table.access(by, at, bytes); conflict.found)
    reportRace(warp, op, by.lane, place, conflict, by.write);
}

void Block::touch(Warp &warp, const Op &op, unsigned lane, const Place &place, unsigned bytes, bool write, bool atomic,
                  bool sameValue) {
  Accessor by;
  by.clocks = &clocks;
  by.syncs = &warp.syncs;
  by.op = op.index;
  by.serial = warp.serial;
  by.warp = static_cast<uint8_t>(warp.number);
  by.lane = static_cast<uint8_t>(lane);
  by.write = write;
  by.atomic = atomic;
  by.sameValue = sameValue;
  if (place.space == Space::Global)
    return touchGlobal(by, op, place, bytes, warp);
  if (place.space != Space::Shared || !launch.options.checks)
    return;
  if (const Conflict conflict = shared.table.access(by, place.offset, bytes); conflict.found)
    reportRace(warp, op, lane, place, conflict, write);
}

uint64_t Block::load(Warp &warp, const Op &op, unsigned lane, Space space, uint64_t address, unsigned bytes,
                     void *into) {
  const Place place = locate(warp, op, lane, space, address, bytes, false);
  if (!place.data) {
    std::memset(into, 0, bytes);
    return ByteSet::maskOf(bytes);
  }
  touch(warp, op, lane, place, bytes, false, false, false);
  copyBytes(into, place.data, bytes);
  return validBytes(place, bytes);
}

void Block::store(Warp &warp, const Op &op, unsigned lane, Space space, uint64_t address, unsigned bytes,
                  const void *from, uint64_t valid) {
  const Place place = locate(warp, op, lane, space, address, bytes, true);
  if (!place.data)
    return;
  const bool mayBeUnwritten = place.space == Space::Global && !launch.regions[place.region].initialised;
  if (place.space == Space::Global && !mayBeUnwritten && valid != ByteSet::maskOf(bytes)) {
    RawFinding &finding =
        report(FindingKind::Uninitialised, op, threadOf(warp, lane),
               fmt::format("the value stored to byte {} of '{}'", place.offset, launch.regions[place.region].name));
    if (finding.count == 1)
      finding.buffer = launch.regions[place.region].name, finding.offset = static_cast<int64_t>(place.offset);
  }
  const bool same = equalBytes(place.data, from, bytes);
  touch(warp, op, lane, place, bytes, true, false, same);
  copyBytes(place.data, from, bytes);
  setValidBytes(place, bytes, valid);
}

void Block::count(const Op &op, Space space, const uint64_t *addresses, uint32_t mask, unsigned bytes) {
  if (!mask)
    return;
  const uint64_t first = addresses[std::countr_zero(mask)];
  uint64_t within = first;
  if (space == Space::Generic)
    space = spaceOfGeneric(first, within);
  InstructionCounters &counters = result.ops[op.index];
  if (space == Space::Shared) {
    const Transactions made = countWavefronts(addresses, mask, bytes);
    counters.wavefronts += made.issued;
    counters.idealWavefronts += made.minimal;
  } else if (space == Space::Global) {
    const Transactions made = countSectors(addresses, mask, bytes);
    counters.sectors += made.issued;
    counters.minimalSectors += made.minimal;
    const uint64_t region = (first - kGlobalBase) / kGap;
    if (first >= kGlobalBase && region < result.traffic.size()) {
      result.traffic[region].sectors += made.issued;
      result.traffic[region].minimalSectors += made.minimal;
    }
  } else {
    return;
  }
  counters.bytes += uint64_t{bytes} * static_cast<unsigned>(std::popcount(mask));
}

void Block::land(Warp &warp, const PendingCopy &copy) {
  Place place{shared.data.data() + copy.destination, Space::Shared, 0, copy.destination};
  touch(warp, program.ops[copy.op], copy.lane, place, copy.bytes, true, false, false);
  std::memcpy(place.data, copy.data.data(), copy.bytes);
  setValidBytes(place, copy.bytes, copy.valid);
}

} // namespace yaglom::emulator
