// PTX to cubin where an assembler is found, and what recorded logs say.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/Assembler.h"

#include "runtime/cuda/Subprocess.h"
#include "tests/unit/Catch.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>

using namespace yaglom;
using namespace yaglom::cuda;

#ifdef YAGLOM_ASAN
/// NVIDIA's library leaks a few kilobytes for each text that it refuses.
extern "C" const char *__lsan_default_suppressions() { return "leak:libnvJitLink"; }
#endif

namespace {

constexpr const char *kKernel = R"(.version 7.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 p) {
  .reg .u64 %rd<2>;
  .reg .f32 %f<4>;
  .shared .align 4 .b8 s[64];
  ld.param.u64 %rd1, [p];
  cvta.to.global.u64 %rd1, %rd1;
  ld.global.f32 %f1, [%rd1];
  st.shared.f32 [s], %f1;
  bar.sync 0;
  ld.shared.f32 %f2, [s+4];
  add.f32 %f3, %f1, %f2;
  st.global.f32 [%rd1], %f3;
  ret;
}
)";

template <typename T>
std::string said(const Result<T> &result) {
  return result ? std::string("(a value)") : result.error().what();
}

/// A program in the shell's language, gone at the end.
class Script {
public:
  explicit Script(const std::string &body)
      : folder(std::filesystem::temp_directory_path() / ("yaglom-test-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder);
    std::ofstream(path()) << "#!/bin/sh\n" << body << "\n";
    chmod(path().c_str(), 0700);
  }
  ~Script() { std::filesystem::remove_all(folder); }
  std::string path() const { return (folder / "ptxas").string(); }
  std::filesystem::path folder;
};

/// Sets a variable of the environment, and the former value at the end.
class Variable {
public:
  Variable(const char *name, const std::string &value) : name(name) {
    if (const char *present = std::getenv(name))
      former = present;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (former)
      setenv(name, former->c_str(), 1);
    else
      unsetenv(name);
  }

private:
  const char *name;
  std::optional<std::string> former;
};

/// A folder of this test's own for temporary files, removed at the end.
class TemporaryFolder {
public:
  TemporaryFolder() : path((std::filesystem::temp_directory_path() / "yaglom-test-XXXXXX").string()) {
    REQUIRE(mkdtemp(path.data()));
    variable.emplace("TMPDIR", path);
  }
  ~TemporaryFolder() {
    variable.reset();
    std::filesystem::remove_all(path);
  }
  bool isEmpty() const { return std::filesystem::is_empty(path); }

private:
  std::string path;
  std::optional<Variable> variable;
};

void checkAssembles(const Assembler &assembler) {
  for (const char *architecture : {"sm_80", "sm_90a", "sm_100a", "sm_120a"}) {
    const Assembly assembly = assembler.assemble(kKernel, {.architecture = architecture}).value();
    CHECK(assembly.cubin.starts_with("\x7f"
                                     "ELF"));
    const FunctionReport *add = assembly.report.find("add");
    REQUIRE(add);
    CHECK(assembly.report.functions.size() == 1);
    CHECK((add->registers >= 4 && add->registers <= 32));
    CHECK(add->stackBytes == 0);
    CHECK(add->spillStoreBytes == 0);
    CHECK(add->spillLoadBytes == 0);
    CHECK(add->sharedBytes == 64);
    CHECK(add->barriers == 1);
    CHECK(assembly.report.warnings.empty());
  }
  const std::string bad = std::string(kKernel).replace(std::string(kKernel).find("add.f32"), 7, "addd.f32");
  const std::string error = said(assembler.assemble(bad, {.architecture = "sm_80"}));
  CHECK(error.starts_with(assembler.path() + " cannot assemble for sm_80 ("));
  CHECK(error.find("line 14; error   : Not a name of any known instruction: 'addd'") != std::string::npos);
  CHECK(error.find("yaglom-") == std::string::npos);
  CHECK(!assembler.assemble(kKernel, {.architecture = "sm_33"}));
  CHECK(!assembler.assemble("", {.architecture = "sm_80"}));
}

} // namespace

TEST_CASE("ptxas assembles for every architecture, and leaves no file behind") {
  AssemblerSearch search = AssemblerSearch::fromEnvironment();
  search.libraries.clear();
  const auto ptxas = findAssembler(search);
  if (!ptxas) {
    WARN("there is no ptxas here");
    return;
  }
  const TemporaryFolder temporary;
  checkAssembles(**ptxas);
  CHECK(temporary.isEmpty());
  CHECK((*ptxas)->version().value().starts_with("ptxas 1"));
  const std::string error = said((*ptxas)->assemble("bad", {.architecture = "sm_80"}));
  CHECK(error.find("ptxas kernel.ptx, line 1; fatal") != std::string::npos);
}

TEST_CASE("libnvJitLink assembles for every architecture") {
  AssemblerSearch search = AssemblerSearch::fromEnvironment();
  search.programs.clear();
  const auto library = findAssembler(search);
  if (!library) {
    WARN("there is no libnvJitLink here");
    return;
  }
  checkAssembles(**library);
  CHECK((*library)->version().value().starts_with("nvJitLink 1"));
}

TEST_CASE("registers that are bounded spill, and the report says so") {
  const auto assembler = findAssembler();
  if (!assembler) {
    WARN("there is no assembler here");
    return;
  }
  std::string loads;
  std::string stores;
  for (int i = 1; i <= 64; ++i) {
    const std::string number = std::to_string(i);
    loads += "ld.volatile.global.f32 %f" + number + ", [%rd1+" + std::to_string(4 * i) + "];\n";
    stores += "st.volatile.global.f32 [%rd1+" + std::to_string(4 * i) + "], %f" + number + ";\n";
  }
  const std::string ptx =
      ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry many(.param .u64 p) {\n.reg .u64 %rd<2>;\n"
      ".reg .f32 %f<65>;\nld.param.u64 %rd1, [p];\n" +
      loads + "bar.sync 0;\n" + stores + "ret;\n}\n";
  const Assembly tight = (*assembler)->assemble(ptx, {.architecture = "sm_80", .maxRegisters = 32}).value();
  const FunctionReport *many = tight.report.find("many");
  REQUIRE(many);
  CHECK(many->registers == 32);
  CHECK(many->spillStoreBytes > 0);
  CHECK(many->spillLoadBytes > 0);
  CHECK(many->stackBytes > 0);
  CHECK((*assembler)->assemble(ptx, {.architecture = "sm_80"}).value().report.find("many")->spillStoreBytes == 0);
}

TEST_CASE("no assembler is an error value") {
  CHECK(said(findAssembler({})) ==
        "no assembler for PTX: neither ptxas (in PATH, CUDA_HOME/bin or /usr/local/cuda/bin) nor "
        "libnvJitLink.so.13 or .12 was found; install the CUDA toolkit, or leave assembling to the driver");
  CHECK(!findAssembler({.programs = {"/nonexistent/ptxas", "/tmp"}, .libraries = {"/nonexistent/libnvJitLink.so.13"}}));
  CHECK(said(openPtxas("/nonexistent/ptxas")) == "/nonexistent/ptxas is not a program");
  CHECK(said(openNvJitLink("/nonexistent/lib.so")).starts_with("/nonexistent/lib.so: cannot open shared object file"));
  CHECK(said(openNvJitLink(YAGLOM_FAKE_CUDA)) == std::string(YAGLOM_FAKE_CUDA) + " has no function nvJitLinkCreate");
}

TEST_CASE("assemblers are looked for in PATH first, then in CUDA_HOME and CUDA_PATH") {
  const Variable path("PATH", "/first::/second");
  const Variable home("CUDA_HOME", "/home/cuda");
  const Variable other("CUDA_PATH", "/other/cuda");
  const AssemblerSearch search = AssemblerSearch::fromEnvironment();
  CHECK(search.programs == std::vector<std::string>{"/first/ptxas", "/second/ptxas", "/home/cuda/bin/ptxas",
                                                    "/other/cuda/bin/ptxas", "/usr/local/cuda/bin/ptxas"});
  REQUIRE(search.libraries.size() == 8);
  CHECK(search.libraries[0] == "libnvJitLink.so.13");
  CHECK(search.libraries[2] == "/home/cuda/lib64/libnvJitLink.so.13");
  CHECK(search.libraries[7] == "/usr/local/cuda/lib64/libnvJitLink.so.12");
}

TEST_CASE("ptxas is given the options, and what it says of the text is kept") {
  const Script script(
      "echo \"$1 $2 $3 $4 $6\" >&2\ncat \"$5\"\nprintf cubin > \"$7\"\necho 'ptxas info    : (C7510) serialized'");
  const Assembly assembly = openPtxas(script.path())
                                .value()
                                ->assemble("text\n", {.architecture = "sm_90a", .optimization = 1, .maxRegisters = 168})
                                .value();
  CHECK(assembly.cubin == "cubin");
  CHECK(assembly.report.log == "-v -arch=sm_90a -O1 -maxrregcount=168 -o\ntext\nptxas info    : (C7510) serialized\n");
  CHECK(assembly.report.warnings == std::vector<std::string>{"(C7510) serialized"});
}

TEST_CASE("a ptxas that fails, dies or writes nothing is an error with its words") {
  const auto error = [](const char *body) {
    const Script script(body);
    std::string text = said(openPtxas(script.path()).value()->assemble("text", {.architecture = "sm_80"}));
    return text.substr(text.find(" cannot") + 1);
  };
  CHECK(error("echo \"ptxas $4, line 1; fatal\"; exit 255") ==
        "cannot assemble for sm_80 (exit code 255):\nptxas kernel.ptx, line 1; fatal\n");
  CHECK(error("kill -9 $$") == "cannot assemble for sm_80 (exit code 137):\n");
  CHECK(error("printf cubin > $6; exit 1") == "cannot assemble for sm_80 (exit code 1):\n");
  CHECK(error("exit 0") == "cannot assemble for sm_80 (exit code 0):\n");
  const Script script("echo something else");
  CHECK(said(openPtxas(script.path()).value()->version()) ==
        script.path() + " --version: expected NVIDIA's ptxas, found: something else\n");
}

TEST_CASE("a program that cannot be started is an error") {
  CHECK(said(runProgram("/nonexistent/program", {})) == "/nonexistent/program: posix_spawn: No such file or directory");
  CHECK(runProgram("/bin/sh", {"-c", "echo out; echo err >&2; cat; exit 3"}).value().exitCode == 3);
  CHECK(runProgram("/bin/sh", {"-c", "echo out; echo err >&2; cat"}).value().output == "out\nerr\n");
}

TEST_CASE("temporary files are private, and there must be a folder for them") {
  std::string path;
  {
    const TemporaryFile file = TemporaryFile::create(".ptx", "content").value();
    path = file.path();
    CHECK(path.ends_with(".ptx"));
    CHECK(file.read().value() == "content");
    struct stat status = {};
    REQUIRE(stat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
  }
  CHECK(!std::filesystem::exists(path));
  const Variable folder("TMPDIR", "/nonexistent");
  CHECK(said(TemporaryFile::create(".ptx")).starts_with("there is no folder for temporary files: "));
}

TEST_CASE("the log of ptxas 13 is read, with functions that are called and spills") {
  const AssemblyReport report = parseAssemblyLog(R"(ptxas info    : 0 bytes gmem
ptxas info    : (C7512) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient register resources for the wgmma pipeline in the function 'big'
ptxas info    : Compiling entry function 'big' for 'sm_90a'
ptxas info    : Function properties for big
    96 bytes stack frame, 84 bytes spill stores, 88 bytes spill loads
ptxas info    : Used 255 registers, used 3 barriers, 96 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Function properties for helper
    16 bytes stack frame, 12 bytes spill stores, 12 bytes spill loads
ptxas info    : Compiling entry function 'small' for 'sm_90a'
ptxas info    : Function properties for small
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
ptxas info    : Compile time = 7.018 ms
)");
  REQUIRE(report.functions.size() == 2);
  const FunctionReport &big = report.functions[0];
  CHECK(big.name == "big");
  CHECK(big.registers == 255);
  CHECK(big.stackBytes == 96);
  CHECK(big.spillStoreBytes == 84);
  CHECK(big.spillLoadBytes == 88);
  CHECK(big.barriers == 3);
  CHECK(big.sharedBytes == 1024);
  CHECK(big.constantBytes == 0);
  CHECK(report.find("small")->registers == 8);
  CHECK(report.find("small")->spillStoreBytes == 0);
  CHECK(report.find("absent") == nullptr);
  REQUIRE(report.warnings.size() == 1);
  CHECK(report.warnings[0].starts_with(
      "(C7512) Potential Performance Loss: wgmma.mma_async instructions are serialized"));
}

TEST_CASE("the log of ptxas for sm_80 is read, with all constant banks") {
  const AssemblyReport report =
      parseAssemblyLog("ptxas info    : Compiling entry function 'add' for 'sm_80'\n"
                       "ptxas info    : Function properties for add\n"
                       "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
                       "ptxas info    : Used 8 registers, used 1 barriers, 64 bytes smem, 364 bytes cmem[0], 8 "
                       "bytes cmem[2]\n"
                       "ptxas warning : Unaligned access\nptxas warning : Unaligned access");
  CHECK(report.functions.at(0).constantBytes == 372);
  CHECK(report.functions.at(0).sharedBytes == 64);
  CHECK(report.warnings == std::vector<std::string>{"Unaligned access"});
}

TEST_CASE("the log of libnvJitLink is read, without the linker's own summary") {
  const AssemblyReport report = parseAssemblyLog(R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'add' for 'sm_90a'
ptxas info    : Function properties for add
ptxas         .     8 bytes stack frame, 4 bytes spill stores, 2 bytes spill loads
ptxas info    : Used 8 registers, used 1 barriers, 64 bytes smem
info    : 0 bytes gmem
info    : Function properties for 'add':
info    : used 9 registers, used 2 barriers, 0 stack, 1088 bytes smem, 540 bytes cmem[0], 0 bytes lmem
)");
  REQUIRE(report.functions.size() == 1);
  CHECK(report.functions[0].registers == 8);
  CHECK(report.functions[0].spillStoreBytes == 4);
  CHECK(report.functions[0].sharedBytes == 64);
  CHECK(report.warnings.empty());
}

TEST_CASE("any text can be read as a log") {
  CHECK(parseAssemblyLog("").functions.empty());
  CHECK(parseAssemblyLog("\n\n : \nUsed 4 registers\n 5 bytes stack frame\nptxas info : (C").functions.empty());
  CHECK(parseAssemblyLog("Compiling entry function 'x\nUsed registers, 99999999999999 bytes smem")
            .functions.at(0)
            .registers == 0);
}

TEST_CASE("the environment names an assembler, or leaves assembling to the driver") {
  setenv("YAGLOM_ASSEMBLER", "driver", 1);
  const auto said = [] { return std::string(assemblerFromEnvironment().error().what()); };
  CHECK(said() == "no assembler for PTX: YAGLOM_ASSEMBLER is 'driver'");
  setenv("YAGLOM_ASSEMBLER", "/none/ptxas", 1);
  CHECK(said() == "no assembler for PTX: YAGLOM_ASSEMBLER: /none/ptxas is not a program");
  unsetenv("YAGLOM_ASSEMBLER");
  CHECK(static_cast<bool>(assemblerFromEnvironment()) == static_cast<bool>(findAssembler()));
}
