// Tuned schedules on a GPU: launches up to the prepared sizes load nothing, whichever schedule is theirs.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Compiled.h"
#include "runtime/tune/Record.h"
#include "tests/cuda/Gpu.h"

using namespace yaglom;
using namespace yaglom::tests;

TEST_CASE("a launch with a tuned schedule is prepared with those of larger sizes") {
  setCache({.folder = ""}); // what is tuned stays in this process
  const Spec spec = Spec::parse("attention tuned(Q; K, V) = linear(exp(Q), exp(K), V) with causal, normalize").value();
  const CompileOptions own{.target = cuda(), .headDim = 8, .valueDim = 8};
  const auto shared = runtime::compileShared(spec, "tuned", own).value();
  const auto bucket = runtime::Bucket::of({2, 2, 40, 40}, runtime::workersOf(*shared));
  const std::pair<Pass, const char *> planted[] = {
      {Pass::Forward, "chunk=16"}, {Pass::Backward, "warps=4"}, {Pass::BackwardFromResidual, "stages=1"}};
  for (const auto &[pass, text] : planted)
    runtime::tune::keepRecord(runtime::tune::recordKey(*shared, pass, bucket),
                              {.chosen = Schedule::parse(text).value(), .complete = true, .candidates = {}});
  const Subject subject(compile(spec, "tuned", own).value(), {2, 2, 40});
  DeviceGradients gradients;
  Residual residual;
  Prepare larger{.batch = 2, .heads = 4, .queryLength = 300, .backward = true, .stream = stream(30)};
  subject.kernel.prepare(larger);
  larger.residual = &residual;
  subject.kernel.prepare(larger);
  // Gradients of the sizes that are launched.
  subject.kernel.backward(subject.inputs(), subject.parameters, subject.grad(), gradients, {.stream = stream(30)});
  forgetCalls();
  subject.kernel.forward(subject.inputs(), subject.parameters, subject.output(),
                         {.residual = &residual, .stream = stream(30)});
  subject.kernel.backward(subject.inputs(), subject.parameters, subject.grad(), gradients,
                          {.residual = &residual, .stream = stream(30)});
  subject.kernel.forward(subject.inputs(), subject.parameters, subject.output(), {.stream = stream(30)});
  CHECK(forbiddenCalls() == std::vector<std::string>{});

  CompileOptions by16 = own;
  by16.schedule.chunk = 16;
  const Subject expected(compile(spec, "tuned", by16).value(), {2, 2, 40});
  expected.kernel.forward(expected.inputs(), expected.parameters, expected.output(), {.stream = stream(30)});
  CHECK(subject.result(stream(30)) == expected.result(stream(30)));
  setCache({});
}
