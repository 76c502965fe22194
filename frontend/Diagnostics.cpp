// Renders diagnostics; written by hand because columns count bytes and comments may hold any UTF-8.
// SPDX-License-Identifier: Apache-2.0
#include "frontend/Diagnostics.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace yaglom {
namespace {

/// Longer source lines are shown by the part around the caret.
constexpr size_t kMaxLine = 200;

struct Place {
  size_t line = 1;      ///< from 1
  size_t lineBegin = 0; ///< byte offsets of the line in the text
  size_t lineEnd = 0;
};

Place locate(std::string_view text, size_t offset) {
  Place place;
  for (size_t at = text.find('\n'); at < offset; at = text.find('\n', at + 1)) {
    ++place.line;
    place.lineBegin = at + 1;
  }
  place.lineEnd = std::min(text.find('\n', place.lineBegin), text.size());
  if (place.lineEnd > place.lineBegin && text[place.lineEnd - 1] == '\r')
    --place.lineEnd;
  return place;
}

bool isContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

/// The part of the line that is shown, as byte offsets.
std::pair<size_t, size_t> window(std::string_view text, const Place &place, size_t caret) {
  size_t begin = place.lineBegin, end = place.lineEnd;
  if (end - begin <= kMaxLine)
    return {begin, end};
  begin = std::max(begin, caret > kMaxLine / 2 ? caret - kMaxLine / 2 : 0);
  end = std::min(end, begin + kMaxLine);
  while (begin > place.lineBegin && isContinuation(text[begin]))
    --begin;
  while (end < place.lineEnd && isContinuation(text[end]))
    ++end;
  return {begin, end};
}

/// Draws `range` into `marks`, which has one character a byte of [begin, begin + marks.size()).
void mark(std::string &marks, size_t begin, const ast::Range &range, char first) {
  size_t from = range.begin, to = std::max<size_t>(range.end, range.begin + 1);
  for (size_t at = std::max(from, begin); at < std::min(to, begin + marks.size()); ++at)
    marks[at - begin] = at == from ? first : '~';
}

std::string excerpt(std::string_view text, const Place &place, const ast::Range &caret,
                    const std::vector<ast::Range> &underlines) {
  auto [begin, end] = window(text, place, caret.begin);
  // The caret may stand one past the end of the line.
  std::string marks(end - begin + 1, ' ');
  for (const ast::Range &range : underlines)
    if (range.source == caret.source)
      mark(marks, begin, range, '~');
  mark(marks, begin, caret, '^');

  std::string line, under;
  for (size_t at = begin; at <= end; ++at) {
    char c = at < end ? text[at] : ' ';
    bool control = static_cast<unsigned char>(c) < 0x20 && c != '\t';
    if (at < end)
      line += control ? '?' : c;
    // One column a code point; a tab is repeated so that the caret aligns whatever its width.
    if (!isContinuation(c))
      under += c == '\t' && marks[at - begin] == ' ' ? '\t' : marks[at - begin];
  }
  under.erase(under.find_last_not_of(" \t") + 1);
  return fmt::format("{}\n{}\n", line, under);
}

std::string renderOne(const std::vector<ast::Source> &sources, std::string_view label, const ast::Range &caret,
                      const std::vector<ast::Range> &underlines, const std::string &message) {
  const ast::Source &source = sources.at(caret.source);
  if (source.line != 0)
    return fmt::format("{}:{}: {}: {}\n", source.name, source.line, label, message);
  Place place = locate(source.text, caret.begin);
  return fmt::format("{}:{}:{}: {}: {}\n{}", source.name, place.line, caret.begin - place.lineBegin + 1, label, message,
                     excerpt(source.text, place, caret, underlines));
}

/// Letters to insert, drop, replace or swap with their neighbour.
size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, last(b.size() + 1), row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(last, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

} // namespace

void Diagnostics::add(Diagnostic diagnostic) {
  errors += diagnostic.severity == Severity::Error;
  if (truncated || !seen.emplace(diagnostic.caret.source, diagnostic.caret.begin, diagnostic.message).second)
    return;
  if (list.size() == kMaxMessages)
    truncated = true;
  else
    list.push_back(std::move(diagnostic));
}

void Diagnostics::error(ast::Range caret, std::string message, std::vector<ast::Range> underlines,
                        std::vector<Note> notes) {
  add({Severity::Error, caret, std::move(underlines), std::move(message), std::move(notes)});
}

void Diagnostics::warning(ast::Range caret, std::string message, std::vector<ast::Range> underlines,
                          std::vector<Note> notes) {
  add({Severity::Warning, caret, std::move(underlines), std::move(message), std::move(notes)});
}

void Diagnostics::fileError(std::string message) {
  ++errors;
  fileErrors.push_back(std::move(message));
}

std::string Diagnostics::render(const std::vector<ast::Source> &sources) const {
  std::vector<const Diagnostic *> sorted;
  for (const Diagnostic &diagnostic : list)
    sorted.push_back(&diagnostic);
  // At one place in the order in which they were said, which is that of `list`.
  std::sort(sorted.begin(), sorted.end(), [](const Diagnostic *a, const Diagnostic *b) {
    return std::tie(a->caret.source, a->caret.begin, a) < std::tie(b->caret.source, b->caret.begin, b);
  });
  std::string name = sources.empty() ? "spec" : sources.front().name;
  std::string text;
  for (const std::string &message : fileErrors)
    text += fmt::format("{}: error: {}\n", name, message);
  for (const Diagnostic *d : sorted) {
    text +=
        renderOne(sources, d->severity == Severity::Error ? "error" : "warning", d->caret, d->underlines, d->message);
    for (const Note &note : d->notes)
      text += renderOne(sources, "note", note.range, {}, note.message);
  }
  if (truncated)
    text += fmt::format("{}: error: too many messages; only the first {} are shown\n", name, kMaxMessages);
  return text;
}

std::string didYouMean(std::string_view name, const std::vector<std::string_view> &candidates) {
  // A third of the letters may be wrong; names of one or two letters are all alike.
  size_t best = std::min<size_t>(name.size() / 3, 3) + 1;
  if (name.size() < 3 || name.size() > 64)
    return "";
  std::string_view nearest;
  for (std::string_view candidate : candidates) {
    if (candidate == name || candidate.size() > name.size() + 3)
      continue;
    if (size_t distance = editDistance(name, candidate); distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
}

} // namespace yaglom
