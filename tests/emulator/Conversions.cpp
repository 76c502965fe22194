// cvt, comparisons, moves and the exchange between lanes, against tables by hand and the manual's formulas.
// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/Kernels.h"
#include "tests/unit/Catch.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

namespace yaglom::emulator::test {
namespace {

uint64_t bits(float value) { return std::bit_cast<uint32_t>(value); }
uint64_t bits(double value) { return std::bit_cast<uint64_t>(value); }

Example convert(const std::string &form, unsigned out, unsigned in, std::vector<uint64_t> from,
                std::vector<uint64_t> to) {
  return {"cvt." + form + " %d, %a;", out, {{in, std::move(from)}}, std::move(to)};
}

} // namespace

std::vector<Example> convertExamples() {
  std::vector<Example> made;
  const auto add = [&](const std::string &form, unsigned out, unsigned in, std::vector<uint64_t> from,
                       std::vector<uint64_t> to) {
    made.push_back(convert(form, out, in, std::move(from), std::move(to)));
  };
  // integers: sign extension by the source's type, truncation, saturation
  add("s32.s8", 32, 32, {0x80, 0x17f, 0xff}, {0xffffff80, 0x7f, 0xffffffff});
  add("u32.u8", 32, 32, {0x180, 0xff}, {0x80, 0xff});
  add("s64.s32", 64, 32, {0x80000000, 5}, {0xffffffff80000000, 5});
  add("u64.u32", 64, 32, {0x80000000}, {0x80000000});
  add("s64.s16", 64, 16, {0x8000}, {0xffffffffffff8000});
  add("u16.u32", 16, 32, {0x12345}, {0x2345});
  add("u32.u64", 32, 64, {0x1122334455667788}, {0x55667788});
  add("s8.s32", 32, 32, {0x80, 0x7f}, {0xffffff80, 0x7f});
  add("s16.s8", 16, 16, {0x80}, {0xff80});
  add("u8.u32", 32, 32, {0x1ff}, {0xff});
  add("sat.s8.s32", 32, 32, {1000, 0xfffffc18, 5}, {127, 0xffffff80, 5});
  add("sat.u8.s32", 32, 32, {1000, 0xffffffff, 5}, {255, 0, 5});
  add("sat.u32.s64", 32, 64, {uint64_t(-1), 0x100000000}, {0, 0xffffffff});
  add("sat.s32.u32", 32, 32, {0xffffffff}, {0x7fffffff});
  // float to integer: ties, clamping, NaN
  const std::vector<uint64_t> ties = {bits(2.5f), bits(-2.5f), bits(3.5f), bits(2.4f), bits(-0.5f)};
  add("rni.s32.f32", 32, 32, ties, {2, 0xfffffffe, 4, 2, 0});
  add("rzi.s32.f32", 32, 32, ties, {2, 0xfffffffe, 3, 2, 0});
  add("rmi.s32.f32", 32, 32, ties, {2, 0xfffffffd, 3, 2, 0xffffffff});
  add("rpi.s32.f32", 32, 32, ties, {3, 0xfffffffe, 4, 3, 0});
  const std::vector<uint64_t> far = {bits(1e20f), bits(-1e20f), 0x7fc00000, 0x7f800000};
  add("rzi.s32.f32", 32, 32, far, {0x7fffffff, 0x80000000, 0, 0x7fffffff});
  add("rzi.u32.f32", 32, 32, far, {0xffffffff, 0, 0, 0xffffffff});
  add("rzi.s64.f32", 64, 32, far, {0x7fffffffffffffff, 0x8000000000000000, 0x8000000000000000, 0x7fffffffffffffff});
  add("rzi.u64.f64", 64, 64, {bits(1e30), bits(-1.0), bits(std::nan("")), bits(1.8446744073709550e19)},
      {~0ull, 0, 0x8000000000000000, 18446744073709549568ull});
  add("rzi.s16.f32", 16, 32, {bits(40000.0f), bits(-40000.0f)}, {0x7fff, 0x8000});
  add("rzi.s8.f32", 32, 32, {bits(300.0f), bits(-300.0f)}, {0x7f, 0xffffff80});
  add("rzi.u8.f32", 32, 32, {bits(300.0f)}, {0xff});
  add("rzi.u16.f16", 16, 16, {0x4900}, {10});
  add("rzi.s32.f64", 32, 64, {bits(std::nan("")), bits(-7.9)}, {0x80000000, 0xfffffff9});
  // integer to float: 2^24 + 1 and 2^24 + 3 are ties; 2^53 + 1 in each direction
  add("rn.f32.s32", 32, 32, {16777217, 16777219, 0xffffffff}, {bits(16777216.0f), bits(16777220.0f), bits(-1.0f)});
  add("rz.f32.u32", 32, 32, {0xffffffff}, {0x4f7fffff});
  add("rp.f32.u32", 32, 32, {16777217}, {bits(16777218.0f)});
  add("rm.f32.s32", 32, 32, {uint32_t(-16777217)}, {bits(-16777218.0f)});
  add("rn.f64.u64", 64, 64, {(1ull << 53) + 1, ~0ull}, {bits(0x1p53), bits(0x1p64)});
  add("rn.f32.u64", 32, 64, {(1ull << 63) + (1ull << 39), (1ull << 63) + (1ull << 39) + 1},
      {bits(0x1p63f), bits(0x1p63f + 0x1p40f)});
  add("rn.f64.s32", 64, 32, {0xfffffff9}, {bits(-7.0)});
  add("rn.f16.s32", 16, 32, {2049, 70000}, {0x6800, 0x7c00});
  add("rn.bf16.u32", 16, 32, {257}, {0x4380});
  // float to float
  add("f64.f32", 64, 32, {bits(1.5f), 0x7fc00000}, {bits(1.5), 0x7ff8000000000000});
  add("rn.f32.f64", 32, 64, {bits(1 + 0x1p-24), bits(1 + 0x1p-24 + 0x1p-50), bits(1e300)},
      {bits(1.0f), bits(1 + 0x1p-23f), 0x7f800000});
  add("rz.f32.f64", 32, 64, {bits(1 + 0x1.8p-24), bits(1e300), bits(0x1p-149 + 0x1p-151)}, {bits(1.0f), 0x7f7fffff, 1});
  add("rp.f32.f64", 32, 64, {bits(1 + 0x1p-50)}, {bits(1 + 0x1p-23f)});
  add("rm.f32.f64", 32, 64, {bits(-1 - 0x1p-50)}, {bits(-1 - 0x1p-23f)});
  add("rni.f32.f32", 32, 32, {bits(2.5f), bits(-0.4f), 0x7f800000}, {bits(2.0f), 0x80000000, 0x7f800000});
  add("rmi.f32.f32", 32, 32, {bits(-2.5f)}, {bits(-3.0f)});
  add("rpi.f64.f64", 64, 64, {bits(2.1)}, {bits(3.0)});
  add("sat.f32.f32", 32, 32, {bits(2.0f), bits(-2.0f), 0x7fc00000, bits(0.5f)}, {bits(1.0f), 0, 0, bits(0.5f)});
  add("ftz.f32.f32", 32, 32, {0x80000001}, {0x80000000});
  add("f32.f16", 32, 16, {0x3c00, 0x0001, 0xfc00, 0x7e01}, {bits(1.0f), bits(0x1p-24f), 0xff800000, 0x7fffffff});
  add("f32.bf16", 32, 16, {0x3f80, 0x7fc0}, {bits(1.0f), 0x7fffffff});
  add("rn.f16.f32", 16, 32, {bits(1 + 0x1p-11f), bits(1 + 0x1.8p-10f), bits(65520.0f), bits(0x1p-25f), 0x7fc00000},
      {0x3c00, 0x3c02, 0x7c00, 0, 0x7fff});
  add("rz.f16.f32", 16, 32, {bits(1 + 0x1.8p-10f), bits(70000.0f)}, {0x3c01, 0x7bff});
  add("rn.bf16.f32", 16, 32, {0x3f808000, 0x3f818000, 0x7f7fffff, 0x7fc00000}, {0x3f80, 0x3f82, 0x7f80, 0x7fff});
  add("rz.bf16.f32", 16, 32, {0x3f80ffff}, {0x3f80});
  add("rn.relu.bf16.f32", 16, 32, {bits(-2.0f), bits(2.0f)}, {0, 0x4000});
  add("rn.satfinite.f16.f32", 16, 32, {bits(1e9f), bits(-1e9f)}, {0x7bff, 0xfbff});
  add("rna.tf32.f32", 32, 32, {0x3f801000, 0x3f800fff, 0x7fc00000}, {0x3f802000, 0x3f800000, 0x7fffffff});
  add("rn.tf32.f32", 32, 32, {0x3f801000, 0x3f803000}, {0x3f800000, 0x3f804000});
  add("rn.f16.f64", 16, 64, {bits(1.0 + 0x1p-11 + 0x1p-40)}, {0x3c01});
  const std::vector<In> two = {{32, {bits(1.0f), bits(-1.0f)}}, {32, {bits(2.0f), bits(3.0f)}}};
  made.push_back({"cvt.rn.bf16x2.f32 %d, %a, %b;", 32, two, {0x3f804000, 0xbf804040}}); // the first is the upper half
  made.push_back({"cvt.rn.f16x2.f32 %d, %a, %b;", 32, two, {0x3c004000, 0xbc004200}});
  made.push_back({"cvt.rn.relu.f16x2.f32 %d, %a, %b;", 32, two, {0x3c004000, 0x00004200}});
  made.push_back({"cvt.rz.bf16x2.f32 %d, %a, %b;", 32, {{32, {0x3f80ffff}}, {32, {0xbf80ffff}}}, {0x3f80bf80}});
  return made;
}

namespace {

void addComparisons(std::vector<Example> &made, const std::string &type, unsigned width, std::vector<uint64_t> a,
                    std::vector<uint64_t> b, const std::vector<int> &order, bool floating) {
  // order: -1 less, 0 equal, 1 greater, 2 unordered
  const std::pair<const char *, int> operations[] = {{"eq", 0b010}, {"ne", 0b101}, {"lt", 0b100},
                                                     {"le", 0b110}, {"gt", 0b001}, {"ge", 0b011}};
  for (const auto &[name, accepted] : operations)
    for (const bool unordered : {false, true}) {
      if (unordered && !floating)
        continue;
      Example example{
          fmt::format("setp.{}{}.{} %d, %a, %b;", name, unordered ? "u" : "", type), 1, {{width, a}, {width, b}}, {}};
      for (const int relation : order)
        example.expected.push_back(relation == 2 ? unordered : accepted >> (1 - relation) & 1);
      made.push_back(example);
      Example set{fmt::format("set.{}{}.u32.{} %d, %a, %b;", name, unordered ? "u" : "", type), 32, example.inputs, {}};
      for (const uint64_t value : example.expected)
        set.expected.push_back(value ? 0xffffffff : 0);
      made.push_back(set);
    }
}

} // namespace

std::vector<Example> compareExamples() {
  std::vector<Example> made;
  const std::vector<int> order = {-1, 0, 1, 1};
  for (const unsigned width : {16u, 32u, 64u}) {
    const uint64_t top = uint64_t{1} << (width - 1);
    for (const char *kind : {"u", "s"})
      addComparisons(made, kind + std::to_string(width), width, {1, 7, 9, *kind == 'u' ? top : 0},
                     {2, 7, 8, *kind == 'u' ? 0 : top}, order, false);
    made.push_back({fmt::format("setp.eq.b{} %d, %a, %b;", width), 1, {{width, {1, 2}}, {width, {1, 3}}}, {1, 0}});
    made.push_back(
        {fmt::format("set.ne.s32.b{} %d, %a, %b;", width), 32, {{width, {1, 2}}, {width, {1, 3}}}, {0, 0xffffffff}});
  }
  const std::vector<int> withNan = {-1, 0, 1, 2};
  addComparisons(made, "f32", 32, {bits(1.0f), 0, bits(2.0f), 0x7fc00000}, {bits(2.0f), 0x80000000, bits(1.0f), 0},
                 withNan, true);
  addComparisons(made, "f64", 64, {bits(1.0), 0, bits(2.0), bits(std::nan(""))}, {bits(2.0), bits(-0.0), bits(1.0), 0},
                 withNan, true);
  addComparisons(made, "f16", 16, {0x3c00, 0, 0x4000, 0x7e00}, {0x4000, 0x8000, 0x3c00, 0}, withNan, true);
  addComparisons(made, "bf16", 16, {0x3f80, 0, 0x4000, 0x7fc0}, {0x4000, 0x8000, 0x3f80, 0}, withNan, true);
  made.push_back({"setp.eq.ftz.f32 %d, %a, %b;", 1, {{32, {1}}, {32, {0x80000002}}}, {1}});
  made.push_back({"setp.num.f32 %d, %a, %b;", 1, {{32, {0, 0x7fc00000}}, {32, {0}}}, {1, 0}});
  made.push_back({"setp.nan.f32 %d, %a, %b;", 1, {{32, {0, 0x7fc00000}}, {32, {0}}}, {0, 1}});
  made.push_back({"setp.lo.u32 %d, %a, %b;", 1, {{32, {1, 0xffffffff}}, {32, {2}}}, {1, 0}});
  made.push_back({"setp.hs.u64 %d, %a, %b;", 1, {{64, {1, ~0ull}}, {64, {2}}}, {0, 1}});
  // p = (a < b) op c, q = !(a < b) op c
  const std::vector<In> combined = {{32, {1, 1, 3, 3}}, {32, {2}}, {1, {0, 1, 0, 1}}};
  made.push_back({"setp.lt.and.s32 %d, %a, %b, %c;", 1, combined, {0, 1, 0, 0}});
  made.push_back({"setp.lt.or.s32 %d, %a, %b, !%c;", 1, combined, {1, 1, 1, 0}});
  made.push_back({"setp.lt.xor.s32 %d, %a, %b, %c;", 1, combined, {1, 0, 0, 1}});
  made.push_back({".reg .pred %x; setp.lt.and.s32 %x|%d, %a, %b, %c;", 1, combined, {0, 0, 0, 1}});
  made.push_back({"setp.lt.f16x2 %d|_, %a, %b;", 1, {{32, {0x40003c00}}, {32, {0x3c004000}}}, {1}});
  made.push_back({"setp.lt.bf16x2 _|%d, %a, %b;", 1, {{32, {0x40003f80}}, {32, {0x3f804000}}}, {0}});
  made.push_back({"set.lt.f16x2.f16x2 %d, %a, %b;", 32, {{32, {0x40003c00}}, {32, {0x3c004000}}}, {0x00003c00}});
  made.push_back({"set.gt.bf16x2.bf16x2 %d, %a, %b;", 32, {{32, {0x40003f80}}, {32, {0x3f804000}}}, {0x3f800000}});
  made.push_back({"set.lt.f32.s32 %d, %a, %b;", 32, {{32, {1, 3}}, {32, {2}}}, {bits(1.0f), 0}});
  // moves
  for (const char *type : {"u16", "s16"})
    made.push_back({fmt::format("mov.{} %d, %a;", type), 16, {{16, {0x8001}}}, {0x8001}});
  for (const char *type : {"u32", "s32", "f32"})
    made.push_back({fmt::format("mov.{} %d, %a;", type), 32, {{32, {0x80000001}}}, {0x80000001}});
  for (const char *type : {"u64", "s64", "f64"})
    made.push_back({fmt::format("mov.{} %d, %a;", type), 64, {{64, {1ull << 63 | 5}}}, {1ull << 63 | 5}});
  made.push_back({"mov.f32 %d, 0f3F800000;", 32, {}, {bits(1.0f)}});
  made.push_back({"mov.f64 %d, 0dBFF0000000000000;", 64, {}, {bits(-1.0)}});
  made.push_back({"add.f32 %d, %a, 1.5;", 32, {{32, {bits(1.0f)}}}, {bits(2.5f)}});
  made.push_back({"mov.b32 %d, {%a, %b};", 32, {{16, {0x1122}}, {16, {0x3344}}}, {0x33441122}});
  made.push_back({"mov.b64 %d, {%a, %b};", 64, {{32, {0x11223344}}, {32, {0x55667788}}}, {0x5566778811223344}});
  made.push_back(
      {"mov.b64 %d, {%a, %b, %c, %e};", 64, {{16, {1}}, {16, {2}}, {16, {3}}, {16, {4}}}, {0x0004000300020001}});
  made.push_back({"mov.b32 {_, %d}, %a;", 16, {{32, {0x33441122}}}, {0x3344}});
  made.push_back({"mov.b64 {%d, _}, %a;", 32, {{64, {0x5566778811223344}}}, {0x11223344}});
  for (const unsigned width : {16u, 32u, 64u})
    for (const char *kind : {"b", "u", "s", "f"})
      if (*kind != 'f' || width > 16)
        made.push_back({fmt::format("selp.{}{} %d, %a, %b, %c;", kind, width),
                        width,
                        {{width, {5}}, {width, {6}}, {1, {0, 1}}},
                        {6, 5}});
  made.push_back({"slct.u32.s32 %d, %a, %b, %c;", 32, {{32, {5}}, {32, {6}}, {32, {0, 0xffffffff}}}, {5, 6}});
  made.push_back({"slct.b64.f32 %d, %a, %b, %c;",
                  64,
                  {{64, {5}}, {64, {6}}, {32, {0x80000000, bits(-1.0f), 0x7fc00000}}},
                  {5, 6, 6}});
  made.push_back({"slct.ftz.f32.f32 %d, %a, %b, %c;", 32, {{32, {5}}, {32, {6}}, {32, {0x80000001}}}, {5}});
  return made;
}

std::vector<Example> warpExamples() {
  std::vector<Example> made;
  std::vector<uint64_t> lanes(32), parity(32);
  for (unsigned i = 0; i < 32; ++i)
    lanes[i] = 100 + i, parity[i] = i & 1;
  const auto shuffle = [&](const std::string &mode, unsigned b, unsigned c, auto sourceOf) {
    Example value{fmt::format("shfl.sync.{}.b32 %d, %a, {}, 0x{:x}, 0xffffffff;", mode, b, c), 32, {{32, lanes}}, {}};
    Example inside{
        fmt::format(".reg .b32 %x; shfl.sync.{}.b32 %x|%d, %a, {}, 0x{:x}, -1;", mode, b, c), 1, {{32, lanes}}, {}};
    for (int lane = 0; lane < 32; ++lane) {
      const int source = sourceOf(lane); // -1: outside, the lane keeps its own value
      value.expected.push_back(lanes[source < 0 ? lane : source]);
      inside.expected.push_back(source >= 0);
    }
    made.push_back(value);
    made.push_back(inside);
  };
  shuffle("up", 3, 0, [](int lane) { return lane >= 3 ? lane - 3 : -1; });
  shuffle("down", 5, 31, [](int lane) { return lane + 5 <= 31 ? lane + 5 : -1; });
  shuffle("bfly", 16, 31, [](int lane) { return lane ^ 16; });
  shuffle("idx", 7, 31, [](int) { return 7; });
  // segments of 8 lanes: mask 0x18 in bits 8 to 12
  shuffle("up", 2, 0x1800, [](int lane) { return lane % 8 >= 2 ? lane - 2 : -1; });
  shuffle("down", 2, 0x181f, [](int lane) { return lane % 8 + 2 < 8 ? lane + 2 : -1; });
  shuffle("idx", 3, 0x181f, [](int lane) { return lane / 8 * 8 + 3; });
  shuffle("bfly", 8, 0x181f, [](int lane) { return (lane ^ 8) < lane ? (lane ^ 8) : -1; });
  // a clamp below the segment's end
  shuffle("down", 1, 0x1803, [](int lane) { return lane % 8 + 1 <= 3 ? lane + 1 : -1; });
  made.push_back({"vote.sync.all.pred %d, %a, -1;", 1, {{1, parity}}, {0, 0}});
  made.push_back({"vote.sync.any.pred %d, %a, -1;", 1, {{1, parity}}, {1, 1}});
  made.push_back({"vote.sync.uni.pred %d, %a, -1;", 1, {{1, {1}}}, {1}});
  made.push_back({"vote.sync.all.pred %d, !%a, -1;", 1, {{1, {0}}}, {1}});
  made.push_back({"vote.sync.ballot.b32 %d, %a, -1;", 32, {{1, parity}}, {0xaaaaaaaa}});
  made.push_back({"match.any.sync.b32 %d, %a, -1;", 32, {{32, parity}}, {0x55555555, 0xaaaaaaaa}});
  made.push_back({"match.any.sync.b64 %d, %a, -1;", 32, {{64, parity}}, {0x55555555, 0xaaaaaaaa}});
  made.push_back({"match.all.sync.b32 %d, %a, -1;", 32, {{32, {9}}}, {0xffffffff}});
  made.push_back({".reg .b32 %x; match.all.sync.b32 %x|%d, %a, -1;", 1, {{32, parity}}, {0, 0}});
  made.push_back({"redux.sync.add.u32 %d, %a, -1;", 32, {{32, lanes}}, {3200 + 496}});
  made.push_back({"redux.sync.min.s32 %d, %a, -1;", 32, {{32, {5, 0xffffffff}}}, {0xffffffff}});
  made.push_back({"redux.sync.max.u32 %d, %a, -1;", 32, {{32, {5, 0xffffffff}}}, {0xffffffff}});
  made.push_back({"redux.sync.max.s32 %d, %a, -1;", 32, {{32, {5, 0xffffffff}}}, {5}});
  made.push_back({"redux.sync.and.b32 %d, %a, -1;", 32, {{32, {6, 12}}}, {4}});
  made.push_back({"redux.sync.or.b32 %d, %a, -1;", 32, {{32, {6, 12}}}, {14}});
  made.push_back({"redux.sync.xor.b32 %d, %a, -1;", 32, {{32, {1}}}, {0}});
  made.push_back({"activemask.b32 %d;", 32, {}, {0xffffffff}});
  made.push_back({".reg .b32 %x; elect.sync %x|%d, -1;", 1, {}, {1, 0, 0}});
  for (const auto &[name, value] : std::initializer_list<std::pair<const char *, std::function<uint64_t(unsigned)>>>{
           {"%laneid", [](unsigned i) { return i; }},
           {"%tid.x", [](unsigned i) { return i; }},
           {"%tid.y", [](unsigned) { return 0; }},
           {"%ntid.x", [](unsigned) { return 32; }},
           {"%warpid", [](unsigned) { return 0; }},
           {"%nwarpid", [](unsigned) { return 1; }},
           {"%nctaid.x", [](unsigned) { return 1; }},
           {"%dynamic_smem_size", [](unsigned) { return 0; }},
           {"%lanemask_eq", [](unsigned i) { return 1u << i; }},
           {"%lanemask_lt", [](unsigned i) { return (1u << i) - 1; }},
           {"%lanemask_le", [](unsigned i) { return (2ull << i) - 1; }},
           {"%lanemask_gt", [](unsigned i) { return 0xffffffff & ~((2ull << i) - 1); }},
           {"%lanemask_ge", [](unsigned i) { return 0xffffffff & ~((1ull << i) - 1); }}}) {
    Example example{fmt::format("mov.u32 %d, {};", name), 32, {}, {}};
    for (unsigned lane = 0; lane < 32; ++lane)
      example.expected.push_back(value(lane));
    made.push_back(example);
  }
  return made;
}

TEST_CASE("conversions round, saturate and treat NaN as the manual says") {
  for (const Example &example : convertExamples())
    check(example);
}

TEST_CASE("comparisons, selections and moves are what the manual says") {
  for (const Example &example : compareExamples())
    check(example);
}

TEST_CASE("shuffles, votes and reductions follow the manual's formulas") {
  for (const Example &example : warpExamples())
    check(example);
}

} // namespace yaglom::emulator::test
