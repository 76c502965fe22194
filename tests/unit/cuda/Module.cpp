// PTX versions, loading, and making a function ready.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/Ptx.h"
#include "tests/unit/cuda/Fake.h"

using namespace yaglom;
using namespace yaglom::cuda;
using namespace yaglom::fakecuda;

namespace {

Device someDevice(int computeCapability) {
  Device device;
  device.name = "GPU";
  device.computeCapability = computeCapability;
  return device;
}

} // namespace

TEST_CASE("each driver takes PTX up to its own version") {
  CHECK(highestPtxVersion(11000) == 70);
  CHECK(highestPtxVersion(11080) == 78);
  CHECK(highestPtxVersion(12000) == 80);
  CHECK(highestPtxVersion(12040) == 84);
  CHECK(highestPtxVersion(12050) == 85);
  CHECK(highestPtxVersion(12060) == 85);
  CHECK(highestPtxVersion(12080) == 87);
  CHECK(highestPtxVersion(12090) == 88);
  CHECK(highestPtxVersion(13000) == 90);
  CHECK(highestPtxVersion(13050) == 95);
  CHECK(highestPtxVersion(20000) == 95);
  CHECK(highestPtxVersion(9000) == 63);
}

TEST_CASE("the header of PTX is read behind comments") {
  const PtxHeader header =
      readPtxHeader("//\n// .version 1.0\n/* .target x */ .version 8.4 // v\n.target sm_90a, debug\n").value();
  CHECK(header.version == 84);
  CHECK(header.target == "sm_90a");
  CHECK(readPtxHeader(".version 7.0\r\n.target\tsm_80\r\n").value().target == "sm_80");
}

TEST_CASE("what is not PTX is said to be none") {
  for (const char *text : {"", "//", "/*", "/* .version 8.0", "hello", ".version", ".version 8", ".version x.y",
                           ".version 8.x", ".version 8.12", ".version 8.0.1", ".target sm_80"})
    CHECK(said(readPtxHeader(text)) == "this is not PTX: expected '.version MAJOR.MINOR' in the beginning");
  for (const char *text : {".version 8.0", ".version 8.0\n.target", ".version 8.0\n.address_size 64"})
    CHECK(said(readPtxHeader(text)) == "this is not PTX: expected '.target ARCHITECTURE' after .version");
}

TEST_CASE("PTX that is too new for the driver is refused before it is loaded") {
  CHECK(checkPtx({84, "sm_90"}, 12040, someDevice(90)));
  CHECK(said(checkPtx({87, "sm_90"}, 12040, someDevice(90))) ==
        "the PTX is of version 8.7; the driver is of CUDA 12.4 and takes versions up to 8.4: update NVIDIA's driver, "
        "or compile for a "
        "lower PTX version");
  CHECK(!checkPtx({96, "sm_90"}, 13050, someDevice(90)));
  CHECK(checkPtx({96, "sm_90"}, 13060, someDevice(90))); // newer than the table: the driver decides
}

TEST_CASE("PTX for another architecture is refused before it is loaded") {
  const auto runs = [](const char *target, int computeCapability) {
    return static_cast<bool>(checkPtx({80, target}, 12080, someDevice(computeCapability)));
  };
  CHECK(runs("sm_80", 80));
  CHECK(runs("sm_80", 120));
  CHECK(!runs("sm_90", 89));
  CHECK(runs("sm_90a", 90));
  CHECK(!runs("sm_90a", 100));
  CHECK(!runs("sm_90a", 80));
  CHECK(runs("sm_100f", 103));
  CHECK(!runs("sm_100f", 120));
  CHECK(runs("sm_120a", 120));
  CHECK(runs("something_new", 90));
  CHECK(said(checkPtx({80, "sm_90a"}, 12080, someDevice(80))) ==
        "the PTX is for sm_90a; CUDA device 0 (GPU) is sm_80: compile it for that architecture");
}

TEST_CASE("prepare loads, reads and grants everything that a launch needs") {
  Fake fake;
  const Context context = fake.context();
  fake.calls();
  const Function function = prepare(context, kPtx, "attend", {.dynamicSharedBytes = 100000}).value();
  CHECK(fake.calls() == Calls{"cuCtxSetCurrent",    "cuStreamIsCapturing", "cuCtxSetCurrent",    "cuCtxSetCurrent",
                              "cuModuleLoadDataEx", "cuCtxSetCurrent",     "cuCtxSetCurrent",    "cuModuleGetFunction",
                              "cuFuncLoad",         "cuFuncGetAttribute",  "cuFuncGetAttribute", "cuFuncGetAttribute",
                              "cuFuncGetAttribute", "cuFuncGetAttribute",  "cuFuncGetAttribute", "cuFuncGetAttribute",
                              "cuFuncSetAttribute", "cuFuncGetParamInfo",  "cuFuncGetParamInfo", "cuFuncGetParamInfo",
                              "cuCtxSetCurrent"});
  CHECK(function.name() == "attend");
  CHECK(function.attributes().registers == 40);
  CHECK(function.attributes().localBytes == 0);
  CHECK(function.attributes().sharedBytes == 512);
  CHECK(function.attributes().constantBytes == 16);
  CHECK(function.attributes().maxThreadsPerBlock == 1024);
  CHECK(function.attributes().ptxVersion == 80);
  CHECK(function.attributes().binaryVersion == 90);
  CHECK(function.dynamicSharedBytes() == 100000);
  CHECK(function.parameterBytes() == std::vector<size_t>{8, 4});
  CHECK(fake->functionSettings["attend:8"] == 100000);
}

TEST_CASE("PTX reaches the driver with its end, whatever follows it in memory") {
  Fake fake;
  const std::string longer = std::string(kPtx) + "garbage";
  const Module module = Module::load(fake.context(), std::string_view(longer).substr(0, longer.size() - 7)).value();
  CHECK(fake->loadedImage == kPtx);
  CHECK(module.log() == "ptxas info    : Used 40 registers");
}

TEST_CASE("a module is unloaded with the last function of it") {
  Fake fake;
  std::optional<Function> function;
  {
    const Context context = fake.context();
    const Module module = Module::load(context, kPtx).value();
    function = module.function("attend").value();
  }
  CHECK(fake->modules == 1);
  CHECK(fake->retained[0] == 1);
  const Function copy = *function;
  function.reset();
  CHECK(fake->modules == 1);
  CHECK(copy.name() == "attend");
  function = copy;
  {
    const Function last = std::move(*function);
    function.reset();
  }
  CHECK(fake->modules == 1);
}

TEST_CASE("handles that are gone leave nothing loaded or retained") {
  Fake fake;
  {
    const Function function = prepare(fake.context(), kPtx, "attend").value();
  }
  CHECK(fake->modules == 0);
  CHECK(fake->retained[0] == 0);
  abi::Context current = nullptr;
  CHECK(fake.driver()->api.cuCtxGetCurrent(&current) == 0);
  CHECK(current == nullptr);
}

TEST_CASE("a cubin is loaded as it is") {
  Fake fake;
  const std::string cubin = "\x7f"
                            "ELF .entry attend(";
  CHECK(prepare(fake.context(), cubin, "attend"));
  CHECK(fake->loadedImage == cubin);
}

TEST_CASE("what cannot be loaded says why, with the assembler's log") {
  Fake fake;
  const Context context = fake.context();
  fake->failures["cuModuleLoadDataEx"] = 218;
  CHECK(said(prepare(context, kPtx, "attend")) ==
        "kernel 'attend': loading PTX: cuModuleLoadDataEx: FAKE_ERROR_218 (218): the driver's words; the driver's "
        "assembler refuses the "
        "PTX\nptxas application ptx input, line 6; error   : Not a name of any known instruction: 'addd'");
  fake->failures["cuModuleLoadDataEx"] = 222;
  CHECK(said(Module::load(context, kPtx)) == "loading PTX: cuModuleLoadDataEx: FAKE_ERROR_222 (222): the driver's "
                                             "words; the driver is older than the PTX's .version: update "
                                             "NVIDIA's driver, or compile for a lower PTX version");
  fake->failures["cuModuleLoadDataEx"] = 209;
  CHECK(said(Module::load(context, "\x7f"
                                   "ELF")) == "loading a cubin: cuModuleLoadDataEx: FAKE_ERROR_209 (209): the driver's "
                                              "words; the code is for another GPU architecture: compile "
                                              "it for this one");
  CHECK(fake->modules == 0);
  CHECK(fake.count("cuModuleUnload") == 0);
}

TEST_CASE("PTX that does not fit is not given to the driver") {
  Fake fake;
  fake->version = 11080;
  const Context context = fake.context();
  CHECK(said(prepare(context, kPtx, "attend")) == "kernel 'attend': the PTX is of version 8.0; the driver is of CUDA "
                                                  "11.8 and takes versions up to 7.8: update NVIDIA's driver, or "
                                                  "compile for a lower PTX version");
  CHECK(said(Module::load(context, ".version 7.0\n.target sm_100a"))
            .starts_with("the PTX is for sm_100a; CUDA device 0 (Fake H100)"));
  CHECK(said(Module::load(context, "nonsense")).starts_with("this is not PTX"));
  CHECK(fake.count("cuModuleLoadDataEx") == 0);
}

TEST_CASE("nothing is loaded while the stream is being captured, and the capture stays whole") {
  Fake fake;
  const Context context = fake.context();
  const Stream stream = Stream::create(context).value();
  fake->capturing[stream.handle()] = 1;
  CHECK(said(prepare(context, kPtx, "attend", {}, stream.handle())) ==
        "kernel 'attend': nothing can be loaded while the stream is being captured into a graph: prepare() the kernel "
        "before capturing");
  CHECK(said(Module::load(context, kPtx)) ==
        "nothing can be loaded while the stream is being captured into a graph: prepare() the kernel before capturing");
  CHECK(fake->capturing[stream.handle()] == 1);
  CHECK(fake.count("cuModuleLoadDataEx") == 0);

  SECTION("a capture of a stream that was not named is told by the driver's error") {
    const Stream other = Stream::create(context).value();
    CHECK(said(Module::load(context, kPtx, other.handle())).find("prepare() the kernel before capturing") !=
          std::string::npos);
    CHECK(fake->capturing[stream.handle()] == 2);
  }
}

TEST_CASE("an entry that is not there is named") {
  Fake fake;
  CHECK(said(prepare(fake.context(), kPtx, "absent")) ==
        "kernel 'absent': cuModuleGetFunction: FAKE_ERROR_500 (500): the driver's words; "
        "there is nothing of that name");
}

TEST_CASE("shared memory is asked for above 48 KB alone, and up to what the GPU has") {
  Fake fake;
  const Context context = fake.context();
  const Module module = Module::load(context, kPtx).value();
  CHECK(module.function("attend", {.dynamicSharedBytes = 49152 - 512}));
  CHECK(fake.count("cuFuncSetAttribute") == 0);
  CHECK(module.function("attend", {.dynamicSharedBytes = 49152 - 511}));
  CHECK(fake->functionSettings["attend:8"] == 49152 - 511);
  CHECK(module.function("attend", {.dynamicSharedBytes = 232448 - 512}));
  CHECK(fake.count("cuFuncSetAttribute") == 2);
  CHECK(said(module.function("attend", {.dynamicSharedBytes = 232448 - 511})) ==
        "kernel 'attend': a block needs 232449 bytes of shared memory (512 static, 231937 dynamic); CUDA device 0 "
        "(Fake H100, sm_90) has "
        "at most 232448: use a smaller tile");
  CHECK(!module.function("attend", {.dynamicSharedBytes = SIZE_MAX}));
  CHECK(fake.count("cuFuncSetAttribute") == 2);
}

TEST_CASE("parameters that differ from the compiler's are found when the function is prepared") {
  Fake fake;
  const Context context = fake.context();
  const Module module = Module::load(context, kPtx).value();
  CHECK(module.function("attend", {.parameterBytes = std::vector<size_t>{8, 4}}));
  CHECK(said(module.function("attend", {.parameterBytes = std::vector<size_t>{8, 8}})) ==
        "kernel 'attend': expected parameters of [8, 8] bytes, the loaded code has [8, 4]");
  fake->failures["cuFuncGetParamInfo"] = 801; // a driver that has the function and does not tell
  CHECK(module.function("attend", {.parameterBytes = std::vector<size_t>{1}}).value().parameterBytes() ==
        std::vector<size_t>{1});
  CHECK(!module.function("attend").value().parameterBytes());
}

TEST_CASE("calls that fail while a function is prepared are named") {
  Fake fake;
  const Context context = fake.context();
  const Module module = Module::load(context, kPtx).value();
  for (const std::string call : {"cuModuleGetFunction", "cuFuncLoad", "cuFuncGetAttribute", "cuFuncSetAttribute"}) {
    fake->failures = {{call, 700}};
    const std::string error = said(module.function("attend", {.dynamicSharedBytes = 60000}));
    CHECK(error.starts_with("kernel 'attend'"));
    CHECK(error.find(call + ": FAKE_ERROR_700") != std::string::npos);
  }
}
