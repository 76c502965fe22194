// Reports as text and as JSON.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/Report.h"

#include <fmt/format.h>

#include <algorithm>

namespace yaglom::emulator {
namespace {

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out + '"';
}

std::string place(const std::array<uint32_t, 3> &at) { return fmt::format("({}, {}, {})", at[0], at[1], at[2]); }
std::string array(const std::array<uint32_t, 3> &at) { return fmt::format("[{}, {}, {}]", at[0], at[1], at[2]); }

/// "1.25x", or nothing where nothing was counted.
std::string ratio(uint64_t issued, uint64_t minimal) {
  return minimal ? fmt::format("{:.2f}x", static_cast<double>(issued) / static_cast<double>(minimal)) : "";
}

std::string countersJson(const InstructionCounters &counters) {
  return fmt::format("\"issues\": {}, \"wavefronts\": {}, \"ideal_wavefronts\": {}, \"sectors\": {}, "
                     "\"minimal_sectors\": {}, \"bytes\": {}",
                     counters.issues, counters.wavefronts, counters.idealWavefronts, counters.sectors,
                     counters.minimalSectors, counters.bytes);
}

/// "name": [element, ...]
template <class T, class ToText>
std::string list(std::string_view name, const std::vector<T> &values, ToText toText) {
  std::string out = fmt::format("\"{}\": [", name);
  for (std::size_t i = 0; i < values.size(); ++i)
    out += (i ? ",\n  " : "\n  ") + toText(values[i]);
  return out + "]";
}

std::string findingJson(const Finding &finding) {
  return fmt::format(
      "{{\"kind\": {}, \"line\": {}, \"instruction\": {}, \"block\": {}, \"thread\": {}, \"detail\": {}, "
      "\"buffer\": {}, \"offset\": {}, \"address\": {}, \"count\": {}}}",
      quote(toText(finding.kind)), finding.line, quote(finding.instruction), array(finding.block),
      array(finding.thread), quote(finding.detail), quote(finding.buffer), finding.offset, finding.address,
      finding.count);
}

uint64_t waste(const InstructionCounters &counters) {
  return counters.wavefronts - counters.idealWavefronts + counters.sectors - counters.minimalSectors;
}

/// The lines that waste most.
std::string worstLines(const Counters &counters) {
  std::vector<LineCounters> lines = counters.lines;
  std::stable_sort(lines.begin(), lines.end(), [](const auto &a, const auto &b) { return waste(a) > waste(b); });
  std::string out;
  for (std::size_t i = 0; i < std::min<std::size_t>(lines.size(), 8) && waste(lines[i]) > 0; ++i)
    out += fmt::format("  line {:<5} wavefronts {:>9} {:>7}  sectors {:>9} {:>7}  {}\n", lines[i].line,
                       lines[i].wavefronts, ratio(lines[i].wavefronts, lines[i].idealWavefronts), lines[i].sectors,
                       ratio(lines[i].sectors, lines[i].minimalSectors), lines[i].instruction);
  return out.empty() ? "" : "lines with the most unneeded wavefronts and sectors\n" + out;
}

} // namespace

std::string_view toText(FindingKind kind) {
  switch (kind) {
  case FindingKind::OutOfBounds:
    return "out of bounds";
  case FindingKind::Misaligned:
    return "misaligned";
  case FindingKind::ReadOnly:
    return "write to read-only memory";
  case FindingKind::Uninitialised:
    return "uninitialised";
  case FindingKind::SharedRace:
    return "shared race";
  case FindingKind::GlobalRace:
    return "global race";
  case FindingKind::DivergentCollective:
    return "divergent collective";
  case FindingKind::BarrierMismatch:
    return "barrier mismatch";
  case FindingKind::Budget:
    return "instruction budget";
  case FindingKind::Trap:
    return "trap";
  }
  return "";
}

std::string Finding::text() const {
  std::string out = fmt::format("line {}: {}: {}: block {}, thread {}: {}", line, toText(kind), instruction,
                                place(block), place(thread), detail);
  if (count > 1)
    out += fmt::format(" ({} times)", count);
  return out;
}

void InstructionCounters::add(const InstructionCounters &other) {
  issues += other.issues;
  wavefronts += other.wavefronts;
  idealWavefronts += other.idealWavefronts;
  sectors += other.sectors;
  minimalSectors += other.minimalSectors;
  bytes += other.bytes;
}

InstructionCounters Counters::sum(std::string_view prefix) const {
  InstructionCounters made;
  for (const FormCounters &form : forms)
    if (form.form.starts_with(prefix))
      made.add(form);
  return made;
}

std::string Report::findingsText() const {
  std::string out;
  for (const Finding &finding : findings)
    out += finding.text() + "\n";
  return out;
}

std::string Report::countersText() const {
  std::string out =
      fmt::format("blocks {}, warp instructions {}, thread instructions {}, barriers {}\n", counters.blocks,
                  counters.warpInstructions, counters.threadInstructions, counters.barriers);
  out += fmt::format("{:<52} {:>10} {:>10} {:>7} {:>10} {:>7}\n", "instruction", "issues", "wavefronts", "", "sectors",
                     "");
  for (const FormCounters &form : counters.forms)
    out += fmt::format(
        "{:<52} {:>10} {:>10} {:>7} {:>10} {:>7}\n", form.form, form.issues,
        form.idealWavefronts ? std::to_string(form.wavefronts) : "", ratio(form.wavefronts, form.idealWavefronts),
        form.minimalSectors ? std::to_string(form.sectors) : "", ratio(form.sectors, form.minimalSectors));
  for (const MatrixCounters &matrix : counters.matrices)
    out += fmt::format("{}: {} issued, {} with A all zero, {} with B all zero\n", matrix.form, matrix.issued,
                       matrix.zeroA, matrix.zeroB);
  if (!counters.buffers.empty())
    out += fmt::format("{:<20} {:>12} {:>12} {:>12} {:>12} {:>10} {:>7}\n", "buffer", "read", "unique", "written",
                       "unique", "sectors", "");
  for (const BufferCounters &buffer : counters.buffers)
    out += fmt::format("{:<20} {:>12} {:>12} {:>12} {:>12} {:>10} {:>7}\n", buffer.name, buffer.bytesRead,
                       buffer.uniqueRead, buffer.bytesWritten, buffer.uniqueWritten, buffer.sectors,
                       ratio(buffer.sectors, buffer.minimalSectors));
  return out + worstLines(counters);
}

std::string Report::json() const {
  const auto form = [](const FormCounters &value) {
    return fmt::format("{{\"form\": {}, {}}}", quote(value.form), countersJson(value));
  };
  const auto line = [](const LineCounters &value) {
    return fmt::format("{{\"line\": {}, \"instruction\": {}, {}}}", value.line, quote(value.instruction),
                       countersJson(value));
  };
  const auto matrix = [](const MatrixCounters &value) {
    return fmt::format("{{\"form\": {}, \"issued\": {}, \"zero_a\": {}, \"zero_b\": {}}}", quote(value.form),
                       value.issued, value.zeroA, value.zeroB);
  };
  const auto buffer = [](const BufferCounters &value) {
    return fmt::format("{{\"name\": {}, \"bytes_read\": {}, \"bytes_written\": {}, \"unique_read\": {}, "
                       "\"unique_written\": {}, \"sectors\": {}, \"minimal_sectors\": {}}}",
                       quote(value.name), value.bytesRead, value.bytesWritten, value.uniqueRead, value.uniqueWritten,
                       value.sectors, value.minimalSectors);
  };
  return fmt::format("{{\"finding_count\": {}, \"blocks\": {}, \"warp_instructions\": {}, \"thread_instructions\": {}, "
                     "\"barriers\": {},\n {},\n {},\n {},\n {},\n {}}}",
                     findingCount, counters.blocks, counters.warpInstructions, counters.threadInstructions,
                     counters.barriers, list("findings", findings, findingJson), list("forms", counters.forms, form),
                     list("lines", counters.lines, line), list("matrices", counters.matrices, matrix),
                     list("buffers", counters.buffers, buffer));
}

} // namespace yaglom::emulator
