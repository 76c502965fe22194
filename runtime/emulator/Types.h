// The types of PTX instructions and registers, by name and width.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace yaglom::emulator {

enum class Type : uint8_t {
  None,
  Pred,
  B8,
  B16,
  B32,
  B64,
  B128,
  U8,
  U16,
  U32,
  U64,
  S8,
  S16,
  S32,
  S64,
  F16,
  BF16,
  F32,
  F64,
  TF32,
  F16x2,
  BF16x2,
};

namespace detail {
struct TypeRow {
  std::string_view name;
  uint8_t bits;
};
inline constexpr std::array<TypeRow, 22> kTypes = {
    {{"", 0},      {"pred", 1}, {"b8", 8},   {"b16", 16},  {"b32", 32},   {"b64", 64},   {"b128", 128}, {"u8", 8},
     {"u16", 16},  {"u32", 32}, {"u64", 64}, {"s8", 8},    {"s16", 16},   {"s32", 32},   {"s64", 64},   {"f16", 16},
     {"bf16", 16}, {"f32", 32}, {"f64", 64}, {"tf32", 32}, {"f16x2", 32}, {"bf16x2", 32}}};
} // namespace detail

/// "f32", without the point.
constexpr std::string_view toText(Type type) { return detail::kTypes[static_cast<std::size_t>(type)].name; }
/// Width in bits; 1 for a predicate, 0 for None.
constexpr unsigned bitsOf(Type type) { return detail::kTypes[static_cast<std::size_t>(type)].bits; }
constexpr unsigned bytesOf(Type type) { return (bitsOf(type) + 7) / 8; }

/// The type of that name (without the point), or None.
constexpr Type parseType(std::string_view name) {
  for (std::size_t i = 1; i < detail::kTypes.size(); ++i)
    if (detail::kTypes[i].name == name)
      return static_cast<Type>(i);
  return Type::None;
}

constexpr bool isSigned(Type type) { return type >= Type::S8 && type <= Type::S64; }
constexpr bool isFloat(Type type) { return type >= Type::F16; }

} // namespace yaglom::emulator
