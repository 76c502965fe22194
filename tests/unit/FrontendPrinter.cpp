// The printer: fewest parentheses, and printing what was printed changes nothing.
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/Frontend.h"

#include <filesystem>

using namespace yaglom;
using namespace yaglom::test;

TEST_CASE("the printer keeps the parentheses that mean something and no others") {
  CHECK(expression("((x))") == "x");
  CHECK(expression("(x + x) + x") == "x + x + x");
  CHECK(expression("x + (x + x)") == "x + (x + x)");
  CHECK(expression("x - (x - x)") == "x - (x - x)");
  CHECK(expression("(x * x) / x") == "x * x / x");
  CHECK(expression("x * (x / x)") == "x * (x / x)");
  CHECK(expression("-(x^2)") == "-x^2");
  CHECK(expression("(-x)^2") == "(-x)^2");
  CHECK(expression("x^(-2)") == "x^-2");
  CHECK(expression("(x^2)^3") == "(x^2)^3");
  CHECK(expression("x^(2^3)") == "x^2^3");
  CHECK(expression("x - (-x)") == "x - -x");
  CHECK(expression("(-x) * x") == "-x * x");
  CHECK(expression("||x| * x| * x") == "||x| * x| * x");
  CHECK(expression("[x ; (2*x)]") == "[x; 2 * x]");
  CHECK(expression("exp( x )") == "exp(x)");
}

TEST_CASE("a call with options keeps its parentheses inside an expression") {
  CHECK(printed("attention a(Q; K, V) = 2 * (linear(Q, K, V) with causal, normalize(eps = 1))\n") ==
        "attention a(Q; K, V) = 2 * (linear(Q, K, V) with causal, normalize(eps = 1))\n");
  CHECK(printed("attention a(Q; K, V) = (linear(Q, K, V) with causal)\n") ==
        "attention a(Q; K, V) = linear(Q, K, V) with causal\n");
  CHECK(printed("attention a(Q; K, V) = linear(Q, K, V) with normalize(signed = 1e-6), causal\n") ==
        "attention a(Q; K, V) = linear(Q, K, V) with normalize(signed = 1e-6), causal\n");
}

TEST_CASE("numbers print in the fewest digits that give the same double") {
  CHECK(expression("0.1 * x") == "0.1 * x");
  CHECK(expression("0.10000000000000001 * x") == "0.1 * x");
  CHECK(expression("1e-6 * x") == "1e-6 * x");
  CHECK(expression("100000 * x") == "100000 * x");
  CHECK(expression("1e300 * x") == "1e300 * x");
  CHECK(expression("0.30000000000000004 * x") == "0.30000000000000004 * x");
  CHECK(expression("4.9e-324 * x") == "5e-324 * x");
}

TEST_CASE("bodies with bindings print one binding a line") {
  CHECK(printed("map f(x:[d])->[2*d]{shared param s:[]=1 draw(A,B):[d,d]~gaussian(scale=2)\n"
                "let (u,v)=split([x;x]) return [A@u*s;B@v]}") == "map f(x: [d]) -> [2*d] {\n"
                                                                 "  shared param s: [] = 1\n"
                                                                 "  draw (A, B): [d, d] ~ gaussian(scale = 2)\n"
                                                                 "  let (u, v) = split([x; x])\n"
                                                                 "  return [A @ u * s; B @ v]\n"
                                                                 "}\n");
}

TEST_CASE("every spec of the repository checks, and its printed text prints itself") {
  size_t files = 0;
  for (const char *folder : {"/examples/specs", "/tests/unit/specs"})
    for (const auto &entry : std::filesystem::directory_iterator(std::string(YAGLOM_SOURCE_DIR) + folder)) {
      INFO(entry.path().string());
      Result<Spec> spec = Spec::parseFile(entry.path().string());
      if (!spec)
        FAIL(spec.error().what());
      CHECK(spec->warnings().empty());
      CHECK(printed(spec->print()) == spec->print());
      ++files;
    }
  CHECK(files >= 13);
}
