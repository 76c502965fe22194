// Comments behind the lines that MLIR and LLVM print: the text stays valid IR, and the same but for them.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Locations.h"

#include "mlir/IR/AsmState.h"
#include "mlir/IR/Location.h"
#include "llvm/IR/AssemblyAnnotationWriter.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/Support/FormattedStream.h"
#include "llvm/Support/Path.h"

#include <fmt/format.h>

#include <map>

namespace yaglom::compiler {
namespace {

std::string placeText(llvm::StringRef file, unsigned line, unsigned column) {
  const std::string place = fmt::format("{}:{}", llvm::sys::path::filename(file).str(), line);
  return column ? fmt::format("{}:{}", place, column) : place;
}

llvm::SmallVector<llvm::StringRef, 0> linesOf(llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef, 0> lines;
  text.split(lines, '\n');
  if (!lines.empty() && lines.back().empty())
    lines.pop_back();
  return lines;
}

/// Whether the line is a label that only the line table needs.
bool isLabelOfTable(llvm::StringRef line) {
  return line.ends_with(":") && (line.starts_with(".Ltmp") || line.starts_with(".Lfunc_begin") ||
                                 line.starts_with("$L__tmp") || line.starts_with("$L__func_"));
}

/// The number and the name in `.file 1 "folder" "performer.phi"`; nothing for the directive that names the source alone.
std::optional<std::pair<unsigned, llvm::StringRef>> numberedFile(llvm::StringRef line) {
  unsigned number = 0;
  line = line.ltrim();
  if (!line.consume_front(".file") || (line = line.ltrim()).consumeInteger(10, number))
    return std::nullopt;
  return std::pair(number, llvm::sys::path::filename(line.rtrim().drop_back().rsplit('"').second));
}

/// Of `.loc 1 12 9`, whose numbers are file, line and column.
std::string placeOfDirective(llvm::StringRef line, const std::map<unsigned, std::string> &files) {
  unsigned file = 0, number = 0, column = 0;
  line = line.ltrim().drop_front(strlen(".loc")).ltrim();
  if (line.consumeInteger(10, file) || (line = line.ltrim()).consumeInteger(10, number) ||
      (line = line.ltrim()).consumeInteger(10, column) || number == 0 || !files.contains(file))
    return "";
  return placeText(files.at(file), number, column);
}

/// Writes the place of each instruction behind it.
class PlaceWriter : public llvm::AssemblyAnnotationWriter {
public:
  void printInfoComment(const llvm::Value &value, llvm::formatted_raw_ostream &os) override {
    constexpr unsigned kColumn = 60;
    if (const auto found = places.find(&value); found != places.end())
      os.PadToColumn(kColumn) << "; " << found->second;
  }

  llvm::DenseMap<const llvm::Value *, std::string> places;
};

} // namespace

std::string placeText(mlir::Location location) {
  llvm::SmallVector<std::string> places;
  location->walk([&](mlir::Location part) {
    if (auto file = mlir::dyn_cast<mlir::FileLineColLoc>(part)) {
      std::string text = placeText(file.getFilename().getValue(), file.getLine(), file.getColumn());
      if (!llvm::is_contained(places, text))
        places.push_back(std::move(text));
    }
    return mlir::WalkResult::advance();
  });
  return llvm::join(places, ", ");
}

std::string printModule(mlir::ModuleOp module, bool locations) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  mlir::AsmState::LocationMap lines;
  mlir::AsmState state(module, mlir::OpPrintingFlags(), locations ? &lines : nullptr);
  module->print(stream, state);
  if (!locations)
    return text;
  std::map<unsigned, std::string> comments; // by line, from 1
  module.walk([&](mlir::Operation *op) {
    if (const auto found = lines.find(op); found != lines.end())
      if (std::string place = placeText(op->getLoc()); !place.empty())
        comments.emplace(found->second.first, std::move(place));
  });
  std::string annotated;
  for (auto [i, line] : llvm::enumerate(linesOf(text))) {
    annotated += line;
    if (const auto found = comments.find(i + 1); found != comments.end())
      annotated += " // " + found->second;
    annotated += '\n';
  }
  return annotated;
}

std::string printModule(llvm::Module &module, bool locations) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (!locations) {
    module.print(stream, nullptr);
    return text;
  }
  PlaceWriter writer;
  for (llvm::Function &function : module)
    for (llvm::Instruction &instruction : llvm::instructions(function))
      if (const llvm::DebugLoc &place = instruction.getDebugLoc(); place && place.getLine())
        writer.places[&instruction] = placeText(place->getFilename(), place.getLine(), place.getCol());
  llvm::StripDebugInfo(module);
  module.print(stream, &writer);
  return text;
}

std::string placesAsComments(llvm::StringRef assembly, llvm::StringRef comment) {
  std::map<unsigned, std::string> files;
  const llvm::SmallVector<llvm::StringRef, 0> lines = linesOf(assembly);
  for (llvm::StringRef line : lines) // PTX names files at its end
    if (const auto file = numberedFile(line))
      files[file->first] = file->second.str();
  std::string text;
  for (llvm::StringRef line : lines) {
    if (isLabelOfTable(line) || numberedFile(line) || line.ltrim().starts_with(".section\t.debug_"))
      continue;
    if (line.ltrim().starts_with(".loc")) {
      if (const std::string place = placeOfDirective(line, files); !place.empty())
        text += fmt::format("\t{} {}\n", comment.str(), place);
      continue;
    }
    text += line;
    text += '\n';
  }
  return text;
}

} // namespace yaglom::compiler
