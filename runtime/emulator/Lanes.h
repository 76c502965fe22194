// Executes a function of one lane on all lanes of a warp; internal to the emulator.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/emulator/Decoder.h"
#include "runtime/emulator/Numbers.h"
#include "runtime/emulator/Warp.h"

#include <bit>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

namespace yaglom::emulator {

/// How a value of type T lies in a register slot: 16-bit values in the low half of a word.
template <class T>
using Storage = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <class T>
inline T fromStorage(Storage<T> bits) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(bits);
  else if constexpr (sizeof(T) == 2)
    return std::bit_cast<T>(static_cast<uint16_t>(bits));
  else
    return std::bit_cast<T>(bits);
}

template <class T>
inline Storage<T> toStorage(T value) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<Storage<T>>(static_cast<std::make_unsigned_t<T>>(value));
  else if constexpr (sizeof(T) == 2)
    return std::bit_cast<uint16_t>(value);
  else
    return std::bit_cast<Storage<T>>(value);
}

template <class T>
inline Storage<T> *lanesOf(Warp &warp, uint32_t slot) {
  if constexpr (sizeof(T) == 8)
    return warp.wides(slot);
  else
    return warp.words(slot);
}

/// Writes the lanes of `mask`.
template <class S>
inline void commit(Warp &warp, uint32_t slot, const S *values, uint32_t mask, uint32_t valid) {
  S *into;
  if constexpr (sizeof(S) == 8)
    into = warp.wides(slot);
  else
    into = warp.words(slot);
  if (mask == kAllLanes) {
    std::memcpy(into, values, sizeof(S) * kLanes);
  } else {
    for (unsigned lane = 0; lane < kLanes; ++lane)
      into[lane] = mask >> lane & 1 ? values[lane] : into[lane];
  }
  warp.setValid(slot, mask, valid);
}

namespace detail {

template <class F, class D, class... S, std::size_t... I>
inline void applyLanes(Warp &warp, const Op &op, uint32_t mask, D (*)(S...), std::index_sequence<I...>) {
  alignas(64) Storage<D> out[kLanes];
  const std::tuple<const Storage<S> *...> sources{lanesOf<S>(warp, op.slots[1 + I])...};
  for (unsigned lane = 0; lane < kLanes; ++lane)
    out[lane] = toStorage<D>(F::apply(fromStorage<S>(std::get<I>(sources)[lane])...));
  commit(warp, op.slots[0], out, mask, (kAllLanes & ... & warp.validity[op.slots[1 + I]]));
}

template <class F, class D, class... S, std::size_t... I>
inline void compareLanes(Warp &warp, uint32_t &value, uint32_t &valid, const Op &op, D (*)(S...),
                         std::index_sequence<I...>) {
  const std::tuple<const Storage<S> *...> sources{lanesOf<S>(warp, op.slots[2 + I])...};
  value = 0;
  for (unsigned lane = 0; lane < kLanes; ++lane)
    value |= static_cast<uint32_t>(F::apply(fromStorage<S>(std::get<I>(sources)[lane])...)) << lane;
  valid = (kAllLanes & ... & warp.validity[op.slots[2 + I]]);
}

template <class D, class... S>
constexpr std::size_t arity(D (*)(S...)) {
  return sizeof...(S);
}

} // namespace detail

/// A handler: slot 0 = F::apply(slots 1, 2, ...) in every lane. apply() must be defined for all values: it is called for inactive
/// lanes too.
template <class F>
void lanewise(Warp &warp, const Op &op, uint32_t mask) {
  detail::applyLanes<F>(warp, op, mask, &F::apply, std::make_index_sequence<detail::arity(&F::apply)>());
}

/// The predicate F::apply(slots 2, 3, ...) as a mask.
template <class F>
void compareLanes(Warp &warp, const Op &op, uint32_t &value, uint32_t &valid) {
  detail::compareLanes<F>(warp, value, valid, op, &F::apply, std::make_index_sequence<detail::arity(&F::apply)>());
}

/// lanewise<F<T>> for the integer type, signs kept; bit types count as unsigned.
template <template <class> class F>
Handler pickInteger(Type type) {
  switch (type) {
  case Type::B16:
  case Type::U16:
    return lanewise<F<uint16_t>>;
  case Type::S16:
    return lanewise<F<int16_t>>;
  case Type::B32:
  case Type::U32:
    return lanewise<F<uint32_t>>;
  case Type::S32:
    return lanewise<F<int32_t>>;
  case Type::B64:
  case Type::U64:
    return lanewise<F<uint64_t>>;
  case Type::S64:
    return lanewise<F<int64_t>>;
  default:
    return nullptr;
  }
}

/// Destination and sources, all of the instruction's own width.
inline void decodeSameWidth(Decoder &decoder, std::size_t sources) {
  decoder.expectOperands(sources + 1, sources + 1);
  const unsigned bits = bitsOf(decoder.type());
  decoder.op.slots[0] = decoder.destination(decoder.operand(0), bits);
  for (std::size_t i = 1; i <= sources; ++i)
    decoder.op.slots[i] = decoder.source(decoder.operand(i), bits, decoder.type());
}

} // namespace yaglom::emulator
