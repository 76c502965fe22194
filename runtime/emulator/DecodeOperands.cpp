// Decodes operands: registers to slots, immediates and special registers to constants, addresses.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/Decoder.h"

#include <fmt/format.h>

#include <bit>

namespace yaglom::emulator {

using syntax::Operand;
using syntax::Space;

namespace {

struct SpecialRow {
  std::string_view name;
  Special special;
};

constexpr SpecialRow kSpecials[] = {
    {"%tid.x", Special::TidX},
    {"%tid.y", Special::TidY},
    {"%tid.z", Special::TidZ},
    {"%ntid.x", Special::NtidX},
    {"%ntid.y", Special::NtidY},
    {"%ntid.z", Special::NtidZ},
    {"%ctaid.x", Special::CtaidX},
    {"%ctaid.y", Special::CtaidY},
    {"%ctaid.z", Special::CtaidZ},
    {"%nctaid.x", Special::NctaidX},
    {"%nctaid.y", Special::NctaidY},
    {"%nctaid.z", Special::NctaidZ},
    {"%laneid", Special::Laneid},
    {"%warpid", Special::Warpid},
    {"%nwarpid", Special::Nwarpid},
    {"%smid", Special::Smid},
    {"%nsmid", Special::Nsmid},
    {"%gridid", Special::Gridid},
    {"%lanemask_eq", Special::LanemaskEq},
    {"%lanemask_lt", Special::LanemaskLt},
    {"%lanemask_le", Special::LanemaskLe},
    {"%lanemask_gt", Special::LanemaskGt},
    {"%lanemask_ge", Special::LanemaskGe},
    {"%dynamic_smem_size", Special::DynamicSmemSize},
    {"%total_smem_size", Special::TotalSmemSize},
    {"%cluster_ctaid.x", Special::Zero},
    {"%cluster_ctaid.y", Special::Zero},
    {"%cluster_ctaid.z", Special::Zero},
    {"%cluster_nctaid.x", Special::One},
    {"%cluster_nctaid.y", Special::One},
    {"%cluster_nctaid.z", Special::One},
    {"%cluster_ctarank", Special::Zero},
    {"%cluster_nctarank", Special::One},
    {"%nclusterid.x", Special::NctaidX},
    {"%nclusterid.y", Special::NctaidY},
    {"%nclusterid.z", Special::NctaidZ},
    {"%clusterid.x", Special::CtaidX},
    {"%clusterid.y", Special::CtaidY},
    {"%clusterid.z", Special::CtaidZ},
};

} // namespace

void Decoder::expectOperands(std::size_t least, std::size_t most) {
  if (operands() < least || operands() > most)
    fail(least == most ? fmt::format("expected {} operands, found {}", least, operands())
                       : fmt::format("expected {} to {} operands, found {}", least, most, operands()));
}

const Operand &Decoder::operand(std::size_t at) {
  static const Operand kNone;
  if (at >= operands()) {
    fail("an operand is missing");
    return kNone;
  }
  return current->operands[at];
}

uint32_t Decoder::constant(uint64_t value, bool wide) {
  const auto [at, added] = constants.emplace(std::tuple(wide, value), made.slots);
  if (added) {
    made.constants.push_back({made.slots, wide, value});
    made.slots += wide ? 2 : 1;
  }
  return at->second;
}

uint32_t Decoder::constantPredicate(bool value) {
  made.predicateConstants.push_back({made.predicates, value});
  return made.predicates++;
}

uint32_t Decoder::scratch(bool wide) {
  const uint32_t slot = made.slots;
  made.slots += wide ? 2 : 1;
  return slot;
}

uint32_t Decoder::scratchPredicate() { return made.predicates++; }

uint32_t Decoder::special(const std::string &name, unsigned bits) {
  for (const SpecialRow &row : kSpecials) {
    if (row.name != name)
      continue;
    const bool wide = bits == 64;
    const auto [at, added] = specials.emplace(std::tuple(wide, static_cast<uint8_t>(row.special)), made.slots);
    if (added) {
      made.specials.push_back({made.slots, wide, row.special});
      made.slots += wide ? 2 : 1;
    }
    return at->second;
  }
  fail(fmt::format("unknown register '{}'", name));
  return 0;
}

uint64_t Decoder::bitsOfImmediate(const Operand &operand, unsigned bits, Type type) {
  uint64_t value = operand.value;
  switch (operand.kind) {
  case Operand::Kind::Integer:
    if ((type == Type::F32 || type == Type::F64) && value != 0)
      fail(fmt::format("'{}' is a whole number; a fraction is expected", operand.name));
    break;
  case Operand::Kind::Float32:
    if (bits == 64)
      value = std::bit_cast<uint64_t>(static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(value))));
    else if (bits != 32)
      fail(fmt::format("'{}' does not fit {} bits", operand.name, bits));
    break;
  default:
    if (bits == 32)
      value = std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(value)));
    else if (bits != 64)
      fail(fmt::format("'{}' does not fit {} bits", operand.name, bits));
  }
  return bits >= 64 ? value : value & ((uint64_t{1} << bits) - 1);
}

uint64_t Decoder::immediate(const Operand &operand) {
  if (operand.kind == Operand::Kind::Label && operand.name == "WARP_SZ")
    return kLanes;
  if (operand.kind != Operand::Kind::Integer)
    fail("a whole number is expected");
  return operand.value;
}

std::optional<uint64_t> Decoder::symbolAddress(const std::string &name, Space &space) const {
  const auto found = symbols.find(name);
  if (found == symbols.end())
    return std::nullopt;
  space = found->second.first;
  return found->second.second;
}

uint32_t Decoder::source(const Operand &operand, unsigned bits, Type type) {
  const bool wide = bits == 64;
  switch (operand.kind) {
  case Operand::Kind::Register: {
    const Register &reg = registers[operand.index];
    if (operand.negated)
      fail(fmt::format("'!{}' is not allowed here", operand.name));
    if (bitsOf(reg.type) != bits)
      fail(fmt::format("'{}' has {} bits; {} are expected", operand.name, bitsOf(reg.type), bits));
    return reg.slot;
  }
  case Operand::Kind::Integer:
  case Operand::Kind::Float32:
  case Operand::Kind::Float64:
    if (bits == 1)
      return constantPredicate(operand.value != 0);
    return constant(bitsOfImmediate(operand, bits, type), wide);
  case Operand::Kind::Special:
    return special(operand.name, bits);
  case Operand::Kind::Symbol: {
    Space space = Space::Generic;
    const std::optional<uint64_t> address = symbolAddress(operand.name, space);
    if (!address || bits < 32)
      fail(fmt::format("'{}' has no address here", operand.name));
    return constant(address.value_or(0) + static_cast<uint64_t>(operand.offset), wide);
  }
  case Operand::Kind::Label:
    if (operand.name == "WARP_SZ")
      return constant(kLanes, wide);
    fail(fmt::format("'{}' is neither a register nor a variable", operand.name));
    return 0;
  default:
    fail("a register or a number is expected");
    return 0;
  }
}

uint32_t Decoder::destination(const Operand &operand, unsigned bits) {
  if (operand.kind == Operand::Kind::Sink)
    return bits == 1 ? scratchPredicate() : scratch(bits == 64);
  if (operand.kind != Operand::Kind::Register || operand.negated) {
    fail("a destination is a register");
    return 0;
  }
  return source(operand, bits);
}

uint32_t Decoder::looseSource(const Operand &operand, Type type, bool &wide) {
  wide = bitsOf(type) == 64;
  if (operand.kind != Operand::Kind::Register)
    return source(operand, wide ? 64 : bitsOf(type) == 16 ? 16 : 32, type);
  const Register &reg = registers[operand.index];
  if (bitsOf(reg.type) < bitsOf(type) || reg.type == Type::Pred || operand.negated)
    fail(fmt::format("'{}' has {} bits; at least {} are expected", operand.name, bitsOf(reg.type), bitsOf(type)));
  wide = bitsOf(reg.type) == 64;
  return reg.slot;
}

uint32_t Decoder::looseDestination(const Operand &operand, Type type, bool &wide) {
  if (operand.kind == Operand::Kind::Sink) {
    wide = bitsOf(type) == 64;
    return scratch(wide);
  }
  if (operand.kind != Operand::Kind::Register) {
    fail("a destination is a register");
    return 0;
  }
  return looseSource(operand, type, wide);
}

uint32_t Decoder::predicate(const Operand &operand, bool &negated) {
  negated = operand.negated;
  Operand plain = operand;
  plain.negated = false;
  return source(plain, 1);
}

uint32_t Decoder::address(const Operand &operand, Space space, bool &wide, int64_t &displacement) {
  wide = true;
  if (operand.kind != Operand::Kind::Address) {
    fail("an address in brackets is expected");
    return 0;
  }
  displacement = operand.offset;
  const Operand &base = operand.elements.front();
  if (base.kind == Operand::Kind::Register) {
    const Register &reg = registers[base.index];
    wide = bitsOf(reg.type) == 64;
    if (!wide && (bitsOf(reg.type) != 32 || space == Space::Generic || space == Space::Global))
      fail(fmt::format("'{}' has {} bits; an address has 64", base.name, bitsOf(reg.type)));
    return reg.slot;
  }
  if (base.kind == Operand::Kind::Integer)
    return constant(base.value, true);
  Space of = Space::Generic;
  const std::optional<uint64_t> at =
      base.kind == Operand::Kind::Symbol ? symbolAddress(base.name, of) : std::optional<uint64_t>();
  if (!at) {
    fail(fmt::format("'{}' is neither a register nor a variable", base.name));
    return 0;
  }
  if (space == Space::Generic)
    return constant(*at + (of == Space::Shared  ? kSharedWindow
                           : of == Space::Local ? kLocalWindow
                           : of == Space::Param ? kParamWindow
                                                : 0),
                    true);
  if (space != of)
    fail(fmt::format("'{}' lies in another state space", base.name));
  return constant(*at, true);
}

uint32_t Decoder::label(const std::string &name) {
  const auto found = labels.find(name);
  if (found != labels.end())
    return found->second;
  fail(fmt::format("unknown label '{}'", name));
  return 0;
}

const syntax::BranchTargets *Decoder::branchTargets(const std::string &name) const {
  for (const syntax::BranchTargets &targets : source_.branchTargets)
    if (targets.name == name)
      return &targets;
  return nullptr;
}

} // namespace yaglom::emulator
