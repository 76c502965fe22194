// Counter-based random numbers: Philox 4x32-10 and standard normals that have the same bits on every target.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace yaglom {

/// Four 32-bit words: a Philox counter, or one block of its output.
using PhiloxBlock = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

/// Philox 4x32 with 10 rounds (Salmon, Moraes, Dror, Shaw, SC 2011): a bijection of the counter for each key.
PhiloxBlock philox(PhiloxBlock counter, PhiloxKey key);

/// FNV-1a, 64 bits, of the bytes of `text`.
uint64_t fnv1a(std::string_view text);

/// The standard normal numbers of one tensor and head. Each entry is a pure function of (seed, name, head, index),
/// so any part of a tensor can be made alone, in any order, on any device. docs/random.md is the definition.
///
///     NormalStream noise(seed, "fska.W1.noise", head);
///     double z = noise(row * width + column);
class NormalStream {
public:
  /// `name` is the full name of the tensor that receives the numbers; shared tensors have head 0.
  NormalStream(uint64_t seed, std::string_view name, uint64_t head);

  /// Entry `index` of the row-major tensor of this head.
  double operator()(uint64_t index) const;

private:
  PhiloxKey key;
  std::array<uint32_t, 2> tag; ///< the upper half of every counter of this stream
};

/// Turns 2 x 64 random bits into a standard normal number, by integer operations, + - * / sqrt and fma alone.
double normalFromBits(uint64_t radiusBits, uint64_t angleBits);

} // namespace yaglom
