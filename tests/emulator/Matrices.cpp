// mma, ldmatrix, stmatrix and movmatrix: fragment layouts against the manual's formulas, products against sums in double.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/TensorCore.h"
#include "tests/emulator/Kernels.h"
#include "tests/unit/Catch.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <numeric>
#include <random>

namespace yaglom::emulator::test {
namespace {

/// Registers of lane i from 32-bit words [register][lane] of a buffer, and back.
std::string loadFragment(const std::string &pointer, const std::string &prefix, unsigned first, unsigned count) {
  std::string code = fmt::format("  add.u64 %rd40, {}, %rd49;\n", pointer);
  for (unsigned i = 0; i < count; ++i)
    code += fmt::format("  ld.global.b32 {}{}, [%rd40+{}];\n", prefix, first + i, 128 * i);
  return code;
}
std::string registerList(const std::string &prefix, unsigned first, unsigned count) {
  std::string text = "{";
  for (unsigned i = 0; i < count; ++i)
    text += fmt::format("{}{}{}", i ? ", " : "", prefix, first + i);
  return text + "}";
}

struct Form {
  const char *name;
  const char *element; ///< f16, bf16 or tf32
  unsigned K;
  bool halfSum;
};
constexpr Form kForms[] = {
    {"m16n8k16.row.col.f32.bf16.bf16.f32", "bf16", 16, false}, {"m16n8k8.row.col.f32.bf16.bf16.f32", "bf16", 8, false},
    {"m16n8k16.row.col.f32.f16.f16.f32", "f16", 16, false},    {"m16n8k8.row.col.f32.f16.f16.f32", "f16", 8, false},
    {"m16n8k16.row.col.f16.f16.f16.f16", "f16", 16, true},     {"m16n8k8.row.col.f16.f16.f16.f16", "f16", 8, true},
    {"m16n8k8.row.col.f32.tf32.tf32.f32", "tf32", 8, false},   {"m16n8k4.row.col.f32.tf32.tf32.f32", "tf32", 4, false}};

bool isTf32(const Form &form) { return std::string(form.element) == "tf32"; }
unsigned aCount(const Form &form) { return form.K * 16 * (isTf32(form) ? 4 : 2) / 128; }
unsigned bCount(const Form &form) { return form.K * 8 * (isTf32(form) ? 4 : 2) / 128; }

std::string multiplyText(const Form &form) {
  const unsigned sums = form.halfSum ? 2 : 4;
  const std::string sum = form.halfSum ? "%r" : "%f";
  const unsigned c = form.halfSum ? 30 : 10, d = form.halfSum ? 40 : 20;
  std::string code = loadFragment("%p0", "%r", 1, aCount(form)) + loadFragment("%p1", "%r", 10, bCount(form)) +
                     loadFragment("%p2", sum, c, sums);
  code += fmt::format("  mma.sync.aligned.{} {}, {}, {}, {};\n  add.u64 %rd40, %p3, %rd49;\n", form.name,
                      registerList(sum, d, sums), registerList("%r", 1, aCount(form)),
                      registerList("%r", 10, bCount(form)), registerList(sum, c, sums));
  for (unsigned i = 0; i < sums; ++i)
    code += fmt::format("  st.global.b32 [%rd40+{}], {}{};\n", 128 * i, sum, d + i);
  return kernel(code, 4, "", "sm_80");
}

uint16_t halfBits(float value) { // of a small whole number or fraction that a half holds exactly
  if (value == 0)
    return 0;
  int exponent = 0;
  const float fraction = std::frexp(std::fabs(value), &exponent); // in [0.5, 1)
  return static_cast<uint16_t>((value < 0 ? 0x8000 : 0) | (exponent + 14) << 10 |
                               static_cast<int>(fraction * 2048 - 1024));
}
uint32_t elementBits(const Form &form, float value) {
  const std::string element = form.element;
  const uint32_t word = std::bit_cast<uint32_t>(value);
  return element == "tf32" ? word : element == "bf16" ? word >> 16 : halfBits(value);
}

/// The manual's formulas (PTX ISA, matrix fragments): row and column of element i of a lane's fragment.
void placeA(const Form &form, unsigned lane, unsigned i, unsigned &row, unsigned &column) {
  const unsigned group = lane >> 2, inGroup = lane % 4;
  if (isTf32(form)) {
    row = form.K == 4 ? (i == 0 ? group : group + 8) : (i == 0 || i == 2 ? group : group + 8);
    column = i < 2 ? inGroup : inGroup + 4;
  } else {
    row = (i % 4) < 2 ? group : group + 8;
    column = inGroup * 2 + (i & 1) + (i >= 4 ? 8 : 0);
  }
}
void placeB(const Form &form, unsigned lane, unsigned i, unsigned &row, unsigned &column) {
  const unsigned group = lane >> 2, inGroup = lane % 4;
  row = isTf32(form) ? inGroup + 4 * i : inGroup * 2 + (i & 1) + (i >= 2 ? 8 : 0);
  column = group;
}
void placeC(unsigned lane, unsigned i, unsigned &row, unsigned &column) {
  row = (lane >> 2) + (i < 2 ? 0 : 8);
  column = (lane % 4) * 2 + (i & 1);
}

struct Problem {
  std::vector<float> A, B, C;
  std::vector<uint32_t> a = std::vector<uint32_t>(4 * 32), b = std::vector<uint32_t>(2 * 32),
                        c = std::vector<uint32_t>(4 * 32), d = std::vector<uint32_t>(4 * 32);
};

Problem makeProblem(const Form &form, unsigned seed) {
  std::mt19937 random(seed);
  const auto draw = [&] { return static_cast<float>(static_cast<int>(random() % 17) - 8) / 8; };
  Problem made{
      std::vector<float>(16 * form.K), std::vector<float>(form.K * 8), std::vector<float>(128), {}, {}, {}, {}};
  made.a.assign(128, 0), made.b.assign(64, 0), made.c.assign(128, 0), made.d.assign(128, 0);
  for (auto *matrix : {&made.A, &made.B, &made.C})
    for (float &value : *matrix)
      value = draw();
  const unsigned parts = isTf32(form) ? 1 : 2, bits = isTf32(form) ? 0 : 16;
  unsigned row = 0, column = 0;
  for (unsigned lane = 0; lane < 32; ++lane) {
    for (unsigned i = 0; i < aCount(form) * parts; ++i) {
      placeA(form, lane, i, row, column);
      made.a[i / parts * 32 + lane] |= elementBits(form, made.A[row * form.K + column]) << bits * (i % parts);
    }
    for (unsigned i = 0; i < bCount(form) * parts; ++i) {
      placeB(form, lane, i, row, column);
      made.b[i / parts * 32 + lane] |= elementBits(form, made.B[row * 8 + column]) << bits * (i % parts);
    }
    for (unsigned i = 0; i < 4; ++i) {
      placeC(lane, i, row, column);
      const float value = made.C[row * 8 + column];
      if (form.halfSum)
        made.c[i / 2 * 32 + lane] |= uint32_t{halfBits(value)} << 16 * (i % 2);
      else
        made.c[i * 32 + lane] = std::bit_cast<uint32_t>(value);
    }
  }
  return made;
}

const char *kDouble = R"(
  mul.wide.u32 %rd1, %r49, 8;
  add.u64 %rd2, %p0, %rd1;  ld.global.f64 %fd1, [%rd2];
  add.u64 %rd3, %p1, %rd1;  ld.global.f64 %fd2, [%rd3];
  add.u64 %rd4, %p2, %rd1;  ld.global.f64 %fd3, [%rd4];  ld.global.f64 %fd4, [%rd4+256];
  mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%fd5, %fd6}, {%fd1}, {%fd2}, {%fd3, %fd4};
  add.u64 %rd5, %p3, %rd1;  st.global.f64 [%rd5], %fd5;  st.global.f64 [%rd5+256], %fd6;
)";

/// ldmatrix of `count` matrices whose rows lie one after the other, then the registers to p1.
std::string loadMatrixText(unsigned count, bool transposed) {
  std::string code = "  shl.b32 %r1, %r49, 4;\n  cvt.u64.u32 %rd1, %r1;\n  add.u64 %rd2, %p0, %rd1;\n  "
                     "ld.global.v4.b32 {%r2, %r3, %r4, %r5}, [%rd2];\n"
                     "  mov.u32 %r6, tile;\n  add.u32 %r7, %r6, %r1;\n  st.shared.v4.b32 [%r7], {%r2, %r3, %r4, "
                     "%r5};\n  bar.warp.sync -1;\n";
  code += fmt::format("  ldmatrix.sync.aligned.m8n8.x{}{}.shared.b16 {}, [%r7];\n  add.u64 %rd3, %p1, %rd49;\n", count,
                      transposed ? ".trans" : "", registerList("%r", 10, count));
  for (unsigned i = 0; i < count; ++i)
    code += fmt::format("  st.global.b32 [%rd3+{}], %r{};\n", 128 * i, 10 + i);
  return kernel(code, 2, ".shared .align 16 .b8 tile[512];", "sm_80");
}

/// Registers from p0 by stmatrix to shared memory, whose bytes go to p1.
std::string storeMatrixText(unsigned count, bool transposed) {
  std::string code = loadFragment("%p0", "%r", 10, count) +
                     "  shl.b32 %r1, %r49, 4;\n  mov.u32 %r6, tile;\n  add.u32 %r7, %r6, %r1;\n";
  code += fmt::format(
      "  stmatrix.sync.aligned.m8n8.x{}{}.shared.b16 [%r7], {};\n  bar.warp.sync -1;\n  setp.lt.u32 %q1, %r49, {};\n",
      count, transposed ? ".trans" : "", registerList("%r", 10, count), 8 * count);
  code += "  cvt.u64.u32 %rd1, %r1;\n  add.u64 %rd2, %p1, %rd1;\n  @%q1 ld.shared.v4.b32 {%r2, %r3, %r4, %r5}, [%r7];\n"
          "  @%q1 st.global.v4.b32 [%rd2], {%r2, %r3, %r4, %r5};\n";
  return kernel(code, 2, ".shared .align 16 .b8 tile[512];");
}

const char *kMoveMatrix =
    "  add.u64 %rd1, %p0, %rd49;\n  ld.global.b32 %r1, [%rd1];\n  movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1;\n  "
    "add.u64 %rd2, %p1, %rd49;\n  st.global.b32 [%rd2], %r2;\n";

} // namespace

std::vector<NamedText> matrixTexts() {
  std::vector<NamedText> made;
  for (const Form &form : kForms)
    made.push_back({form.name, multiplyText(form)});
  made.push_back({"m8n8k4", kernel(kDouble, 4, "", "sm_80")});
  made.push_back({"ldmatrix", loadMatrixText(4, false)});
  made.push_back({"ldmatrix-trans", loadMatrixText(2, true)});
  made.push_back({"stmatrix", storeMatrixText(4, false)});
  made.push_back({"movmatrix", kernel(kMoveMatrix, 2)});
  for (const char *name : {"reduce.ptx", "matmul.ptx"})
    made.push_back({name, readPtx(name)});
  return made;
}

TEST_CASE("mma multiplies the matrices that the manual's fragments hold") {
  for (const Form &form : kForms)
    for (const unsigned seed : {1u, 2u}) {
      Problem problem = makeProblem(form, seed);
      const Report report = execute(multiplyText(form), {buffer("a", problem.a, false), buffer("b", problem.b, false),
                                                         buffer("c", problem.c, false), buffer("d", problem.d)});
      INFO(form.name);
      CHECK(report.findingsText() == "");
      REQUIRE(report.counters.matrices.size() == 1);
      CHECK(report.counters.matrices[0].issued == 1);
      for (unsigned lane = 0; lane < 32; ++lane)
        for (unsigned i = 0; i < 4; ++i) {
          unsigned row = 0, column = 0;
          placeC(lane, i, row, column);
          float exact = problem.C[row * 8 + column]; // multiples of 1/64 below 32: exact in every order
          for (unsigned k = 0; k < form.K; ++k)
            exact += problem.A[row * form.K + k] * problem.B[k * 8 + column];
          if (form.halfSum)
            CHECK((problem.d[i / 2 * 32 + lane] >> 16 * (i % 2) & 0xffff) == halfBits(exact));
          else
            CHECK(std::bit_cast<float>(problem.d[i * 32 + lane]) == exact);
        }
    }
}

TEST_CASE("tf32 factors are read from their upper 19 bits") {
  const Form form = kForms[7];
  Problem problem = makeProblem(form, 3);
  std::vector<uint32_t> plain;
  for (const bool dirty : {false, true}) {
    for (uint32_t &word : problem.a)
      word |= dirty ? 0x1fff : 0;
    execute(multiplyText(form),
            {buffer("a", problem.a), buffer("b", problem.b), buffer("c", problem.c), buffer("d", problem.d)});
    if (!dirty)
      plain = problem.d;
  }
  CHECK(plain == problem.d);
}

TEST_CASE("mma counts fragments that are all zero") {
  Problem problem = makeProblem(kForms[0], 4);
  problem.a.assign(128, 0);
  const Report report = execute(multiplyText(kForms[0]), {buffer("a", problem.a), buffer("b", problem.b),
                                                          buffer("c", problem.c), buffer("d", problem.d)});
  CHECK(report.counters.matrices[0].zeroA == 1);
  CHECK(report.counters.matrices[0].zeroB == 0);
}

TEST_CASE("a tensor core aligns a block of products to the largest and cuts off") {
  // one column: products p[k] = A[0][k] * B[k][0]
  const auto dot = [](const TensorCore &core, std::vector<float> products, float c) {
    std::vector<float> A(256), B(128), C(128), D(128);
    products.resize(16);
    for (unsigned k = 0; k < 16; ++k)
      A[k] = products[k], B[k * 8] = 1;
    C[0] = c;
    multiply(core, core.terms, 16, A.data(), B.data(), C.data(), D.data());
    return D[0];
  };
  const TensorCore hopper{16, 25}, ampere{8, 24};
  CHECK(dot(hopper, {1, 0x1p-24f}, 0) == 1.0f);                   // cut off, not rounded
  CHECK(dot(hopper, {1, 0x1p-24f, 0x1p-24f}, 0) == 1 + 0x1p-23f); // kept until the end
  CHECK(dot(hopper, {1, 0x1p-25f, 0x1p-25f, 0x1p-25f, 0x1p-25f}, 0) == 1 + 0x1p-23f);
  CHECK(dot(ampere, {1, 0x1p-25f, 0x1p-25f, 0x1p-25f, 0x1p-25f}, 0) == 1.0f);         // a bit less
  CHECK(dot(hopper, {-1, -0x1p-24f}, 0) == -1.0f);                                    // towards zero
  CHECK(dot(hopper, {0x1p20f, -0x1p20f, 0x1p-20f}, 0) == 0.0f);                       // too small beside the largest
  CHECK(dot(ampere, {0x1p20f, -0x1p20f, 0, 0, 0, 0, 0, 0, 0x1p-20f}, 0) == 0x1p-20f); // in the second block
  CHECK(dot(hopper, {1}, 0x1p-24f) == 1.0f);
  CHECK(dot(hopper, {INFINITY}, 1) == INFINITY);
  CHECK(std::isnan(dot(hopper, {INFINITY, -INFINITY}, 1)));
  CHECK(dot(hopper, {0x1p-140f}, 0) == 0x1p-140f); // subnormal numbers count
  CHECK(TensorCore::of("sm_80").terms == 8);
  CHECK(TensorCore::of("sm_90a").fraction == 25);
}

TEST_CASE("the tensor core of f64 is a chain of fma") {
  std::vector<double> a(32), b(32), c(64), d(64);
  std::mt19937 random(5);
  for (auto *values : {&a, &b, &c})
    for (double &value : *values)
      value = static_cast<double>(static_cast<int32_t>(random())) / 65536;
  execute(kernel(kDouble, 4, "", "sm_80"), {buffer("a", a), buffer("b", b), buffer("c", c), buffer("d", d)});
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned row = lane >> 2, column = lane % 4 * 2 + i;
      double sum = c[32 * i + lane];
      for (unsigned k = 0; k < 4; ++k)
        sum = std::fma(a[row * 4 + k], b[column * 4 + k],
                       sum); // A[row][k] in lane 4 row + k, B[k][column] in lane 4 column + k
      CHECK(d[32 * i + lane] == sum);
    }
}

TEST_CASE("ldmatrix and stmatrix put element (i, j) where the manual says") {
  for (const bool transposed : {false, true})
    for (const unsigned count : {1u, 2u, 4u}) {
      std::vector<uint16_t> rows(256), registers(256), back(256, 0xffff);
      std::iota(rows.begin(), rows.end(), uint16_t{0});
      CHECK(
          execute(loadMatrixText(count, transposed), {buffer("rows", rows), buffer("out", registers)}).findingsText() ==
          "");
      for (unsigned matrix = 0; matrix < count; ++matrix)
        for (unsigned lane = 0; lane < 32; ++lane)
          for (unsigned part = 0; part < 2; ++part) {
            const unsigned row = lane / 4, column = lane % 4 * 2 + part;
            CHECK(registers[(matrix * 32 + lane) * 2 + part] ==
                  64 * matrix + (transposed ? 8 * column + row : 8 * row + column));
          }
      CHECK(
          execute(storeMatrixText(count, transposed), {buffer("in", registers), buffer("out", back)}).findingsText() ==
          "");
      CHECK(std::equal(back.begin(), back.begin() + 64 * count, rows.begin()));
    }
}

TEST_CASE("movmatrix transposes") {
  std::vector<uint16_t> in(64), out(64);
  std::iota(in.begin(), in.end(), uint16_t{0});
  CHECK(execute(kernel(kMoveMatrix, 2), {buffer("in", in), buffer("out", out)}).findingsText() == "");
  for (unsigned row = 0; row < 8; ++row)
    for (unsigned column = 0; column < 8; ++column)
      CHECK(out[8 * row + column] == in[8 * column + row]);
}

} // namespace yaglom::emulator::test
