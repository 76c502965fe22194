// Spec: reading, parsing and checking, and the text of its messages.
// SPDX-License-Identifier: Apache-2.0
#include "yaglom/spec.h"
#include "frontend/Check.h"
#include "frontend/Printer.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

namespace yaglom {

Spec::Spec(std::shared_ptr<const ast::File> file, std::string warnings)
    : tree(std::move(file)), warningText(std::move(warnings)) {}
Spec::Spec(const Spec &) = default;
Spec::Spec(Spec &&) noexcept = default;
Spec &Spec::operator=(const Spec &) = default;
Spec &Spec::operator=(Spec &&) noexcept = default;
Spec::~Spec() = default;

Result<Spec> Spec::parse(std::string text, std::string name) {
  Diagnostics diagnostics;
  auto parsed = std::make_shared<Parsed>(yaglom::parse(std::move(text), std::move(name), Dialect::Spec, diagnostics));
  yaglom::check(parsed->file, parsed->broken, Dialect::Spec, diagnostics);
  std::string messages = diagnostics.render(parsed->file.sources);
  if (diagnostics.hasErrors())
    return Error(std::move(messages));
  parsed->file.checked = true;
  return Spec(std::shared_ptr<const ast::File>(parsed, &parsed->file), std::move(messages));
}

Result<Spec> Spec::parseFile(const std::string &path) {
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  std::string text(kMaxFileBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!stream.eof() && stream.fail())
    return Error(fmt::format("{}: error: cannot read the file: {}\n", path, std::strerror(errno ? errno : EIO)));
  if (!stream.eof())
    return Error(fmt::format("{}: error: the file is larger than 1 MiB\n", path));
  text.resize(static_cast<size_t>(stream.gcount()));
  return parse(std::move(text), path);
}

std::vector<std::string> Spec::attentions() const {
  std::vector<std::string> names;
  for (const ast::Decl &decl : tree->decls)
    if (const auto *attention = std::get_if<ast::AttentionDecl>(&decl))
      names.push_back(attention->id.name);
  return names;
}

const std::string &Spec::warnings() const { return warningText; }

std::string Spec::print() const { return yaglom::print(*tree); }

} // namespace yaglom
