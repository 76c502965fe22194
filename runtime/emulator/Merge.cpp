// Joins the results of blocks in the order of their numbers: races between blocks, findings, counters.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/Merge.h"

#include <fmt/format.h>

#include <algorithm>

namespace yaglom::emulator {
namespace {

std::array<uint32_t, 3> unflatten(uint64_t index, const std::array<uint32_t, 3> &sizes) {
  return {static_cast<uint32_t>(index % sizes[0]), static_cast<uint32_t>(index / sizes[0] % sizes[1]),
          static_cast<uint32_t>(index / sizes[0] / sizes[1])};
}

} // namespace

Merger::Merger(const LaunchState &launch, bool inOrder)
    : launch(launch), written(launch.regions.size()), ops(launch.program->ops.size()), traffic(launch.regions.size()) {
  for (std::size_t i = 0; inOrder && i < launch.regions.size(); ++i)
    if (!launch.regions[i].initialised)
      written[i] = std::make_unique<ByteSet>(launch.regions[i].bytes + 64);
}

void Merger::add(BlockResult result) {
  const std::lock_guard lock(mutex);
  const uint64_t index = result.index;
  pending.emplace(index, std::move(result));
  while (!pending.empty() && pending.begin()->first == next) {
    merge(std::move(pending.begin()->second));
    pending.erase(pending.begin());
    ++next;
  }
}

void Merger::reportConflict(uint64_t key, const Page &page, const MergedPage &before, std::size_t at,
                            BlockResult &result) {
  const std::size_t region = key >> 40;
  const uint64_t offset = (key & ((uint64_t{1} << 40) - 1)) * kPageBytes + at;
  const bool writes = page.written.get(at, 1);
  const bool wasWritten = before.written.get(at, 1);
  const Last other = wasWritten ? before.writers[at / 4] : before.readers[at / 4];
  const std::array<uint32_t, 3> block = unflatten(other.block, launch.grid);
  RawFinding raw;
  raw.kind = FindingKind::GlobalRace;
  raw.op = writes ? page.table.writer(at).op : page.table.reader(at).op;
  raw.buffer = launch.regions[region].name;
  raw.offset = static_cast<int64_t>(offset);
  raw.address = baseOfGlobal(region) + offset;
  raw.detail = fmt::format("{} byte {} of '{}', which block ({}, {}, {}) {} at line {}", writes ? "writes" : "reads",
                           offset, raw.buffer, block[0], block[1], block[2], wasWritten ? "wrote" : "read",
                           launch.program->info[other.op].line);
  keep(std::move(raw), result.index);
}

void Merger::mergePage(uint64_t key, const Page &page, BlockResult &result) {
  const std::size_t region = key >> 40;
  const bool races = launch.options.checks && launch.regions[region].writable;
  MergedPage &merged = pages[key];
  if (races && merged.readers.empty()) {
    merged.readers.resize(kPageBytes / 4);
    merged.writers.resize(kPageBytes / 4);
  }
  for (std::size_t group = 0; group < page.read.bits.size(); ++group) {
    const uint64_t reads = page.read.bits[group], writes = page.written.bits[group];
    const uint64_t before = merged.read.bits[group] | merged.written.bits[group];
    uint64_t clash = (writes & before) | (reads & merged.written.bits[group]);
    clash &= ~(page.atomics.bits[group] & merged.atomics.bits[group]);
    if (races && clash) {
      conflict = true;
      for (uint64_t rest = clash; rest;) {
        const auto bit = static_cast<std::size_t>(std::countr_zero(rest));
        reportConflict(key, page, merged, 64 * group + bit, result);
        rest &= ~(uint64_t{0xf} << (bit & ~std::size_t{3})); // once a word
      }
    }
  }
  for (std::size_t group = 0; group < page.read.bits.size(); ++group) {
    const uint64_t reads = page.read.bits[group], writes = page.written.bits[group];
    const uint64_t before = merged.read.bits[group] | merged.written.bits[group];
    // Bytes that only atomics have touched, in this block and in all before.
    merged.atomics.bits[group] = (merged.atomics.bits[group] & (page.atomics.bits[group] | ~(reads | writes))) |
                                 (page.atomics.bits[group] & ~before);
    merged.read.bits[group] |= reads;
    merged.written.bits[group] |= writes;
    for (std::size_t at = 64 * group; races && (reads | writes) && at < 64 * (group + 1); at += 4) {
      const auto block = static_cast<uint32_t>(result.index);
      for (std::size_t byte = at; byte < at + 4; ++byte) {
        if (page.read.get(byte, 1))
          merged.readers[at / 4] = {block, page.table.reader(byte).op};
        if (page.written.get(byte, 1))
          merged.writers[at / 4] = {block, page.table.writer(byte).op};
      }
    }
  }
}

void Merger::keep(RawFinding finding, uint64_t block) {
  report.findingCount += finding.count;
  const auto key = std::pair(finding.kind, finding.op);
  if (const auto known = findingIndex.find(key); known != findingIndex.end()) {
    report.findings[known->second].count += finding.count;
    return;
  }
  if (report.findings.size() >= launch.options.maximalFindings)
    return;
  findingIndex.emplace(key, report.findings.size());
  report.findings.push_back(makeFinding(finding, block));
}

Finding Merger::makeFinding(const RawFinding &raw, uint64_t block) const {
  Finding finding;
  const OpInfo &info = launch.program->info[raw.op];
  finding.kind = raw.kind;
  finding.line = info.line;
  finding.instruction = info.text;
  finding.block = unflatten(block, launch.grid);
  finding.thread = unflatten(raw.thread, launch.block);
  finding.detail = raw.detail;
  finding.buffer = raw.buffer;
  finding.offset = raw.offset;
  finding.address = raw.address;
  finding.count = raw.count;
  return finding;
}

void Merger::merge(BlockResult result) {
  for (RawFinding &finding : result.findings)
    keep(std::move(finding), result.index);
  for (std::size_t i = 0; i < ops.size(); ++i)
    ops[i].add(result.ops[i]);
  for (std::size_t i = 0; i < traffic.size(); ++i) {
    traffic[i].bytesRead += result.traffic[i].bytesRead;
    traffic[i].bytesWritten += result.traffic[i].bytesWritten;
    traffic[i].sectors += result.traffic[i].sectors;
    traffic[i].minimalSectors += result.traffic[i].minimalSectors;
  }
  for (const auto &[op, counters] : result.matrices) {
    MatrixCounters &into = matrices[op];
    into.issued += counters.issued;
    into.zeroA += counters.zeroA;
    into.zeroB += counters.zeroB;
  }
  report.counters.threadInstructions += result.threadInstructions;
  report.counters.barriers += result.barriers;
  ++report.counters.blocks;
  std::vector<uint64_t> keys;
  for (const auto &[key, page] : result.footprint)
    keys.push_back(key);
  std::sort(keys.begin(), keys.end()); // the order of a hash table is nobody's business
  for (const uint64_t key : keys) {
    const Page &page = *result.footprint.at(key);
    mergePage(key, page, result);
    if (ByteSet *into = written[key >> 40].get()) {
      const uint64_t base = (key & ((uint64_t{1} << 40) - 1)) * kPageBytes / 64;
      for (std::size_t group = 0; group < page.written.bits.size() && base + group < into->bits.size(); ++group)
        into->bits[base + group] |= page.written.bits[group];
    }
  }
}

void Merger::countUnique(std::vector<BufferCounters> &buffers) const {
  const std::size_t globals = launch.program->globals.size();
  for (const auto &[key, page] : pages) {
    const std::size_t region = key >> 40;
    if (region < globals || !launch.options.checks)
      continue;
    for (std::size_t group = 0; group < page.read.bits.size(); ++group) {
      buffers[region - globals].uniqueRead += std::popcount(page.read.bits[group]);
      buffers[region - globals].uniqueWritten += std::popcount(page.written.bits[group]);
    }
  }
}

Report Merger::finish() {
  const Program &program = *launch.program;
  Counters &counters = report.counters;
  std::map<std::string, FormCounters> forms;
  std::map<std::string, MatrixCounters> byForm;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].issues == 0)
      continue;
    counters.warpInstructions += ops[i].issues;
    const OpInfo &info = program.info[i];
    FormCounters &form = forms[program.forms[info.form]];
    form.form = program.forms[info.form];
    form.add(ops[i]);
    LineCounters line;
    line.add(ops[i]);
    line.line = info.line;
    line.instruction = info.text;
    counters.lines.push_back(std::move(line));
  }
  for (auto &[name, form] : forms)
    counters.forms.push_back(std::move(form));
  for (const auto &[op, matrix] : matrices) {
    MatrixCounters &into = byForm[program.forms[program.info[op].form]];
    into.form = program.forms[program.info[op].form];
    into.issued += matrix.issued;
    into.zeroA += matrix.zeroA;
    into.zeroB += matrix.zeroB;
  }
  for (auto &[name, matrix] : byForm)
    counters.matrices.push_back(std::move(matrix));
  for (std::size_t i = program.globals.size(); i < launch.regions.size(); ++i) {
    BufferCounters buffer;
    buffer.name = launch.regions[i].name;
    buffer.bytesRead = traffic[i].bytesRead;
    buffer.bytesWritten = traffic[i].bytesWritten;
    buffer.sectors = traffic[i].sectors;
    buffer.minimalSectors = traffic[i].minimalSectors;
    counters.buffers.push_back(std::move(buffer));
  }
  countUnique(counters.buffers);
  return std::move(report);
}

} // namespace yaglom::emulator
