// Would the emulator notice a wrong kernel? Random changes of our own PTX, each run and compared.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Program.h"
#include "runtime/Compiled.h"
#include "runtime/EmulatedDevice.h"
#include "runtime/GpuLaunch.h"
#include "tests/emulator/Mutate.h"
#include "tests/numeric/CpuCase.h"
#include "tests/numeric/Golden.h"

#include "tests/unit/Catch.h"

#include <set>

using namespace yaglom;
using namespace yaglom::tests;

namespace {

constexpr int64_t kWidth = 40; // tiles that are not full

/// A forward kernel with operands for two launches: several chunks of dense rows, and fewer tokens whose rows lie apart, so that
/// both ways of reading them run. run() takes another PTX text in place of the kernel's own.
class Subject {
public:
  Subject(const Spec &spec, const std::string &attention, DType dtype)
      : settings(options(dtype, kWidth, kWidth, Target::parse("emulated").value())),
        program(
            compiler::load(compiler::build(runtime::bindOptions(spec, attention, settings).value(), settings).value())
                .value()) {
    const Kernel kernel = compiled(spec, attention, settings);
    for (const int64_t rows : {int64_t{70}, int64_t{37}}) {
      const Data data = makeData(kernel, {1, 1, rows}, dtype, 0.5, static_cast<uint64_t>(rows));
      launches.push_back({rows, rows == 70 ? 1 : 2, {}});
      for (const std::string &name : program->forward.operands) {
        if (data.parameters.find(name)) {
          launches.back().tensors.push_back(toType(data.parameters[name], parameterType(dtype)));
          continue;
        }
        const int64_t apart = launches.back().apart;
        Tensor rowsOf(dtype, {rows, kWidth * apart});
        if (name != "O")
          for (int64_t i = 0; i < rows * kWidth; ++i)
            rowsOf.set(i * apart, data.inputs[static_cast<std::size_t>(data.place(name))].at(i));
        launches.back().tensors.push_back(std::move(rowsOf));
      }
    }
  }

  const std::string &ptx() const { return program->forward.gpu.module->ptx; }

  /// The outputs of both launches; empty when one was refused or stopped with a finding.
  std::vector<double> run(const std::string &ptx) {
    compiler::Entry entry = program->forward;
    entry.gpu.module = std::make_shared<const compiler::GpuModule>(ptx, "sm_80");
    std::vector<double> values;
    for (Launch &launch : launches)
      if (!run(entry, launch, values))
        return {};
    return values;
  }

private:
  struct Launch {
    int64_t rows, apart; ///< elements from one column to the next
    std::vector<Tensor> tensors;
  };

  static bool run(const compiler::Entry &entry, Launch &launch, std::vector<double> &values) {
    std::vector<runtime::Operand> operands;
    for (std::size_t i = 0; i < launch.tensors.size(); ++i) {
      Tensor &tensor = launch.tensors[i];
      const bool isParameter = tensor.shape().front() != launch.rows || tensor.shape().back() != kWidth * launch.apart;
      const int64_t apart = isParameter ? 1 : launch.apart;
      const int64_t width = tensor.shape().size() < 2 ? 1 : tensor.shape().back() / apart;
      operands.push_back({.data = static_cast<char *>(tensor.data()),
                          .written = entry.operands[i] == "O",
                          .rowStride = width * apart,
                          .columnStride = apart,
                          .rows = tensor.size() / (width * apart),
                          .width = width,
                          .dtype = tensor.dtype()});
    }
    Tensor &output = launch.tensors.back();
    for (int64_t i = 0; i < output.size(); ++i)
      output.set(i, 7); // what a kernel leaves out shows
    try {
      const auto session = runtime::emulatedDevice("sm_80")->begin({.threads = 1});
      runtime::launchGpu(entry, {1, 1, launch.rows, launch.rows}, operands,
                         {.queryRows = launch.rows, .keyRows = launch.rows}, *session);
    } catch (const Error &) {
      return false;
    }
    for (int64_t i = 0; i < output.size(); ++i)
      values.push_back(output.at(i));
    return true;
  }

  CompileOptions settings;
  std::shared_ptr<const compiler::Program> program;
  std::vector<Launch> launches;
};

} // namespace

TEST_CASE("emulated: mutants of our kernels are noticed") {
  // A mutant that changes no bit of two launches counts as equivalent: an or of disjoint bits that became an exclusive or, a
  // limit that no counter meets. Of the others a finding, or an error beyond rounding, must tell.
  constexpr double kRounding = 1e-4; // of outputs in bfloat16, whose last bit is 4e-3
  struct Case {
    const char *spec, *attention;
  };
  int noticed = 0, different = 0, mutants = 0;
  std::string survivors;
  for (const Case &each :
       {Case{"flexformer_n", "flexformer_n_attention"}, Case{"linear_transformer", "linear_transformer"}}) {
    Subject subject(Spec::parseFile(YAGLOM_SOURCE_DIR "/examples/specs/" + std::string(each.spec) + ".phi").value(),
                    each.attention, DType::bf16);
    runtime::EmulatorReports reports;
    reports.instructionBudget = 1 << 20;
    const std::vector<double> expected = subject.run(subject.ptx());
    REQUIRE(!expected.empty());
    std::set<uint32_t> executed;
    for (const auto &launch : reports.launches)
      for (const emulator::LineCounters &line : launch.report.counters.lines)
        executed.insert(line.line);
    int ofThis = 0;
    for (uint64_t seed = 1; ofThis < 200; ++seed) {
      const emulator::test::Mutant mutant = emulator::test::mutate(subject.ptx(), seed);
      if (!executed.contains(mutant.line))
        continue;
      ++ofThis;
      ++mutants;
      reports.launches.clear();
      const std::vector<double> found = subject.run(mutant.text);
      if (same(found, expected))
        continue;
      ++different;
      if (found.empty() || !(relativeError(found, expected) < kRounding))
        ++noticed;
      else
        survivors += std::string(each.spec) + " " + mutant.description + "\n";
    }
  }
  INFO(noticed << " noticed of " << different << " that differ, of " << mutants << " mutants; not noticed:\n"
               << survivors);
  CHECK(noticed >= 0.97 * different);
  CHECK(different >= 0.7 * mutants);
}
