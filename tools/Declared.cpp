// Collects the names of all tensors of a spec, whichever attention they belong to.
// SPDX-License-Identifier: Apache-2.0
#include "tools/Declared.h"

#include "frontend/Ast.h"

namespace yaglom::tools {
namespace {

void addBody(const std::string &owner, const ast::Body &body, std::set<std::string> &names) {
  for (const ast::Binding &binding : body.bindings) {
    if (binding.kind == ast::BindingKind::Let)
      continue;
    for (const ast::Identifier &id : binding.names)
      names.insert(owner + "." + id.name);
    if (binding.kind == ast::BindingKind::Draw)
      names.insert(owner + "." + binding.names.front().name + ".noise");
  }
}

/// What the tree alone tells: also of maps that no attention uses.
void addDeclarations(const ast::File &file, std::set<std::string> &names) {
  for (const ast::Decl &decl : file.decls) {
    if (const auto *map = std::get_if<ast::MapDecl>(&decl))
      addBody(map->id.name, map->body, names);
    if (const auto *loss = std::get_if<ast::LossDecl>(&decl))
      names.insert(loss->id.name + ".noise");
    if (const auto *attention = std::get_if<ast::AttentionDecl>(&decl)) {
      addBody(attention->id.name, attention->body, names);
      for (const auto *args : {&attention->queryArgs, &attention->keyArgs})
        for (const ast::Arg &arg : *args)
          names.insert(arg.id.name);
    }
  }
}

} // namespace

std::set<std::string> declaredTensors(const Spec &spec, const CompileOptions &options) {
  std::set<std::string> names;
  addDeclarations(spec.file(), names);
  // A sampler's parameters depend on its kind and width, so they are asked of the attentions that use it. One that does
  // not exist at these sizes has none.
  CompileOptions any = options;
  any.target = Target::reference();
  for (const std::string &attention : spec.attentions())
    if (const Result<Kernel> kernel = compile(spec, attention, any))
      for (const TensorInfo &info : kernel->tensors())
        if (info.role == TensorRole::Parameter)
          names.insert(info.name);
  return names;
}

bool isIgnored(const std::string &name) { return name.starts_with("expect.") || name.starts_with("grad."); }

} // namespace yaglom::tools
