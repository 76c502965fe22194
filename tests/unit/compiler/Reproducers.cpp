// A stage that fails leaves a file that yaglom-opt replays, and the Error says where it is.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Compilation.h"
#include "compiler/Pipeline.h"
#include "compiler/Reproducer.h"
#include "compiler/targets/cpu/Codegen.h"
#include "compiler/targets/nvgpu/Codegen.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/Pass.h"
#include "runtime/Compiled.h"
#include "tests/Folder.h"
#include "tests/unit/Catch.h"
#include "yaglom/yaglom.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace yaglom;
using namespace yaglom::compiler;

namespace {

constexpr const char *kSpec = "map f(x: [d]) = elu(x) + 1\n"
                              "attention plain(Q; K, V) = linear(f(Q), f(K), V) with causal, normalize\n";

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

/// A folder of its own, named by an environment variable while this lives.
class FolderOf : public tests::Folder {
public:
  explicit FolderOf(const char *variable) : variable(variable) { setenv(variable, path.c_str(), 1); }
  FolderOf(const FolderOf &) = delete;
  ~FolderOf() { unsetenv(variable); }

private:
  const char *variable;
};

struct Subject {
  CompileOptions options{.headDim = 8};
  Spec spec = Spec::parse(kSpec, "t.phi").value();
  Instance instance = runtime::bindOptions(spec, "plain", options).value();
};

/// Prints an error where the scan is, and fails.
struct FailingPass : mlir::PassWrapper<FailingPass, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(FailingPass)
  llvm::StringRef getArgument() const override { return "test-failing"; }
  void runOnOperation() override {
    getOperation().getBody()->front().erase(); // what the file holds is the module before this
    getOperation().emitError("it fails on purpose");
    signalPassFailure();
  }
};

std::string failWith(Compilation &compilation) {
  const Result<void> done = compilation.run(
      [](mlir::OpPassManager &passes) { passes.addPass(std::make_unique<FailingPass>()); }, "test stage");
  REQUIRE(!done);
  return done.error().what();
}

/// The file that the message names.
std::string fileOf(const std::string &message) {
  const std::size_t begin = message.find("file '") + 6;
  REQUIRE(begin > 6);
  return message.substr(begin, message.find('\'', begin) - begin);
}

std::string read(const std::string &path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

struct Replay {
  int code;
  std::string output;
};

Replay replay(const std::string &file) {
  const std::string log = file + ".log";
  const int status = std::system((YAGLOM_OPT " --run-reproducer " + file + " >" + log + " 2>&1").c_str());
  return {WEXITSTATUS(status), read(log)};
}

} // namespace

TEST_CASE("a stage that fails names the stage, the attention and a file with the module before it and its passes") {
  const FolderOf folder("TMPDIR");
  Subject subject;
  Compilation compilation(subject.instance, subject.options, "forward");
  compilation.emit();
  const std::string message = failWith(compilation);
  CHECK(contains(message, "internal error in stage 'test stage' of attention 'plain'"));
  CHECK(contains(message, "t.phi:2:11: it fails on purpose"));
  CHECK(contains(message, "yaglom-opt --run-reproducer"));
  const std::string file = fileOf(message);
  CHECK(file.starts_with(folder.path + "/yaglom-plain-test_stage-"));
  const std::string text = read(file);
  CHECK(contains(text, "@forward"));
  CHECK(contains(text, "phi.linear"));
  CHECK(contains(text, "loc(\"t.phi\":2:"));
  CHECK(contains(text, "mlir_reproducer"));
  CHECK(contains(text, "pipeline: \"builtin.module(test-failing)\""));
}

TEST_CASE("with YAGLOM_DUMP the reproducer is in its folder") {
  const FolderOf folder("YAGLOM_DUMP");
  Subject subject;
  Compilation compilation(subject.instance, subject.options, "forward");
  compilation.emit();
  CHECK(fileOf(failWith(compilation)).starts_with(folder.path + "/"));
}

TEST_CASE("where no file can be written the message holds the reproducer") {
  const FolderOf folder("TMPDIR");
  setenv("TMPDIR", (folder.path + "/none").c_str(), 1);
  Subject subject;
  Compilation compilation(subject.instance, subject.options, "forward");
  compilation.emit();
  const std::string message = failWith(compilation);
  CHECK(contains(message, "cannot write '" + folder.path + "/none/"));
  CHECK(contains(message, "phi.linear"));
  CHECK(contains(message, "pipeline: \"builtin.module(test-failing)\""));
}

TEST_CASE("a failure of a pass of ours comes again in yaglom-opt") {
  const FolderOf folder("TMPDIR");
  Subject subject;
  Compilation compilation(subject.instance, subject.options, "backward");
  compilation.module = mlir::parseSourceString<mlir::ModuleOp>(R"(
    func.func @backward(%x: tensor<4xf32> {phi.side = "query"}, %dy: tensor<4xf32> {phi.side = "query"}) -> tensor<4xf32>
        attributes {phi.gradient = 1 : i64} {
      %dx = phi.mul %x, %dy : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %dx : tensor<4xf32>
    })",
                                                               &compilation.context);
  REQUIRE(compilation.module);
  const Result<void> done = compilation.differentiate();
  REQUIRE(!done);
  const std::string message = done.error().what();
  CHECK(contains(message, "second derivatives are not supported"));
  const Replay again = replay(fileOf(message));
  CHECK(again.code == 1);
  CHECK(contains(again.output, "second derivatives are not supported"));
}

TEST_CASE("yaglom-opt knows every pass of every stage with its options") {
  const FolderOf folder("YAGLOM_DUMP");
  Subject subject;
  using Build = std::function<void(mlir::OpPassManager &)>;
  const auto check = [&](Compilation &compilation, const Build &build) {
    mlir::PassManager passes(&compilation.context, mlir::ModuleOp::getOperationName());
    build(passes);
    const Result<std::string> file = writeReproducer("stage", "mlir", reproducerText(*compilation.module, passes));
    REQUIRE(file);
    const Replay again = replay(*file);
    INFO(again.output.substr(0, 2000));
    CHECK(again.code == 0);
    REQUIRE(compilation.run(build, "stage"));
  };
  for (const bool gpu : {false, true}) {
    Compilation compilation(subject.instance, subject.options, "forward");
    compilation.emit();
    check(compilation, [](mlir::OpPassManager &) {}); // of a failed translation
    check(compilation, buildSimplify);
    check(compilation, buildScan);
    REQUIRE(compilation.tile());
    check(compilation, [&](mlir::OpPassManager &passes) {
      gpu ? buildGpu(passes, "sm_80", "f32", {}) : buildCpu(passes, "x86-64-v3", {});
    });
    check(compilation,
          [&](mlir::OpPassManager &passes) { gpu ? nvgpu::buildLlvmDialect(passes) : cpu::buildLlvmDialect(passes); });
  }
  Compilation gradient(subject.instance, subject.options, "backward");
  REQUIRE(gradient.lower(Stage::Scan));
  check(gradient, buildDifferentiate);
  check(gradient, [&](mlir::OpPassManager &passes) { buildTile(passes, gradient.schedule); });
}
