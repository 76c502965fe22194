// Names and shapes of the state of each `linear`.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/State.h"
#include "tests/unit/Catch.h"
#include "yaglom/yaglom.h"

using namespace yaglom;

namespace {

/// "state.[128, 64] ..." of an attention of examples/specs.
std::string states(const std::string &file, const std::string &attention) {
  const Spec spec = Spec::parseFile(YAGLOM_SOURCE_DIR "/examples/specs/" + file + ".phi").value();
  const Instance instance = instantiate(spec.file(), attention, {{"d", 16}, {"e", 12}}).value();
  std::string text;
  for (const runtime::LinearState &state : runtime::linearStates(instance))
    text += (text.empty() ? "" : " ") + state.prefix + "[" + std::to_string(state.features) + ", " +
            std::to_string(state.width) + "]";
  return text;
}

} // namespace

TEST_CASE("the state of one linear has its features and the width of V") {
  CHECK(states("flexformer_n", "flexformer_n_attention") == "state.[128, 12]");
  CHECK(states("performer", "performer") == "state.[64, 12]");
  CHECK(states("linear_transformer", "linear_transformer") == "state.[16, 12]");
  CHECK(states("cosformer", "cosformer") == "state.[32, 12]");
  CHECK(states("hedgehog", "hedgehog_attention") == "state.[32, 12]");
  CHECK(states("rfa", "rfa_gated") == "state.[128, 12]");
  CHECK(states("fska", "fska_causal") == "state.[64, 12]");
  CHECK(states("retention", "retention") == "state.[16, 12]");
}

TEST_CASE("several linears are told apart by their lets") {
  CHECK(states("polaformer", "polaformer") == "state.same.[32, 6] state.opposite.[32, 6]");
}

TEST_CASE("linears without a let of their own are numbered") {
  const Spec spec =
      Spec::parse("fn twice(q, k, v) = linear(q, k, v) + linear(q * q, k * k, v) "
                  "attention a(Q; K, V) { let o = twice(Q, K, V) return o + linear(outer(Q, Q), outer(K, K), V) }")
          .value();
  const Instance instance = instantiate(spec.file(), "a", {{"d", 3}, {"e", 3}}).value();
  const std::vector<runtime::LinearState> found = runtime::linearStates(instance);
  REQUIRE(found.size() == 3);
  CHECK(found[0].prefix == "state.0.");
  CHECK(found[1].prefix == "state.1.");
  CHECK(found[2].prefix == "state.2.");
  CHECK(found[2].features == 9);
}

TEST_CASE("softmax_attention has no state") { CHECK(states("softmax", "exact") == ""); }

TEST_CASE("a state's log scales are one a feature, or one in all") {
  const auto scales = [](const std::string &file, const std::string &attention, const CompileOptions &options) {
    const Spec spec = Spec::parseFile(YAGLOM_SOURCE_DIR "/examples/specs/" + file + ".phi").value();
    std::string text;
    for (const TensorInfo &tensor : compile(spec, attention, options).value().tensors())
      if (tensor.role == TensorRole::State && tensor.name.ends_with(".a"))
        text += tensor.name + "[" + tensor.axes.back() + "]" + tensor.initial;
    return text;
  };
  for (const Target &target : {Target::host(), Target::reference()}) {
    const CompileOptions options{.target = target, .headDim = 16, .valueDim = 12};
    CHECK(scales("flexformer_n", "flexformer_n_attention", options) == "state.a[1]-inf");
    CHECK(scales("performer", "performer", options) == "state.a[64]-inf");
    CHECK(scales("linear_transformer", "linear_transformer", options) == "state.a[1]-inf");
    CHECK(scales("softmax", "exact", options) == "");
  }
}
