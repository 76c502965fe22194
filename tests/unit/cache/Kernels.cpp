// Kernels and the cache on disk: what is kept is run again, bit for bit; what is damaged is compiled again.
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Artifact.h"
#include "runtime/Compiled.h"
#include "runtime/Programs.h"
#include "runtime/cache/Identity.h"
#include "tests/Folder.h"
#include "tests/unit/Catch.h"
#include "yaglom/yaglom.h"

#include <atomic>
#include <csignal>
#include <cstring>
#include <random>
#include <set>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace yaglom;
using namespace yaglom::tests;

namespace {

constexpr const char *kSpec = R"(
attention a(Q; K, V) {
  param gain: [] = 1.5
  let o = linear(exp(Q), exp(K), V) with causal
  return gain * o
}
)";

CompileOptions options() { return {.headDim = 4, .valueDim = 3}; }

/// Settings for one test; afterwards nothing is kept on disk, as in all other tests.
struct Use {
  explicit Use(const std::string &folder) { setCache({.folder = folder}); }
  ~Use() {
    setCache({.folder = ""});
    onWarning(nullptr);
  }
};

std::vector<char> outputOf(const Kernel &kernel) {
  const Parameters parameters = kernel.initialParameters(2);
  Tensor q(DType::f32, {1, 2, 37, 4}), v(DType::f32, {1, 2, 37, 3}), o(DType::f32, {1, 2, 37, 3});
  for (int64_t i = 0; i < q.size(); ++i)
    q.set(i, std::sin(static_cast<double>(i)));
  for (int64_t i = 0; i < v.size(); ++i)
    v.set(i, std::cos(static_cast<double>(i)));
  kernel.forward({q, q, v}, parameters, o, {.threads = 1});
  const auto *bytes = static_cast<const char *>(o.data());
  return {bytes, bytes + static_cast<std::size_t>(o.size()) * sizeof(float)};
}

/// The program of `key` and of the spec above; counts how often it had to be compiled.
class Subject {
public:
  Subject()
      : instance(runtime::bindOptions(spec, "a", options()).value()),
        key(runtime::programKey("forward", spec, instance, options())),
        program(compiler::build(instance, options()).value()) {}

  /// Obtains it, and computes with what was obtained.
  std::vector<char> run() {
    auto obtained = runtime::obtain<compiler::Program>(key, [&]() -> Result<compiler::Program> {
      ++built;
      return program;
    });
    auto compiled = runtime::makeCompiled(spec, instance, options(), obtained.value());
    return outputOf(Kernel(std::make_shared<const Kernel::Impl>(Kernel::Impl{compiled.value(), 0.0})));
  }

  const Spec spec = Spec::parse(kSpec).value();
  const Instance instance;
  const runtime::cache::Key key;
  const compiler::Program program;
  std::atomic<int> built = 0;
};

std::set<std::string> handlers() {
  std::set<std::string> all;
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action{};
    if (sigaction(number, nullptr, &action) == 0)
      all.insert(std::to_string(number) + ":" + std::to_string(reinterpret_cast<uintptr_t>(action.sa_handler)));
  }
  return all;
}

} // namespace

TEST_CASE("a program is compiled once, and computes the same from disk") {
  const Folder folder;
  const Use use(folder.path);
  Subject subject;
  const std::vector<char> first = subject.run();
  CHECK(subject.built == 1);
  CHECK(folder.files(".entry").size() == 1);
  CHECK(subject.run() == first);
  CHECK(subject.built == 1);
  std::filesystem::remove(folder.files(".entry")[0]);
  CHECK(subject.run() == first);
  CHECK(subject.built == 2);
}

TEST_CASE("a kernel's forward, backward and losses are kept, each under a key of its own") {
  const Folder folder;
  const Use use(folder.path);
  // Other numbers than elsewhere: the process may have it in memory.
  const Kernel kernel = compile(Spec::parse(kSpec).value(), "a", {.headDim = 5, .valueDim = 3}).value();
  CHECK(folder.files(".entry").size() == 1);
  Tensor q(DType::f32, {1, 1, 8, 5}), v(DType::f32, {1, 1, 8, 3}), o(DType::f32, {1, 1, 8, 3});
  const Parameters parameters = kernel.initialParameters(1);
  (void)kernel.backward({q, q, v}, parameters, o);
  CHECK(folder.files(".entry").size() == 2);
  Residual residual;
  kernel.forward({q, q, v}, parameters, o, {.residual = &residual});
  (void)kernel.backward({q, q, v}, parameters, o, {.residual = &residual});
  const auto entries = CacheFolder(folder.path).list().value();
  std::set<std::string> kinds;
  for (const CacheFolder::Entry &entry : entries) {
    kinds.insert(entry.kind);
    CHECK(entry.what == "a, host f32, d=5, e=3");
  }
  CHECK(kinds == std::set<std::string>{"backward", "backward from residual", "forward"});
}

TEST_CASE("a flipped byte or a missing end is compiled again, and computes the same") {
  const Folder folder;
  const Use use(folder.path);
  Subject subject;
  const std::vector<char> expected = subject.run();
  const std::string path = folder.files(".entry").at(0), bytes = readFile(path);
  int damaged = 0;
  const auto check = [&](const std::string &content) {
    writeFile(path, content);
    const int before = subject.built;
    CHECK(subject.run() == expected);
    CHECK(subject.built == before + 1);
    ++damaged;
  };
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; ++i) {
    std::string content = bytes;
    const std::size_t place = i < 20 ? static_cast<std::size_t>(i) : random() % bytes.size();
    content[place] = static_cast<char>(content[place] ^ (1 + random() % 255));
    check(content);
  }
  for (std::size_t length = 1; length < bytes.size(); length *= 2)
    check(bytes.substr(0, length));
  CHECK(damaged > 210);
  writeFile(path, bytes);
  CHECK(subject.run() == expected);
  CHECK(subject.built == damaged + 1);
}

TEST_CASE("sixty-four threads that ask for one program on disk compile it once") {
  const Folder folder;
  const Use use(folder.path);
  Subject subject;
  std::vector<std::jthread> threads;
  std::atomic<int> wrong = 0;
  const std::vector<char> expected = subject.run();
  std::filesystem::remove(folder.files(".entry")[0]);
  for (int i = 0; i < 64; ++i)
    threads.emplace_back([&] { wrong += subject.run() != expected; });
  threads.clear();
  CHECK(wrong == 0);
  CHECK(subject.built == 2);
}

TEST_CASE("the key of a program has everything that its code depends on") {
  const Spec spec = Spec::parse(kSpec).value();
  const auto digest = [&](const Spec &text, const CompileOptions &with, const char *kind = "forward") {
    const Instance instance = runtime::bindOptions(text, "a", with).value();
    return runtime::programKey(kind, text, instance, with).digest();
  };
  std::string changed = kSpec;
  changed.replace(changed.find("1.5"), 3, "1.6");
  CompileOptions dims = options(), type = options(), target = options(), chunk = options(), width = options();
  dims.headDim = 6;
  width.valueDim = 4;
  type.dtype = DType::f64;
  target.target = Target::parse("emulated").value();
  chunk.schedule.chunk = 64;
  const std::set<std::string> all = {digest(spec, options()),
                                     digest(Spec::parse(changed).value(), options()),
                                     digest(spec, options(), "backward"),
                                     digest(spec, dims),
                                     digest(spec, width),
                                     digest(spec, type),
                                     digest(spec, target),
                                     digest(spec, chunk)};
  CHECK(all.size() == 8);
  // White space and comments are not in the canonical text.
  CHECK(digest(Spec::parse(std::string("# a comment\n\n") + kSpec).value(), options()) == digest(spec, options()));
  const Instance instance = runtime::bindOptions(spec, "a", options()).value();
  const std::string text = runtime::programKey("forward", spec, instance, options()).text;
  CHECK(text.find(runtime::cache::buildIdentity()) != std::string::npos);
  CHECK(text.find(compiler::machineIdentity("host")) != std::string::npos);
  CHECK(runtime::cache::buildIdentity().size() > 60);
}

TEST_CASE("a folder that cannot be used costs one warning") {
  const Folder folder;
  std::filesystem::permissions(folder.path, std::filesystem::perms(0777));
  const Use use(folder.path);
  std::vector<std::string> warnings;
  onWarning([&](const std::string &text) { warnings.push_back(text); });
  Subject subject;
  const std::vector<char> output = subject.run();
  CHECK(subject.run() == output);
  CHECK(subject.built == 2);
  CHECK(warnings == std::vector<std::string>{"the cache folder is not used, compiled code stays in memory: '" +
                                             folder.path + "' may be written by others (mode 777)"});
}

TEST_CASE("without a folder nothing is kept, and nobody is warned") {
  const Use use("");
  int warnings = 0;
  onWarning([&](const std::string &) { ++warnings; });
  Subject subject;
  CHECK(subject.run() == subject.run());
  CHECK(subject.built == 2);
  CHECK(warnings == 0);
  CHECK_FALSE(CacheFolder::ofThisProcess());
}

TEST_CASE("without a home, or where none can be made, code stays in memory with one warning") {
  const auto value = [](const char *name) -> std::optional<std::string> {
    const char *const found = std::getenv(name);
    return found ? std::optional<std::string>(found) : std::nullopt;
  };
  std::map<std::string, std::optional<std::string>> before;
  for (const char *name : {"YAGLOM_CACHE_DIR", "XDG_CACHE_HOME", "HOME"}) {
    before[name] = value(name);
    unsetenv(name);
  }
  const Use use("");
  setCache({});
  std::vector<std::string> warnings;
  onWarning([&](const std::string &text) { warnings.push_back(text); });
  Subject subject;
  subject.run();
  subject.run();
  CHECK(warnings ==
        std::vector<std::string>{
            "compiled code stays in memory: neither YAGLOM_CACHE_DIR nor XDG_CACHE_HOME nor HOME names a folder"});
  const Folder folder;
  setenv("HOME", "/proc/self", 1);
  CHECK(CacheFolder::ofThisProcess()->path() == "/proc/self/.cache/yaglom");
  subject.run();
  subject.run();
  REQUIRE(warnings.size() == 2);
  CHECK(warnings[1].starts_with("the cache folder is not used, compiled code stays in memory: "
                                "'/proc/self/.cache/yaglom' cannot be made"));
  CHECK(subject.built == 4);
  setenv("XDG_CACHE_HOME", folder.path.c_str(), 1);
  CHECK(CacheFolder::ofThisProcess()->path() == folder.path + "/yaglom");
  setenv("XDG_CACHE_HOME", "relative", 1); // does not count, by its specification
  CHECK(CacheFolder::ofThisProcess()->path() == "/proc/self/.cache/yaglom");
  setenv("YAGLOM_CACHE_DIR", "/here", 1);
  CHECK(CacheFolder::ofThisProcess()->path() == "/here");
  for (const auto &[name, text] : before)
    text ? setenv(name.c_str(), text->c_str(), 1) : unsetenv(name.c_str());
}

TEST_CASE("compiling and loading change no signal handler") {
  const std::set<std::string> before = handlers();
  const Folder folder;
  const Use use(folder.path);
  Subject subject;
  subject.run();
  subject.run();
  CHECK(compile(subject.spec, "a", {.headDim = 9}));
  CHECK(handlers() == before);
}

TEST_CASE("after fork() the child still computes, from memory and from disk") {
  const Folder folder;
  const Use use(folder.path);
  Subject subject;
  const std::vector<char> expected = subject.run();
  const Kernel kernel = compile(subject.spec, "a", options()).value();
  CHECK(outputOf(kernel) == expected);
  const pid_t child = fork();
  if (child == 0)
    _exit(outputOf(kernel) == expected && subject.run() == expected && subject.built == 1 ? 0 : 1);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}
