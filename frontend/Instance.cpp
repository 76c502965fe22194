// Binds the dimensions of one attention and lists what it reads, owns and draws.
// SPDX-License-Identifier: Apache-2.0
#include "frontend/Instance.h"
#include "frontend/Check.h"
#include "frontend/Losses.h"
#include "frontend/Samplers.h"

#include <fmt/format.h>

#include <algorithm>

namespace yaglom {
namespace {

class Instantiator {
public:
  Instantiator(const ast::File &file, const DimValues &values)
      : file(file), values(values), symbols(file), shapes(symbols, Dialect::Spec, diagnostics, &bound) {}

  Result<Instance> run(const std::string &name) {
    if (!file.checked) {
      Diagnostics messages;
      check(file, {}, Dialect::Spec, messages);
      if (messages.hasErrors())
        return Error(messages.render(file.sources));
    }
    const auto *attention = file.find<ast::AttentionDecl>(name);
    if (!attention)
      return unknownAttention(name);
    instance.file = &file;
    instance.attention = attention;
    bindDimensions(*attention);
    if (!diagnostics.hasErrors())
      fill(*attention);
    if (diagnostics.hasErrors())
      return Error(diagnostics.render(file.sources));
    return std::move(instance);
  }

private:
  Error unknownAttention(const std::string &name) {
    std::vector<std::string_view> candidates;
    for (const ast::Decl &decl : file.decls)
      if (std::holds_alternative<ast::AttentionDecl>(decl))
        candidates.push_back(idOf(decl).name);
    diagnostics.fileError(fmt::format("no attention '{}'{}", name, didYouMean(name, candidates)));
    return Error(diagnostics.render(file.sources));
  }

  void bindDimensions(const ast::AttentionDecl &attention) {
    for (const ast::Decl &decl : file.decls)
      if (const auto *dim = std::get_if<ast::DimDecl>(&decl))
        bound[dim->id.name] = dim->value;
    std::set<std::string> mayBind = {"d", "e"};
    for (const auto *args : {&attention.queryArgs, &attention.keyArgs})
      for (const ast::Arg &arg : *args)
        for (const ast::ExprRef &size : sizesOf(arg))
          if (const std::string *lone = loneName(*size); lone && !bound.contains(*lone)) {
            mayBind.insert(*lone);
            if (!values.contains(*lone) && missing.insert(*lone).second)
              diagnostics.error(size->range, fmt::format("dimension '{}' has no value", *lone));
          }
    for (const auto &[name, value] : values) {
      if (!bound.contains(name) && !mayBind.contains(name))
        unknownDimension(name);
      else if (value < 1 || value > INT32_MAX)
        diagnostics.fileError(
            fmt::format("dimension '{}' is a positive whole number below 2147483648, found {}", name, value));
    }
    for (const auto &[name, value] : values)
      bound[name] = value;
    instance.dims = bound;
  }

  void unknownDimension(const std::string &name) {
    std::vector<std::string_view> candidates;
    for (const auto &[known, value] : bound)
      candidates.push_back(known);
    diagnostics.fileError(fmt::format("no dimension '{}' in the spec{}", name, didYouMean(name, candidates)));
  }

  void fill(const ast::AttentionDecl &attention) {
    AttentionUse use = shapes.checkAttention(attention);
    if (diagnostics.hasErrors())
      return;
    inputs(attention.queryArgs, Side::Query);
    inputs(attention.keyArgs, Side::Key);
    instance.output = numbers(use.result.shape, attention.body.result->range);
    for (const OwnerUse &owner : use.owners)
      tensorsOf(owner);
    RowWidths widths = rowWidths(use, symbols, shapes, diagnostics);
    for (const auto &[name, row] : widths)
      sampler(name, row.width, row.where);
    for (const LossUse &loss : lossesOf(allLosses(file), symbols, widths, diagnostics))
      addLoss(loss);
  }

  std::vector<int64_t> numbers(const PolyShape &shape, const ast::Range &at) {
    std::vector<int64_t> result;
    for (const Poly &size : shape)
      result.push_back(shapes.integer(size, at).value_or(1));
    return result;
  }

  void inputs(const std::vector<ast::Arg> &args, Side side) {
    for (const ast::Arg &arg : args) {
      PolyShape shape;
      for (const ast::ExprRef &size : sizesOf(arg))
        shape.push_back(shapes.size(*size, names()));
      instance.inputs.push_back({arg.id.name, side, numbers(shape, arg.id.range)});
    }
  }

  /// Every bound dimension under its own name: in the attention itself names mean themselves.
  std::map<std::string, Poly> names() const {
    std::map<std::string, Poly> result;
    for (const auto &[name, value] : bound)
      result.emplace(name, Poly::name(name));
    return result;
  }

  void tensorsOf(const OwnerUse &owner) {
    DimValues dims;
    for (const auto &[name, value] : bound)
      if (name != "d" && name != "e")
        dims.emplace(name, value);
    for (const auto &[name, size] : owner.dims)
      if (std::optional<int64_t> value = size.missing(bound) ? std::nullopt : shapes.integer(size, owner.firstCall))
        dims[name] = *value;
    instance.maps.push_back({owner.id->name, dims});
    for (const ast::Binding &b : owner.body->bindings) {
      if (b.kind == ast::BindingKind::Let)
        continue;
      PolyShape shape;
      for (const ast::ExprRef &size : b.shape->sizes)
        shape.push_back(shapes.size(*size, owner.dims));
      if (b.kind == ast::BindingKind::Param)
        parameter(owner, b, numbers(shape, b.shape->range), dims);
      else
        draw(owner, b, numbers(shape, b.shape->range), dims);
    }
  }

  /// The kind behind a name after '~', and its options; declared ones see the file's dimensions only.
  std::pair<const ast::DrawSpec *, SamplerOptions> resolve(const ast::DrawSpec &spec,
                                                           const std::map<std::string, Poly> &dims) {
    const auto *declared = symbols.find<ast::SamplerDecl>(spec.sampler.name);
    const ast::DrawSpec &meant = declared ? declared->draw : spec;
    const SamplerKind &kind = *findSamplerKind(meant.sampler.name);
    return {&meant, shapes.options(kind, meant, declared ? std::map<std::string, Poly>{} : dims)};
  }

  void parameter(const OwnerUse &owner, const ast::Binding &b, std::vector<int64_t> shape, const DimValues &dims) {
    ParameterInfo info;
    info.name = owner.id->name + "." + b.names[0].name;
    info.shared = b.shared;
    info.shape = std::move(shape);
    info.initial = b.value;
    info.dims = dims;
    if (b.draw) {
      auto [spec, options] = resolve(*b.draw, owner.dims);
      info.draw = *spec;
      info.options = std::move(options);
    }
    instance.parameters.push_back(std::move(info));
  }

  void draw(const OwnerUse &owner, const ast::Binding &b, const std::vector<int64_t> &shape, const DimValues &dims) {
    auto [spec, options] = resolve(*b.draw, owner.dims);
    const SamplerKind &kind = *findSamplerKind(spec->sampler.name);
    DrawInfo info;
    for (const ast::Identifier &id : b.names)
      info.names.push_back(owner.id->name + "." + id.name);
    info.sampler = b.draw->sampler.name;
    info.kind = kind.name;
    info.shared = b.shared;
    info.rows = shape.at(0);
    info.width = shape.at(1) * static_cast<int64_t>(b.names.size());
    info.options = std::move(options);
    if (!diagnostics.hasErrors())
      info.noiseWidth = kind.noiseOf(info.options, info.width);
    info.draw = *spec;
    info.dims = dims;
    instance.draws.push_back(std::move(info));
  }

  /// Adds a sampler once, with its parameters from its formula.
  void sampler(const std::string &name, const Poly &rowWidth, const ast::Range &at) {
    auto known =
        std::find_if(instance.samplers.begin(), instance.samplers.end(), [&](auto &s) { return s.name == name; });
    std::optional<int64_t> width = shapes.integer(rowWidth, at);
    if (known != instance.samplers.end() || !width)
      return;
    const auto *declared = symbols.find<ast::SamplerDecl>(name);
    ast::DrawSpec undeclared{{name, at}, {}};
    auto [spec, options] = resolve(declared ? declared->draw : undeclared, {});
    const SamplerKind &kind = *findSamplerKind(spec->sampler.name);
    if (diagnostics.hasErrors())
      return;
    if (kind.pairs == Pairs::Only && *width % 2 != 0)
      return diagnostics.error(at, fmt::format("'{}' draws pairs: its rows of {} = {} entries cannot be halved", name,
                                               rowWidth.text(), *width));
    SamplerInfo info{name, std::string(kind.name), !declared || declared->shared, *width, options, {}};
    if (kind.hasParameters)
      parametersOf(info, kind);
    instance.samplers.push_back(std::move(info));
  }

  void parametersOf(SamplerInfo &info, const SamplerKind &kind) {
    Result<ast::File> formula = samplerFormula(kind, info.options, info.width);
    if (!formula)
      return diagnostics.fileError(
          fmt::format("the formula of '{}' is refused:\n{}", info.name, formula.error().what()));
    DimValues dims;
    for (const ast::Decl &decl : formula->decls)
      if (const auto *dim = std::get_if<ast::DimDecl>(&decl))
        dims[dim->id.name] = dim->value;
    Symbols names(*formula);
    Diagnostics ignored; // the formula was checked
    ShapeChecker reader(names, Dialect::Internal, ignored, &dims);
    for (const ast::Binding &b : formula->find<ast::MapDecl>("sample")->body.bindings) {
      if (b.kind != ast::BindingKind::Param)
        continue;
      ParameterInfo parameter;
      parameter.name = info.name + b.names[0].name.substr(std::string_view("self").size());
      parameter.shared = info.shared;
      for (const ast::ExprRef &size : b.shape->sizes)
        parameter.shape.push_back(reader.integer(reader.size(*size, {}), size->range).value_or(1));
      parameter.initial = b.value;
      parameter.draw = b.draw;
      if (b.draw)
        parameter.options = reader.options(*findSamplerKind(b.draw->sampler.name), *b.draw, {});
      parameter.dims = dims;
      info.parameters.push_back(parameter.name);
      instance.parameters.push_back(std::move(parameter));
    }
  }

  void addLoss(const LossUse &use) {
    const ast::Expr &call = *use.decl->call;
    sampler(use.p, use.width, call.args[0]->range);
    sampler(use.q, use.width, call.args[1]->range);
    std::optional<double> samples = shapes.positiveConstant(*call.named.at(0).value, "samples", true, {});
    if (diagnostics.hasErrors() || !samples)
      return;
    auto info = [&](const std::string &name) -> const SamplerInfo & {
      return *std::find_if(instance.samplers.begin(), instance.samplers.end(), [&](auto &s) { return s.name == name; });
    };
    const SamplerInfo &p = info(use.p), &q = info(use.q);
    instance.losses.push_back({use.decl->id.name, use.p, use.q, static_cast<int64_t>(*samples),
                               findSamplerKind(p.kind)->noiseOf(p.options, p.width), p.shared && q.shared});
  }

  const ast::File &file;
  const DimValues &values;
  Diagnostics diagnostics;
  Symbols symbols;
  DimValues bound;
  ShapeChecker shapes;
  std::set<std::string> missing;
  Instance instance;
};

} // namespace

Result<Instance> instantiate(const ast::File &file, const std::string &name, const DimValues &values) {
  return Instantiator(file, values).run(name);
}

} // namespace yaglom
