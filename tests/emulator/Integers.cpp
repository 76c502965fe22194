// Integer and bit instructions against their definitions in the PTX manual, on random and on special values.
// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/Kernels.h"
#include "tests/unit/Catch.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <random>

namespace yaglom::emulator::test {
namespace {

using Wide = __int128;

uint64_t mask(unsigned bits) { return bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1; }

/// Extreme values first, then random ones.
std::vector<uint64_t> values(unsigned bits, unsigned seed) {
  const uint64_t top = uint64_t{1} << (bits - 1);
  std::vector<uint64_t> made = {0, 1, mask(bits), top, top - 1, 2, 3, top + 1};
  std::mt19937_64 random(seed);
  std::shuffle(made.begin(), made.end(), random);
  while (made.size() < 32)
    made.push_back(random() & mask(bits) >> (made.size() % 3 == 0 ? bits / 2 : 0));
  return made;
}

Wide number(uint64_t value, unsigned bits, bool isSigned) {
  if (!isSigned || !(value >> (bits - 1) & 1))
    return static_cast<Wide>(value);
  return static_cast<Wide>(value) - (static_cast<Wide>(1) << bits);
}

struct IntegerType {
  const char *name;
  unsigned bits;
  bool isSigned;
};
constexpr IntegerType kAll[] = {{"u16", 16, false}, {"s16", 16, true},  {"u32", 32, false},
                                {"s32", 32, true},  {"u64", 64, false}, {"s64", 64, true}};

/// `opcode` of up to three operands of one type: the exact result is cut to `outBits`.
Example make(const std::string &opcode, const IntegerType &type, unsigned operands, unsigned outBits,
             const std::function<Wide(Wide, Wide, Wide)> &exact) {
  Example example;
  example.code = opcode + " %d, %a" + (operands > 1 ? ", %b" : "") + (operands > 2 ? ", %c" : "") + ";";
  example.outBits = outBits;
  for (unsigned i = 0; i < operands; ++i)
    example.inputs.push_back({i == 2 ? outBits : type.bits, values(i == 2 ? outBits : type.bits, 7 + i)});
  for (unsigned lane = 0; lane < 32; ++lane) {
    Wide x[3] = {};
    for (unsigned i = 0; i < operands; ++i)
      x[i] = number(example.inputs[i].values[lane], example.inputs[i].bits, type.isSigned);
    example.expected.push_back(static_cast<uint64_t>(exact(x[0], x[1], x[2])) & mask(outBits));
  }
  return example;
}

Wide divide(Wide a, Wide b, const IntegerType &type) {
  return b == 0 ? static_cast<Wide>(mask(type.bits)) : a / b; // by zero: unspecified by PTX, all ones here
}

void addArithmetic(std::vector<Example> &made, const IntegerType &type) {
  const std::string t = type.name;
  const unsigned bits = type.bits;
  const auto add = [&](const std::string &opcode, unsigned operands, unsigned out, auto exact) {
    made.push_back(make(opcode, type, operands, out, exact));
  };
  add("add." + t, 2, bits, [](Wide a, Wide b, Wide) { return a + b; });
  add("sub." + t, 2, bits, [](Wide a, Wide b, Wide) { return a - b; });
  add("mul.lo." + t, 2, bits, [](Wide a, Wide b, Wide) {
    return static_cast<Wide>(static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b));
  });
  add("mul.hi." + t, 2, bits, [=](Wide a, Wide b, Wide) {
    // for u64 the product needs 128 unsigned bits
    return type.isSigned
               ? a * b >> bits
               : static_cast<Wide>(static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b) >> bits);
  });
  add("mad.lo." + t, 3, bits, [](Wide a, Wide b, Wide c) {
    return static_cast<Wide>(static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b) +
                             static_cast<unsigned __int128>(c));
  });
  add("mad.hi." + t, 3, bits, [=](Wide a, Wide b, Wide c) {
    return (type.isSigned
                ? a * b >> bits
                : static_cast<Wide>(static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b) >> bits)) +
           c;
  });
  add("min." + t, 2, bits, [](Wide a, Wide b, Wide) { return std::min(a, b); });
  add("max." + t, 2, bits, [](Wide a, Wide b, Wide) { return std::max(a, b); });
  add("div." + t, 2, bits, [=](Wide a, Wide b, Wide) { return divide(a, b, type); });
  add("rem." + t, 2, bits, [](Wide a, Wide b, Wide) { return b == 0 ? a : a % b; });
  add("sad." + t, 3, bits, [](Wide a, Wide b, Wide c) { return c + (a < b ? b - a : a - b); });
  if (bits < 64) {
    add("mul.wide." + t, 2, 2 * bits, [](Wide a, Wide b, Wide) { return a * b; });
    add("mad.wide." + t, 3, 2 * bits, [](Wide a, Wide b, Wide c) { return a * b + c; });
  }
  if (type.isSigned) {
    add("abs." + t, 1, bits, [](Wide a, Wide, Wide) { return a < 0 ? -a : a; });
    add("neg." + t, 1, bits, [](Wide a, Wide, Wide) { return -a; });
  }
}

Wide clamp32(Wide value) { return std::clamp<Wide>(value, INT32_MIN, INT32_MAX); }

/// A carry chain: the sum or difference of two numbers of two words, its upper word.
Example chain(const std::string &first, const std::string &second, const std::string &type, bool subtract) {
  const unsigned bits = type.ends_with("64") ? 64 : 32;
  Example example;
  const std::string reg = "b" + std::to_string(bits);
  example.code = fmt::format(".reg .{0} %x; {1}.cc.{2} %x, %a, %b; {3}.{2} %d, %c, %e;", reg, first, type, second);
  example.outBits = bits;
  for (unsigned i = 0; i < 4; ++i)
    example.inputs.push_back({bits, values(bits, 20 + i)});
  for (unsigned lane = 0; lane < 32; ++lane) {
    const uint64_t a = example.inputs[0].values[lane], b = example.inputs[1].values[lane];
    const uint64_t carry = subtract ? a < b : static_cast<unsigned __int128>(a) + b > mask(bits);
    const uint64_t c = example.inputs[2].values[lane], e = example.inputs[3].values[lane];
    example.expected.push_back((subtract ? c - e - carry : c + e + carry) & mask(bits));
  }
  return example;
}

} // namespace

std::vector<Example> integerExamples() {
  std::vector<Example> made;
  for (const IntegerType &type : kAll)
    addArithmetic(made, type);
  const IntegerType s32 = kAll[3], u32 = kAll[2];
  made.push_back(make("add.sat.s32", s32, 2, 32, [](Wide a, Wide b, Wide) { return clamp32(a + b); }));
  made.push_back(make("sub.sat.s32", s32, 2, 32, [](Wide a, Wide b, Wide) { return clamp32(a - b); }));
  made.push_back(make("mad.hi.sat.s32", s32, 3, 32, [](Wide a, Wide b, Wide c) { return clamp32((a * b >> 32) + c); }));
  const auto low24 = [](Wide a) { return a & 0xffffff; };
  const auto signed24 = [](Wide a) { return (a & 0xffffff) - (a >> 23 & 1 ? 0x1000000 : 0); };
  made.push_back(make("mul24.lo.u32", u32, 2, 32, [=](Wide a, Wide b, Wide) { return low24(a) * low24(b); }));
  made.push_back(make("mul24.lo.s32", s32, 2, 32, [=](Wide a, Wide b, Wide) { return signed24(a) * signed24(b); }));
  made.push_back(make("mad24.lo.u32", u32, 3, 32, [=](Wide a, Wide b, Wide c) { return low24(a) * low24(b) + c; }));
  made.push_back(
      make("mad24.lo.s32", s32, 3, 32, [=](Wide a, Wide b, Wide c) { return signed24(a) * signed24(b) + c; }));
  for (const char *type : {"u32", "s32", "u64", "s64"}) {
    made.push_back(chain("add", "addc", type, false));
    made.push_back(chain("sub", "subc", type, true));
  }
  // 1 * 5 + 2 * 6 + 3 * 7 + (255 or -1) * 8 + 100
  made.push_back({"dp4a.u32.u32 %d, %a, %b, 100;", 32, {{32, {0xff030201}}, {32, {0x08070605}}}, {138 + 255 * 8}});
  made.push_back({"dp4a.s32.s32 %d, %a, %b, 100;", 32, {{32, {0xff030201}}, {32, {0x08070605}}}, {138 - 8}});
  made.push_back({"dp4a.u32.s32 %d, %a, %b, 0;", 32, {{32, {0xff000000}}, {32, {0xff000000}}}, {0xffffffffu & -255}});
  made.push_back({"dp4a.s32.u32 %d, %a, %b, 0;", 32, {{32, {0xff000000}}, {32, {0xff000000}}}, {0xffffffffu & -255}});
  made.push_back({"min.relu.s32 %d, %a, %b;", 32, {{32, {5, 0xffffffff, 7}}, {32, {9, 3, 2}}}, {5, 0, 2}});
  made.push_back({"max.relu.s32 %d, %a, %b;", 32, {{32, {0xfffffff0}}, {32, {0xffffffff}}}, {0}});
  return made;
}

namespace {

void addLogic(std::vector<Example> &made, unsigned bits) {
  const IntegerType type{"", bits, false};
  const std::string t = ".b" + std::to_string(bits);
  made.push_back(make("and" + t, type, 2, bits, [](Wide a, Wide b, Wide) { return a & b; }));
  made.push_back(make("or" + t, type, 2, bits, [](Wide a, Wide b, Wide) { return a | b; }));
  made.push_back(make("xor" + t, type, 2, bits, [](Wide a, Wide b, Wide) { return a ^ b; }));
  made.push_back(make("not" + t, type, 1, bits, [](Wide a, Wide, Wide) { return ~a; }));
  made.push_back(make("cnot" + t, type, 1, bits, [](Wide a, Wide, Wide) { return a == 0; }));
  made.push_back(make("mov" + t, type, 1, bits, [](Wide a, Wide, Wide) { return a; }));
  if (bits == 16)
    return;
  made.push_back(
      make("popc" + t, type, 1, 32, [](Wide a, Wide, Wide) { return __builtin_popcountll(static_cast<uint64_t>(a)); }));
  made.push_back(make("clz" + t, type, 1, 32, [=](Wide a, Wide, Wide) {
    Wide count = 0;
    for (int i = static_cast<int>(bits) - 1; i >= 0 && !(a >> i & 1); --i)
      ++count;
    return count;
  }));
  made.push_back(make("brev" + t, type, 1, bits, [=](Wide a, Wide, Wide) {
    Wide out = 0;
    for (unsigned i = 0; i < bits; ++i)
      out |= (a >> i & 1) << (bits - 1 - i);
    return out;
  }));
}

void addShifts(std::vector<Example> &made, const std::string &type, unsigned bits, bool isSigned) {
  std::vector<uint64_t> counts;
  for (const uint64_t count : {0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 100000})
    counts.push_back(count);
  counts.push_back(0xffffffff);
  const std::vector<uint64_t> inputs = values(bits, 3);
  Example left{"shl.b" + std::to_string(bits) + " %d, %a, %b;", bits, {{bits, inputs}, {32, counts}}, {}};
  Example right{"shr." + type + " %d, %a, %b;", bits, {{bits, inputs}, {32, counts}}, {}};
  for (unsigned lane = 0; lane < 32; ++lane) {
    const uint64_t count = std::min<uint64_t>(counts[lane % counts.size()], bits);
    left.expected.push_back(static_cast<uint64_t>(static_cast<unsigned __int128>(inputs[lane]) << count) & mask(bits));
    right.expected.push_back(static_cast<uint64_t>(number(inputs[lane], bits, isSigned) >> count) & mask(bits));
  }
  made.push_back(left);
  made.push_back(right);
}

/// bfe by the manual's text: bits beyond the value repeat the sign of bit min(begin + length - 1, msb).
uint64_t extract(uint64_t a, unsigned begin, unsigned length, unsigned bits, bool isSigned) {
  begin &= 255, length &= 255;
  uint64_t out = 0;
  const unsigned msb = bits - 1;
  const uint64_t sign = !isSigned || length == 0 ? 0 : a >> std::min(begin + length - 1, msb) & 1;
  for (unsigned i = 0; i <= msb; ++i)
    out |= (i < length && begin + i <= msb ? a >> (begin + i) & 1 : sign) << i;
  return out;
}
uint64_t insert(uint64_t a, uint64_t b, unsigned begin, unsigned length, unsigned bits) {
  begin &= 255, length &= 255;
  for (unsigned i = 0; i < length && begin + i < bits; ++i)
    b = (b & ~(uint64_t{1} << (begin + i))) | (i < bits ? (a >> i & 1) : 0) << (begin + i);
  return b;
}

void addFields(std::vector<Example> &made) {
  const std::vector<uint64_t> begins = {0, 4, 8, 31, 32, 33, 60, 63, 64, 300}, lengths = {0, 1, 8, 31, 32, 33, 64, 255};
  for (const IntegerType &type : kAll) {
    if (type.bits == 16)
      continue;
    const std::vector<uint64_t> inputs = values(type.bits, 4);
    Example example{fmt::format("bfe.{} %d, %a, %b, %c;", type.name),
                    type.bits,
                    {{type.bits, inputs}, {32, begins}, {32, lengths}},
                    {}};
    for (unsigned lane = 0; lane < 32; ++lane)
      example.expected.push_back(extract(inputs[lane], begins[lane % begins.size()], lengths[lane % lengths.size()],
                                         type.bits, type.isSigned));
    made.push_back(example);
    Example find{fmt::format("bfind.{} %d, %a;", type.name), 32, {{type.bits, inputs}}, {}};
    Example shift{fmt::format("bfind.shiftamt.{} %d, %a;", type.name), 32, {{type.bits, inputs}}, {}};
    for (unsigned lane = 0; lane < 32; ++lane) {
      uint64_t a = inputs[lane];
      if (type.isSigned && a >> (type.bits - 1) & 1)
        a = ~a & mask(type.bits);
      int64_t top = -1;
      for (unsigned i = 0; i < type.bits; ++i)
        top = a >> i & 1 ? i : top;
      find.expected.push_back(static_cast<uint32_t>(top));
      shift.expected.push_back(static_cast<uint32_t>(top < 0 ? top : type.bits - 1 - top));
    }
    made.push_back(find);
    made.push_back(shift);
  }
  for (const unsigned bits : {32u, 64u}) {
    const std::vector<uint64_t> a = values(bits, 5), b = values(bits, 6);
    Example example{fmt::format("bfi.b{} %d, %a, %b, %c, %e;", bits),
                    bits,
                    {{bits, a}, {bits, b}, {32, begins}, {32, lengths}},
                    {}};
    for (unsigned lane = 0; lane < 32; ++lane)
      example.expected.push_back(
          insert(a[lane], b[lane], begins[lane % begins.size()], lengths[lane % lengths.size()], bits));
    made.push_back(example);
  }
}

} // namespace

std::vector<Example> bitExamples() {
  std::vector<Example> made;
  for (const unsigned bits : {16u, 32u, 64u})
    addLogic(made, bits);
  for (const IntegerType &type : kAll)
    addShifts(made, type.name, type.bits, type.isSigned);
  for (const unsigned bits : {16u, 32u, 64u})
    addShifts(made, "b" + std::to_string(bits), bits, false);
  addFields(made);
  for (const char *op : {"and", "or", "xor"}) {
    const std::string name = op;
    Example example{name + ".pred %d, %a, %b;", 1, {{1, {0, 0, 1, 1}}, {1, {0, 1, 0, 1}}}, {}};
    for (unsigned i = 0; i < 4; ++i)
      example.expected.push_back(name == "and" ? i == 3 : name == "or" ? i > 0 : i == 1 || i == 2);
    made.push_back(example);
  }
  made.push_back({"not.pred %d, %a;", 1, {{1, {0, 1}}}, {1, 0}});
  made.push_back({"mov.pred %d, %a;", 1, {{1, {0, 1}}}, {0, 1}});
  // shf: the manual's concatenation {b, a}, by hand
  const std::vector<In> funnel = {{32, {0x89abcdef}}, {32, {0x01234567}}, {32, {0, 4, 32, 36, 31}}};
  made.push_back(
      {"shf.l.wrap.b32 %d, %a, %b, %c;", 32, funnel, {0x01234567, 0x12345678, 0x01234567, 0x12345678, 0xc4d5e6f7}});
  made.push_back(
      {"shf.l.clamp.b32 %d, %a, %b, %c;", 32, funnel, {0x01234567, 0x12345678, 0x89abcdef, 0x89abcdef, 0xc4d5e6f7}});
  made.push_back(
      {"shf.r.wrap.b32 %d, %a, %b, %c;", 32, funnel, {0x89abcdef, 0x789abcde, 0x89abcdef, 0x789abcde, 0x02468acf}});
  made.push_back(
      {"shf.r.clamp.b32 %d, %a, %b, %c;", 32, funnel, {0x89abcdef, 0x789abcde, 0x01234567, 0x01234567, 0x02468acf}});
  // prmt: the bytes of {b, a} are numbered 0 to 7: a holds 0x10 0x21 0x92 0x83, b 0x44 0x55 0x66 0xf7
  const std::vector<In> bytes = {{32, {0x83922110}}, {32, {0xf7665544}}};
  const auto permute = [&](const std::string &mode, std::vector<uint64_t> selectors, std::vector<uint64_t> expected) {
    std::vector<In> inputs = bytes;
    inputs.push_back({32, std::move(selectors)});
    made.push_back({"prmt.b32" + mode + " %d, %a, %b, %c;", 32, inputs, std::move(expected)});
  };
  permute("", {0x3210, 0x7654, 0x0246, 0xba98, 0xffff, 0x7},
          {0x83922110, 0xf7665544, 0x10924466, 0xffff0000, 0xffffffff, 0x101010f7});
  permute(".f4e", {0, 1, 2, 3}, {0x83922110, 0x44839221, 0x55448392, 0x66554483});
  permute(".b4e", {0, 1, 2, 3}, {0x5566f710, 0x66f71021, 0xf7102192, 0x10219283});
  permute(".rc8", {0, 1, 2, 3}, {0x10101010, 0x21212121, 0x92929292, 0x83838383});
  permute(".ecl", {0, 1, 2, 3}, {0x83922110, 0x83922121, 0x83929292, 0x83838383});
  permute(".ecr", {0, 1, 2, 3}, {0x10101010, 0x21212110, 0x92922110, 0x83922110});
  permute(".rc16", {0, 1}, {0x21102110, 0x83928392});
  const std::vector<In> three = {{32, {0xf0f0f0f0}}, {32, {0xcccccccc}}, {32, {0xaaaaaaaa}}};
  for (const unsigned table :
       {0x80u, 0xfeu, 0x96u, 0xe8u, 0x1au, 0x00u, 0xffu}) // the inputs are the table's own variables
    made.push_back({fmt::format("lop3.b32 %d, %a, %b, %c, 0x{:x};", table), 32, three, {table * 0x01010101u}});
  made.push_back({"bmsk.clamp.b32 %d, %a, %b;",
                  32,
                  {{32, {0, 4, 31, 32, 0}}, {32, {8, 8, 4, 3, 32}}},
                  {0xff, 0xff0, 0x80000000, 0, 0xffffffff}});
  made.push_back({"bmsk.wrap.b32 %d, %a, %b;", 32, {{32, {0, 36}}, {32, {32, 40}}}, {0, 0xff0}});
  return made;
}

TEST_CASE("integer arithmetic is what the manual says") {
  for (const Example &example : integerExamples())
    check(example);
}

TEST_CASE("bit instructions are what the manual says") {
  for (const Example &example : bitExamples())
    check(example);
}

} // namespace yaglom::emulator::test
