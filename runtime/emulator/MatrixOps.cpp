// mma: fragments of tensor cores to matrices and back, and ldmatrix, stmatrix, movmatrix.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/Access.h"
#include "runtime/emulator/Lanes.h"
#include "runtime/emulator/TensorCore.h"
#include "runtime/emulator/WarpCollective.h"

#include <algorithm>

namespace yaglom::emulator {
namespace {

using syntax::Operand;
using syntax::Space;

enum class Element : uint8_t { Half, Bfloat, Tf32 };

/// A multiplication of 16 x K by K x 8. Op::immediate holds the tensor core's terms, and above bit 8 its fraction. slots: D, A, B, C.
struct Shape {
  Element element;
  int K;
  bool halfSum;
  unsigned aRegisters, bRegisters, sumRegisters;
};

constexpr Shape makeShape(Element element, int K, bool halfSum) {
  const int bits = element == Element::Tf32 ? 32 : 16;
  return {element,
          K,
          halfSum,
          static_cast<unsigned>(16 * K * bits / 1024),
          static_cast<unsigned>(8 * K * bits / 1024),
          halfSum ? 2u : 4u};
}

float elementValue(Element element, uint32_t bits) {
  switch (element) {
  case Element::Half:
    return toFloat(Half{static_cast<uint16_t>(bits)});
  case Element::Bfloat:
    return toFloat(Bfloat{static_cast<uint16_t>(bits)});
  default:
    return std::bit_cast<float>(bits & 0xffffe000u); // the hardware reads the upper 19 bits
  }
}

/// Calls use(register, lane, part, row, k) for each element of A: lane = 4 g + t holds rows g and g + 8 (PTX ISA, matrix fragments
/// for mma.m16n8k16, .m16n8k8 and .m16n8k4).
template <class Use>
void forEachA(const Shape &shape, Use use) {
  const bool pairs = shape.element != Element::Tf32;
  for (unsigned r = 0; r < shape.aRegisters; ++r)
    for (unsigned lane = 0; lane < kLanes; ++lane)
      for (unsigned part = 0; part < (pairs ? 2u : 1u); ++part)
        use(r, lane, part, lane / 4 + (r & 1) * 8,
            (pairs ? lane % 4 * 2 + part + (r >> 1) * 8 : lane % 4 + (r >> 1) * 4));
}
/// The same for B: lane = 4 g + t holds column g.
template <class Use>
void forEachB(const Shape &shape, Use use) {
  const bool pairs = shape.element != Element::Tf32;
  for (unsigned r = 0; r < shape.bRegisters; ++r)
    for (unsigned lane = 0; lane < kLanes; ++lane)
      for (unsigned part = 0; part < (pairs ? 2u : 1u); ++part)
        use(r, lane, part, (pairs ? lane % 4 * 2 + part + r * 8 : lane % 4 + r * 4), lane / 4);
}
/// And for C and D.
template <class Use>
void forEachSum(const Shape &shape, Use use) {
  for (unsigned r = 0; r < shape.sumRegisters; ++r)
    for (unsigned lane = 0; lane < kLanes; ++lane)
      for (unsigned part = 0; part < (shape.halfSum ? 2u : 1u); ++part)
        use(r, lane, part, lane / 4 + (shape.halfSum ? r : r >> 1) * 8, lane % 4 * 2 + (shape.halfSum ? part : r & 1));
}

bool allZero(Warp &warp, const uint32_t *slots, unsigned count) {
  uint32_t any = 0;
  for (unsigned r = 0; r < count; ++r)
    for (unsigned lane = 0; lane < kLanes; ++lane)
      any |= warp.words(slots[r])[lane];
  return any == 0;
}

void countMatrix(Warp &warp, const Op &op, bool zeroA, bool zeroB) {
  MatrixCounters &counters = warp.block.result.matrices[op.index];
  ++counters.issued;
  counters.zeroA += zeroA;
  counters.zeroB += zeroB;
}

/// An element of D is valid when its row of A, its column of B and its element of C are.
void propagateValidity(Warp &warp, const Shape &shape, const uint32_t *d, const uint32_t *a, const uint32_t *b,
                       const uint32_t *c) {
  uint32_t rows = 0xffff, columns = 0xff;
  forEachA(shape, [&](unsigned r, unsigned lane, unsigned, unsigned row, unsigned) {
    rows &= warp.validity[a[r]] >> lane & 1 ? ~0u : ~(1u << row);
  });
  forEachB(shape, [&](unsigned r, unsigned lane, unsigned, unsigned, unsigned column) {
    columns &= warp.validity[b[r]] >> lane & 1 ? ~0u : ~(1u << column);
  });
  std::array<uint32_t, 4> valid{kAllLanes, kAllLanes, kAllLanes, kAllLanes};
  forEachSum(shape, [&](unsigned r, unsigned lane, unsigned, unsigned row, unsigned column) {
    if (!(rows >> row & 1) || !(columns >> column & 1) || !(warp.validity[c[r]] >> lane & 1))
      valid[r] &= ~(1u << lane);
  });
  for (unsigned r = 0; r < shape.sumRegisters; ++r)
    warp.setValid(d[r], kAllLanes, valid[r]);
}

/// Compiled for each shape, so that the loops over fragments have constant bounds.
template <Element E, int K, bool HalfSum>
void multiplyMatrices(Warp &warp, const Op &op, uint32_t mask) {
  if (!wholeWarpReady(warp, op, mask))
    return;
  constexpr Shape shape = makeShape(E, K, HalfSum);
  const uint32_t *d = op.slots, *a = d + shape.sumRegisters, *b = a + shape.aRegisters, *c = b + shape.bRegisters;
  countMatrix(warp, op, allZero(warp, a, shape.aRegisters), allZero(warp, b, shape.bRegisters));
  alignas(64) float A[16 * 16], B[16 * 8], C[16 * 8], D[16 * 8];
  const bool pairs = shape.element != Element::Tf32;
  forEachA(shape, [&](unsigned r, unsigned lane, unsigned part, unsigned row, unsigned k) {
    A[row * shape.K + k] = elementValue(shape.element, warp.words(a[r])[lane] >> (pairs ? 16 * part : 0));
  });
  forEachB(shape, [&](unsigned r, unsigned lane, unsigned part, unsigned k, unsigned column) {
    B[k * 8 + column] = elementValue(shape.element, warp.words(b[r])[lane] >> (pairs ? 16 * part : 0));
  });
  forEachSum(shape, [&](unsigned r, unsigned lane, unsigned part, unsigned row, unsigned column) {
    const uint32_t bits = warp.words(c[r])[lane];
    C[row * 8 + column] =
        shape.halfSum ? toFloat(Half{static_cast<uint16_t>(bits >> 16 * part)}) : std::bit_cast<float>(bits);
  });
  const TensorCore core{static_cast<int>(op.immediate & 255), static_cast<int>(op.immediate >> 8)};
  multiply(core, shape.element == Element::Tf32 ? std::max(core.terms / 2, 1) : core.terms, shape.K, A, B, C, D);
  uint32_t sourcesValid = kAllLanes;
  for (unsigned i = 0; i < shape.aRegisters + shape.bRegisters + shape.sumRegisters; ++i)
    sourcesValid &= warp.validity[a[i]];
  if (sourcesValid != kAllLanes) {
    propagateValidity(warp, shape, d, a, b, c);
  } else {
    for (unsigned r = 0; r < shape.sumRegisters; ++r)
      warp.setValid(d[r], kAllLanes, kAllLanes);
  }
  forEachSum(shape, [&](unsigned r, unsigned lane, unsigned part, unsigned row, unsigned column) {
    const float value = D[row * 8 + column];
    uint32_t &to = warp.words(d[r])[lane];
    if (shape.halfSum)
      to = (to & (part ? 0x0000ffffu : 0xffff0000u)) | uint32_t{halfOf(value).bits} << 16 * part;
    else
      to = std::bit_cast<uint32_t>(canonical(value));
  });
}

/// m8n8k4 of f64: lane = 4 g + t holds A[g][t], B[t][g] and C[g][2 t], C[g][2 t + 1]; a chain of fma in the order of k.
void multiplyDouble(Warp &warp, const Op &op, uint32_t mask) {
  if (!wholeWarpReady(warp, op, mask))
    return;
  const uint64_t *a = warp.wides(op.slots[2]), *b = warp.wides(op.slots[3]);
  const auto isZero = [](const uint64_t *values) {
    return std::all_of(values, values + kLanes, [](uint64_t value) { return value == 0; });
  };
  countMatrix(warp, op, isZero(a), isZero(b));
  alignas(64) uint64_t out[2][kLanes];
  std::array<uint32_t, 2> valid{};
  for (unsigned lane = 0; lane < kLanes; ++lane)
    for (unsigned part = 0; part < 2; ++part) {
      const unsigned row = lane / 4, column = lane % 4 * 2 + part;
      double sum = std::bit_cast<double>(warp.wides(op.slots[4 + part])[lane]);
      bool whole = warp.validity[op.slots[4 + part]] >> lane & 1;
      for (unsigned k = 0; k < 4; ++k) {
        sum = std::fma(std::bit_cast<double>(a[4 * row + k]), std::bit_cast<double>(b[4 * column + k]), sum);
        whole = whole && (warp.validity[op.slots[2]] >> (4 * row + k) & 1) &&
                (warp.validity[op.slots[3]] >> (4 * column + k) & 1);
      }
      out[part][lane] = std::bit_cast<uint64_t>(canonical(sum));
      valid[part] |= static_cast<uint32_t>(whole) << lane;
    }
  commit(warp, op.slots[0], out[0], kAllLanes, valid[0]);
  commit(warp, op.slots[1], out[1], kAllLanes, valid[1]);
}

/// The registers of an operand from `at` on.
void decodeFragment(Decoder &decoder, const Operand &operand, unsigned count, unsigned bits, bool into, unsigned &at) {
  const bool vector = operand.kind == Operand::Kind::Vector;
  if ((vector ? operand.elements.size() : 1) != count)
    return decoder.fail(fmt::format("a fragment of {} registers is expected", count));
  for (unsigned i = 0; i < count; ++i) {
    const Operand &element = vector ? operand.elements[i] : operand;
    decoder.op.slots[at++] =
        into ? decoder.destination(element, bits) : decoder.source(element, bits, bits == 64 ? Type::F64 : Type::None);
  }
}

void decodeMultiply(Decoder &decoder) {
  static constexpr struct {
    std::string_view text;
    Shape shape;
    Handler run;
  } kForms[] = {
      {"m16n8k16.row.col.f32.bf16.bf16.f32", makeShape(Element::Bfloat, 16, false),
       multiplyMatrices<Element::Bfloat, 16, false>},
      {"m16n8k8.row.col.f32.bf16.bf16.f32", makeShape(Element::Bfloat, 8, false),
       multiplyMatrices<Element::Bfloat, 8, false>},
      {"m16n8k16.row.col.f32.f16.f16.f32", makeShape(Element::Half, 16, false),
       multiplyMatrices<Element::Half, 16, false>},
      {"m16n8k8.row.col.f32.f16.f16.f32", makeShape(Element::Half, 8, false),
       multiplyMatrices<Element::Half, 8, false>},
      {"m16n8k16.row.col.f16.f16.f16.f16", makeShape(Element::Half, 16, true),
       multiplyMatrices<Element::Half, 16, true>},
      {"m16n8k8.row.col.f16.f16.f16.f16", makeShape(Element::Half, 8, true), multiplyMatrices<Element::Half, 8, true>},
      {"m16n8k8.row.col.f32.tf32.tf32.f32", makeShape(Element::Tf32, 8, false),
       multiplyMatrices<Element::Tf32, 8, false>},
      {"m16n8k4.row.col.f32.tf32.tf32.f32", makeShape(Element::Tf32, 4, false),
       multiplyMatrices<Element::Tf32, 4, false>},
  };
  Op &op = decoder.op;
  std::string form;
  for (const std::string &modifier : decoder.takeAll())
    form += (form.empty() ? "" : ".") + modifier;
  decoder.expectOperands(4, 4);
  op.control = Control::Collective;
  op.aligned = true;
  unsigned at = 0;
  if (form == "sync.aligned.m8n8k4.row.col.f64.f64.f64.f64") {
    for (unsigned i = 0; i < 4; ++i)
      decodeFragment(decoder, decoder.operand(i), i == 0 || i == 3 ? 2 : 1, 64, i == 0, at);
    op.run = multiplyDouble;
    return;
  }
  for (const auto &known : kForms) {
    if (form != "sync.aligned." + std::string(known.text))
      continue;
    const Shape &shape = known.shape;
    decodeFragment(decoder, decoder.operand(0), shape.sumRegisters, 32, true, at);
    decodeFragment(decoder, decoder.operand(1), shape.aRegisters, 32, false, at);
    decodeFragment(decoder, decoder.operand(2), shape.bRegisters, 32, false, at);
    decodeFragment(decoder, decoder.operand(3), shape.sumRegisters, 32, false, at);
    const TensorCore core = TensorCore::of(decoder.target());
    op.immediate = core.terms | core.fraction << 8;
    op.run = known.run;
    return;
  }
  decoder.fail("unknown shape or types of mma");
}

/// ldmatrix and stmatrix. Lanes 8 i to 8 i + 7 give the rows of matrix i, 16 bytes each. slots: registers, then the base.
uint32_t rowLanes(const Op &op) { return op.count == 4 ? kAllLanes : (1u << 8 * op.count) - 1; }

uint32_t rowAddresses(Warp &warp, const Op &op, uint32_t mask, uint64_t *addresses) {
  const uint32_t usable =
      addressesOf(warp, op, mask & rowLanes(op), op.slots[op.count], op.flags & kWideBase, op.immediate, addresses);
  warp.block.count(op, op.space, addresses, usable, 16);
  return usable;
}

/// Where element (row, column) of a matrix lies: the lane, and the half of its register (PTX ISA, ldmatrix).
unsigned elementLane(unsigned row, unsigned column, bool transposed) {
  return transposed ? column * 4 + row / 2 : row * 4 + column / 2;
}
unsigned elementHalf(unsigned row, unsigned column, bool transposed) { return (transposed ? row : column) % 2; }

void loadMatrix(Warp &warp, const Op &op, uint32_t mask) {
  if (!wholeWarpReady(warp, op, mask))
    return;
  alignas(64) uint64_t addresses[kLanes];
  const uint32_t usable = rowAddresses(warp, op, mask, addresses);
  for (unsigned matrix = 0; matrix < op.count; ++matrix) {
    alignas(64) uint32_t out[kLanes] = {};
    uint32_t invalid = 0;
    for (unsigned row = 0; row < 8; ++row) {
      const unsigned from = 8 * matrix + row;
      uint16_t data[8] = {};
      uint64_t valid = 0xffff;
      if (usable >> from & 1)
        valid = warp.block.load(warp, op, from, op.space, addresses[from], 16, data);
      for (unsigned column = 0; column < 8; ++column) {
        const unsigned lane = elementLane(row, column, op.mode);
        out[lane] |= uint32_t{data[column]} << 16 * elementHalf(row, column, op.mode);
        invalid |= static_cast<uint32_t>((valid >> 2 * column & 3) != 3) << lane;
      }
    }
    commit(warp, op.slots[matrix], out, kAllLanes, ~invalid);
  }
}

void storeMatrix(Warp &warp, const Op &op, uint32_t mask) {
  if (!wholeWarpReady(warp, op, mask))
    return;
  alignas(64) uint64_t addresses[kLanes];
  const uint32_t usable = rowAddresses(warp, op, mask, addresses);
  for (unsigned from = 0; from < 8u * op.count; ++from) {
    if (!(usable >> from & 1))
      continue;
    const unsigned matrix = from / 8, row = from % 8;
    const uint32_t *words = warp.words(op.slots[matrix]);
    uint16_t data[8];
    uint64_t valid = 0;
    for (unsigned column = 0; column < 8; ++column) {
      const unsigned lane = elementLane(row, column, op.mode);
      data[column] = static_cast<uint16_t>(words[lane] >> 16 * elementHalf(row, column, op.mode));
      valid |= (warp.validity[op.slots[matrix]] >> lane & 1 ? uint64_t{3} : uint64_t{0}) << 2 * column;
    }
    warp.block.store(warp, op, from, op.space, addresses[from], 16, data, valid);
  }
}

void decodeMatrixAccess(Decoder &decoder, bool loads) {
  Op &op = decoder.op;
  decoder.requireOneOf({"sync"});
  op.aligned = decoder.requireOneOf({"aligned"}) == 0;
  decoder.requireOneOf({"m8n8"});
  op.count = static_cast<uint8_t>(1u << decoder.requireOneOf({"x1", "x2", "x4"}));
  op.mode = decoder.take("trans");
  op.space = decoder.takeSpace();
  if (op.space != Space::Shared && op.space != Space::Generic)
    return decoder.fail("matrices lie in shared memory");
  decoder.expectOperands(2, 2);
  unsigned at = 0;
  decodeFragment(decoder, decoder.operand(loads ? 0 : 1), op.count, 32, loads, at);
  bool wide = false;
  op.slots[at] = decoder.address(decoder.operand(loads ? 1 : 0), op.space, wide, op.immediate);
  op.flags = wide ? kWideBase : 0;
  op.control = Control::Collective;
  op.run = loads ? loadMatrix : storeMatrix;
}
void decodeLoadMatrix(Decoder &decoder) { decodeMatrixAccess(decoder, true); }
void decodeStoreMatrix(Decoder &decoder) { decodeMatrixAccess(decoder, false); }

/// movmatrix: a matrix of 8 x 8, one row in four lanes, transposed.
void moveMatrix(Warp &warp, const Op &op, uint32_t mask) {
  if (!wholeWarpReady(warp, op, mask))
    return;
  alignas(64) uint32_t out[kLanes] = {};
  uint32_t invalid = 0;
  const uint32_t *words = warp.words(op.slots[1]);
  for (unsigned row = 0; row < 8; ++row)
    for (unsigned column = 0; column < 8; ++column) {
      const unsigned from = elementLane(row, column, false), to = elementLane(row, column, true);
      out[to] |= (words[from] >> 16 * elementHalf(row, column, false) & 0xffff) << 16 * elementHalf(row, column, true);
      invalid |= (~warp.validity[op.slots[1]] >> from & 1) << to;
    }
  commit(warp, op.slots[0], out, kAllLanes, ~invalid);
}
void decodeMoveMatrix(Decoder &decoder) {
  for (const char *modifier : {"sync", "aligned", "m8n8", "trans"})
    decoder.requireOneOf({modifier});
  decoder.expectOperands(2, 2);
  decoder.op.slots[0] = decoder.destination(decoder.operand(0), 32);
  decoder.op.slots[1] = decoder.source(decoder.operand(1), 32);
  decoder.op.control = Control::Collective;
  decoder.op.aligned = true;
  decoder.op.run = moveMatrix;
}

constexpr InstructionRow kRows[] = {
    {"mma", "f32 f16 f64", decodeMultiply},
    {"ldmatrix", "b16", decodeLoadMatrix},
    {"stmatrix", "b16", decodeStoreMatrix},
    {"movmatrix", "b16", decodeMoveMatrix},
};

} // namespace

std::span<const InstructionRow> matrixRows() { return kRows; }

} // namespace yaglom::emulator
