// Shapes and sides of linear and softmax_attention, and the values of their options (T8, T9, T12, section 4).
// SPDX-License-Identifier: Apache-2.0
#include "frontend/Builtins.h"
#include "frontend/Shapes.h"

#include <fmt/format.h>

namespace yaglom {

Value ShapeChecker::attend(const ast::Expr &e, const std::vector<Value> &args, Frame &frame) {
  if (!frame.attends) {
    error(e.op, fmt::format("'{}' stands only in an attention, or a fn called there", e.name));
    return {};
  }
  if (args.size() != 3)
    return {};
  constexpr std::string_view places[] = {"the query", "the key", "the value"};
  bool valid = true;
  for (size_t i = 0; i < 3; ++i) {
    const Value &arg = args[i];
    Side place = i == 0 ? Side::Query : Side::Key;
    std::string_view expected = i == 0 ? "query-side" : "key-side";
    if (arg.valid && arg.side != Side::None && arg.side != place) {
      error(e.args[i]->range, fmt::format("{} of {} is {}, found a {} value", places[i], e.name, expected,
                                          arg.side == Side::Query ? "query-side" : "key-side"));
      valid = false;
    } else if (arg.valid && arg.shape.size() != 1) {
      error(e.args[i]->range, fmt::format("{} of {} is a vector, found a {}{}", places[i], e.name, describe(arg),
                                          arg.shape.empty() ? "; write [x] for a vector of one" : ""));
      valid = false;
    }
    valid &= arg.valid;
  }
  if (valid && args[0].shape != args[1].shape) {
    error(e.args[1]->range,
          fmt::format("the query has {} features, the key {}: {}", args[0].shape[0].text(), args[1].shape[0].text(),
                      difference(args[0].shape, args[1].shape)),
          {e.args[0]->range});
    valid = false;
  }
  for (const ast::Option &o : e.options)
    option(o, args[0], args[1], frame);
  Value value;
  value.valid = valid;
  value.side = Side::Query;
  value.shape = args[2].shape;
  return value;
}

void ShapeChecker::option(const ast::Option &option, const Value &q, const Value &k, Frame &frame) {
  if (option.name == "normalize")
    return normalize(option, q, k, frame);
  if (!option.value)
    return;
  Value value = scalarOption(option, frame);
  if (!value.valid)
    return;
  const ast::Range &at = option.value->range;
  if (option.name == "mask" && value.side != Side::Key)
    error(at, fmt::format("'mask' is a key-side scalar, found a {}",
                          value.side == Side::None ? "scalar without a side" : "query-side scalar"));
  if ((option.name == "decay" || option.name == "log_decay") && value.side == Side::Query)
    error(at, fmt::format("'{}' is a scalar per head or a key-side scalar, found a query-side scalar", option.name));
  if (option.name == "decay" && value.number && !(*value.number >= 0))
    error(at, fmt::format("'decay' is at least 0, found {}", *value.number));
  if (option.name == "scale" && value.side != Side::None)
    error(at, fmt::format("'scale' is a scalar per head, found a {}", describe(value)));
}

Value ShapeChecker::scalarOption(const ast::Option &option, Frame &frame) {
  Value value = eval(*option.value, frame);
  if (!value.valid || value.shape.empty())
    return value;
  error(option.value->range, fmt::format("'{}' is a scalar, found {}", option.name, text(value.shape)));
  return {};
}

void ShapeChecker::normalize(const ast::Option &option, const Value &q, const Value &k, Frame &frame) {
  for (const ast::NamedArg &arg : option.args) {
    Value value = eval(*arg.value, frame);
    if (!value.valid)
      continue;
    if (!value.constant || !value.shape.empty())
      error(arg.value->range, fmt::format("'{}' is a positive constant, made of numbers, dimensions and pi", arg.name));
    else if (value.number && !(*value.number > 0 && *value.number <= std::numeric_limits<double>::max()))
      error(arg.value->range, fmt::format("'{}' is a positive constant, found {}", arg.name, *value.number));
  }
  bool positive = q.low >= 0 && k.low >= 0;
  if (option.args.empty() && q.valid && k.valid && !positive)
    warning(
        option.range,
        "features may be negative here, so the normaliser may vanish; use normalize(signed = ...) or a positive map");
}

} // namespace yaglom
