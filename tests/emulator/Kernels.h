// Small kernels for tests: single instructions in all lanes, and texts with parameters, run on buffers of numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/emulator/Emulator.h"

#include <cstdint>
#include <string>
#include <vector>

namespace yaglom::emulator::test {

/// The values of a register in the lanes: %a, %b, %c, %e in turn. 1 bit is a predicate. A single value goes to all lanes.
struct In {
  unsigned bits = 32;
  std::vector<uint64_t> values;
};

/// One instruction or a few, what they get and what %d (lane by lane) must be afterwards.
struct Example {
  std::string code;
  unsigned outBits = 32; ///< of %d; 1 is a predicate
  std::vector<In> inputs;
  std::vector<uint64_t> expected;
  std::string target = "sm_90";
};

/// The tables of all families.
std::vector<Example> integerExamples();
std::vector<Example> bitExamples();
std::vector<Example> floatExamples();
std::vector<Example> halfExamples();
std::vector<Example> functionExamples();
std::vector<Example> convertExamples();
std::vector<Example> compareExamples();
std::vector<Example> warpExamples();
std::vector<Example> allExamples();

/// The PTX text of a kernel that loads %a ..., executes the code and stores %d.
std::string textOf(const Example &example);
/// %d in each lane.
std::vector<uint64_t> evaluate(const Example &example);
/// Compares lane by lane with CHECK; the lanes beyond `expected` are not looked at.
void check(const Example &example);

/// The header of a PTX text.
std::string header(const std::string &target = "sm_90");
/// A kernel `k` with 64-bit pointer parameters p0, p1, ... loaded into %p0, %p1, ...; registers %r<50> %rd<50> %f<50> %fd<20> %h<20>
/// %q<20> (predicates); %r49 is %tid.x, %rd49 four times that. `shared` are variables, of the kernel or, where .const or .extern
/// stand among them, of the module.
std::string kernel(const std::string &body, unsigned pointers, const std::string &shared = "",
                   const std::string &target = "sm_90");

/// Parses and runs `text` with `buffers` as arguments, in order; a mistake fails the test.
Report execute(const std::string &text, const std::vector<Buffer> &buffers, std::array<uint32_t, 3> grid = {1, 1, 1},
               std::array<uint32_t, 3> block = {32, 1, 1}, uint64_t sharedBytes = 0, const Options &options = {});

template <class T>
Buffer buffer(const std::string &name, std::vector<T> &values, bool writable = true, bool initialised = true) {
  return {name, values.data(), values.size() * sizeof(T), writable, initialised};
}

/// A kernel of the tests that is more than one instruction, for the coverage and robustness tests.
struct NamedText {
  std::string name;
  std::string text;
};
/// All of them; memoryTexts() and so on stand in the files of their tests.
std::vector<NamedText> memoryTexts();
std::vector<NamedText> controlTexts();
std::vector<NamedText> matrixTexts();
std::vector<NamedText> allTexts();
/// The text of tests/emulator/ptx/NAME.
std::string readPtx(const std::string &name);

} // namespace yaglom::emulator::test
