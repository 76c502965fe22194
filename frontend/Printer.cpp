// Prints a syntax tree with the fewest parentheses that the grammar needs.
// SPDX-License-Identifier: Apache-2.0
#include "frontend/Printer.h"

#include <fmt/format.h>

namespace yaglom {
namespace {

using ast::ExprKind;

/// The grammar's levels: what may stand at a place is at least this strong.
enum Level { kExpr, kSum, kProduct, kUnary, kPower, kAtom };

Level levelOf(const ast::Expr &e) {
  switch (e.kind) {
  case ExprKind::Add:
  case ExprKind::Subtract:
    return kSum;
  case ExprKind::Multiply:
  case ExprKind::Divide:
  case ExprKind::MatVec:
    return kProduct;
  case ExprKind::Negate:
    return kUnary;
  case ExprKind::Power:
    return kPower;
  case ExprKind::Call:
    return e.options.empty() ? kAtom : kExpr;
  default:
    return kAtom;
  }
}

std::string_view symbol(ExprKind kind) {
  switch (kind) {
  case ExprKind::Add:
    return " + ";
  case ExprKind::Subtract:
    return " - ";
  case ExprKind::Multiply:
    return " * ";
  case ExprKind::Divide:
    return " / ";
  default:
    return " @ ";
  }
}

/// The shortest text that reads back as `number`; "1e-6", where others write 1e-06.
std::string digits(double number) {
  std::string text = fmt::format("{}", number);
  size_t exponent = text.find('e');
  if (exponent == std::string::npos)
    return text;
  size_t first = exponent + 1 + (text[exponent + 1] == '-');
  size_t last = text.find_first_not_of("+0", first);
  return text.erase(first, last - first);
}

class Printer {
public:
  std::string out;

  void expr(const ast::Expr &e, Level least = kExpr) {
    bool parentheses = levelOf(e) < least;
    if (parentheses)
      out += '(';
    inside(e);
    if (parentheses)
      out += ')';
  }

  void operator()(const ast::DimDecl &decl) { out += fmt::format("dim {} = {}", decl.id.name, decl.value); }

  void operator()(const ast::SamplerDecl &decl) {
    out += fmt::format("{}sampler {} = ", decl.shared ? "shared " : "", decl.id.name);
    draw(decl.draw);
  }

  void operator()(const ast::FnDecl &decl) {
    out += fmt::format("fn {}(", decl.id.name);
    list(decl.params, ", ", [&](const ast::Identifier &id) { out += id.name; });
    out += ") = ";
    expr(*decl.body);
  }

  void operator()(const ast::MapDecl &decl) {
    out += fmt::format("map {}(", decl.id.name);
    args(decl.args);
    out += ')';
    if (decl.result) {
      out += " -> ";
      shape(*decl.result);
    }
    body(decl.body);
  }

  void operator()(const ast::AttentionDecl &decl) {
    out += fmt::format("attention {}(", decl.id.name);
    args(decl.queryArgs);
    out += "; ";
    args(decl.keyArgs);
    out += ')';
    body(decl.body);
  }

  void operator()(const ast::LossDecl &decl) {
    out += fmt::format("loss {} = ", decl.id.name);
    expr(*decl.call);
  }

private:
  bool tight = false; ///< in a size products have no blanks: [2*m, d + 1]

  template <typename List, typename Each>
  void list(const List &items, std::string_view separator, Each each) {
    bool first = true;
    for (const auto &item : items) {
      if (!first)
        out += separator;
      first = false;
      each(item);
    }
  }

  void inside(const ast::Expr &e) {
    switch (e.kind) {
    case ExprKind::Number:
      out += digits(e.number);
      break;
    case ExprKind::Name:
      out += e.name;
      break;
    case ExprKind::Negate:
      out += '-';
      expr(*e.args[0], kUnary);
      break;
    case ExprKind::Power:
      expr(*e.args[0], kAtom);
      out += '^';
      expr(*e.args[1], kUnary);
      break;
    case ExprKind::Norm:
      out += '|';
      expr(*e.args[0], kSum);
      out += '|';
      break;
    case ExprKind::Stack:
      out += '[';
      list(e.args, "; ", [&](const ast::ExprRef &arg) { expr(*arg, kSum); });
      out += ']';
      break;
    case ExprKind::Call:
      call(e);
      break;
    default:
      chain(e);
    }
  }

  /// Left operands of one level, without recursion: a chain may be thousands long.
  void chain(const ast::Expr &e) {
    Level level = levelOf(e);
    std::vector<const ast::Expr *> operators;
    const ast::Expr *left = &e;
    for (; levelOf(*left) == level; left = left->args[0].get())
      operators.push_back(left);
    expr(*left, level);
    for (; !operators.empty(); operators.pop_back()) {
      std::string_view text = symbol(operators.back()->kind);
      out += tight && level == kProduct ? text.substr(1, 1) : text;
      expr(*operators.back()->args[1], static_cast<Level>(level + 1));
    }
  }

  void call(const ast::Expr &e) {
    out += e.name + '(';
    list(e.args, ", ", [&](const ast::ExprRef &arg) { expr(*arg, kSum); });
    if (!e.args.empty() && !e.named.empty())
      out += ", ";
    named(e.named);
    out += ')';
    if (e.options.empty())
      return;
    out += " with ";
    list(e.options, ", ", [&](const ast::Option &option) {
      out += option.name;
      if (option.value) {
        out += " = ";
        expr(*option.value, kSum);
      } else if (!option.args.empty()) {
        out += '(';
        named(option.args);
        out += ')';
      }
    });
  }

  void named(const std::vector<ast::NamedArg> &items) {
    list(items, ", ", [&](const ast::NamedArg &arg) {
      out += arg.name + " = ";
      expr(*arg.value, kSum);
    });
  }

  void shape(const ast::Shape &s) {
    out += '[';
    list(s.sizes, ", ", [&](const ast::ExprRef &size) {
      tight = true;
      expr(*size, kSum);
      tight = false;
    });
    out += ']';
  }

  void args(const std::vector<ast::Arg> &items) {
    list(items, ", ", [&](const ast::Arg &arg) {
      out += arg.id.name;
      if (arg.shape) {
        out += ": ";
        shape(*arg.shape);
      }
    });
  }

  void draw(const ast::DrawSpec &spec) {
    out += spec.sampler.name;
    if (spec.options.empty())
      return;
    out += '(';
    named(spec.options);
    out += ')';
  }

  void body(const ast::Body &b) {
    if (b.bindings.empty()) {
      out += " = ";
      return expr(*b.result);
    }
    out += " {\n";
    for (const ast::Binding &each : b.bindings)
      binding(each);
    out += "  return ";
    expr(*b.result);
    out += "\n}";
  }

  void binding(const ast::Binding &b) {
    constexpr std::string_view keywords[] = {"param", "draw", "let"};
    out += fmt::format("  {}{} ", b.shared ? "shared " : "", keywords[static_cast<int>(b.kind)]);
    if (b.names.size() == 2)
      out += fmt::format("({}, {})", b.names[0].name, b.names[1].name);
    else
      out += b.names[0].name;
    if (b.shape) {
      out += ": ";
      shape(*b.shape);
    }
    if (b.value) {
      out += " = ";
      expr(*b.value);
    } else if (b.draw) {
      out += " ~ ";
      draw(*b.draw);
    }
    out += '\n';
  }
};

} // namespace

std::string print(const ast::File &file) {
  Printer printer;
  for (const ast::Decl &decl : file.decls) {
    std::visit(printer, decl);
    printer.out += '\n';
  }
  return std::move(printer.out);
}

std::string print(const ast::Expr &e) {
  Printer printer;
  printer.expr(e);
  return std::move(printer.out);
}

} // namespace yaglom
