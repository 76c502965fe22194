// The checker beyond its messages: what it accepts, signs, limits, several errors. Exact messages are in tests/errors.
// SPDX-License-Identifier: Apache-2.0
#include "frontend/Builtins.h"
#include "frontend/Check.h"
#include "frontend/Prelude.h"
#include "frontend/Samplers.h"
#include "tests/unit/Frontend.h"

#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>

using namespace yaglom;
using namespace yaglom::test;

namespace {

/// Whether features `f` of x pass a bare `normalize` without a warning.
bool positive(const std::string &f, const std::string &bindings = "") {
  std::string text = "dim m = 4\nmap f(x) { " + bindings + " return " + f +
                     " }\nattention test(Q; K, V) = linear(f(Q), f(K), V) with normalize\n";
  std::string result = messages(text);
  if (!contains(result, "features may be negative") && !result.empty())
    FAIL(result);
  return result.empty();
}

size_t count(const std::string &text, std::string_view part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

std::string mapOf(const std::string &value) { return messages("dim m = 4\nmap f(x) = " + value + "\n"); }

} // namespace

TEST_CASE("T12: functions and operations that are never negative") {
  CHECK(positive("exp(x)"));
  CHECK(positive("exp2(x)"));
  CHECK(positive("relu(x)"));
  CHECK(positive("abs(x)"));
  CHECK(positive("sigmoid(x)"));
  CHECK(positive("softplus(x)"));
  CHECK(positive("softmax(x)"));
  CHECK(positive("sqrt(x)"));
  CHECK(positive("rsqrt(x)"));
  CHECK(positive("[|x|]"));
  CHECK(positive("x * x"));
  CHECK(positive("(x + 1) * (x + 1)"));
  CHECK(positive("square(x)"));
  CHECK(positive("x^2"));
  CHECK(positive("x^(-4)"));
  CHECK(positive("exp(x)^x"));
  CHECK(positive("exp(x) * pi / m + pos / len"));
  CHECK(positive("min(exp(x), relu(x))"));
  CHECK(positive("max(exp(x), x)"));
  CHECK(positive("max(x, exp(x))"));
  CHECK(positive("[max(exp(x)); sum(exp(x)); mean(relu(x)); 0]"));
  CHECK(positive("outer(exp(x), relu(x))"));
  CHECK(positive("elu(relu(x))"));
  CHECK(positive("abs(W) @ exp(x)", "param W: [m, d] = 1"));
  CHECK(positive("[a; b]", "let (a, b) = split(exp(x))"));
}

TEST_CASE("T12: elu(x) + c is positive for c of at least 1, on either side and through lets") {
  CHECK(positive("elu(x) + 1"));
  CHECK(positive("1 + elu(x)"));
  CHECK(positive("elu(x) + 3/2"));
  CHECK(positive("elu(x) - -1"));
  CHECK(positive("y + c", "let y = elu(x) let c = 1"));
  CHECK(positive("elu(x) + m"));
  CHECK_FALSE(positive("elu(x) + 0.99"));
  CHECK_FALSE(positive("elu(x)"));
  CHECK_FALSE(positive("elu(x) * 2 + 1"));
  CHECK_FALSE(positive("elu(x) - 1"));
}

TEST_CASE("T12: what may be negative") {
  CHECK_FALSE(positive("x"));
  CHECK_FALSE(positive("-exp(x)"));
  CHECK_FALSE(positive("exp(x) - 1"));
  CHECK_FALSE(positive("exp(x) - relu(x)"));
  CHECK_FALSE(positive("x^3"));
  CHECK_FALSE(positive("x^m"));
  CHECK_FALSE(positive("x * (x + 1)"));
  CHECK_FALSE(positive("min(exp(x), x)"));
  CHECK_FALSE(positive("max(x, x)"));
  CHECK_FALSE(positive("[exp(x); x]"));
  CHECK_FALSE(positive("silu(x)"));
  CHECK_FALSE(positive("gelu(x)"));
  CHECK_FALSE(positive("unit(x)"));
  CHECK_FALSE(positive("tanh(exp(x)) * -1"));
  CHECK_FALSE(positive("W @ exp(x)", "param W: [m, d] = 1"));
  CHECK_FALSE(positive("outer(exp(x), x)"));
}

TEST_CASE("T12: the warning asks both features, and only under bare normalize") {
  auto with = [](const std::string &q, const std::string &k, const std::string &option) {
    return messages("attention a(Q; K, V) = linear(" + q + ", " + k + ", V) with " + option + "\n");
  };
  CHECK(with("exp(Q)", "exp(K)", "normalize").empty());
  CHECK(contains(with("Q", "exp(K)", "normalize"), "warning"));
  CHECK(contains(with("exp(Q)", "K", "normalize"), "warning"));
  CHECK(contains(with("Q", "K", "normalize()"), "warning"));
  CHECK(with("Q", "K", "normalize(eps = 1)").empty());
  CHECK(with("Q", "K", "causal").empty());
}

TEST_CASE("T2: sizes are compared as polynomials") {
  CHECK(messages("dim m = 4\nmap f(x) -> [m + d] = g([x; x]) + h(x)\n").find("unknown function 'g'") !=
        std::string::npos);
  CHECK(messages("map f(x: [n], y: [n + n]) -> [n*3] = [y; x]\n").empty());
  CHECK(messages("map f(x) -> [1 + d + d*d] = [1; x; outer(x, x)]\n").empty());
  CHECK(messages("map f(x: [2*n], y: [n]) -> [n] { let (a, b) = split(x) return a + b + y }\n").empty());
  CHECK(messages("map f(x: [n]) -> [n/2] { let (a, b) = split(x) return a + b }\n").empty());
}

TEST_CASE("T2: a map may be applied at several widths in one expression when it owns nothing") {
  CHECK(messages("map f(x) = [x; x]\nattention a(Q; K, V) = linear(f(f(Q)), [f(K); f(K)], V)\n").empty());
}

TEST_CASE("T3: scalars and rows broadcast, nothing else") {
  auto withMatrix = [](const std::string &value) {
    return messages("dim m = 4\nmap f(x) { param W: [m, d] = 1 param v: [m] = 1 return " + value + " }\n");
  };
  CHECK(withMatrix("(W * x) @ x + v").empty());
  CHECK(withMatrix("(x * W) @ x + 2 * v").empty());
  CHECK(withMatrix("(W / 2) @ x + v").empty());
  CHECK(withMatrix("min(W, x) @ x + v").empty());
  CHECK(contains(withMatrix("(W * v) @ x"), "cannot multiply [m, d] by [m]: d is not m"));
  CHECK(contains(withMatrix("W + v"), "cannot add"));
}

TEST_CASE("T8: a value without a side fits any place") {
  CHECK(messages("attention a(Q; K, V) { param w: [d] = 1 return linear(w, K, V) + linear(Q, w, V) }\n").empty());
  CHECK(messages("attention a(Q; K, V) { param w: [e] = 1 return linear(Q, K, w) * w }\n").empty());
  CHECK(messages("fn half(q, k, v) = linear(q, k, v) / 2\nattention a(Q; K, V) = half(Q, K, V)\n").empty());
  CHECK(messages("attention a(Q, G: [e]; K, V) = linear(linear(Q, K, K), K, V) * G\n").empty());
}

TEST_CASE("T11: position belongs to the row that a map is applied to") {
  CHECK(messages("fn turn(x) = x * cos(pos)\nmap f(x) = turn(x)\nattention a(Q; K, V) = linear(f(Q), f(K), V)\n")
            .empty());
  CHECK(messages("attention a(Q; K, V) = linear(Q / len, K, V)\n").empty());
}

TEST_CASE("initial values see dimensions, earlier params, head, heads and index") {
  CHECK(messages("dim n = 4\nmap f(x) {\n param a: [] = 1 - 2^(-5 - head / heads)\n param b: [d] = a * index / d\n"
                 " param W: [n, d] = b * sqrt(pi)\n param M: [d, d] = eye\n shared param c: [] = log(n)\n"
                 " return W @ (M @ x * c + a + b)\n}\n")
            .empty());
}

TEST_CASE("a fn sees the dimensions of its caller") {
  CHECK(messages("fn scaled(x) = x / n^(1/2)\nmap f(x: [n]) = scaled(x)\n").empty());
  CHECK(contains(messages("fn scaled(x) = x / n^(1/2)\nmap f(x: [d]) = scaled(x)\n"), "unknown name 'n'"));
}

TEST_CASE("file-level names may be used before they are declared") {
  CHECK(messages("attention a(Q; K, V) = linear(f(Q), f(K), V)\nmap f(x) { draw W: [m, d] ~ s return g(W @ x) }\n"
                 "fn g(x) = exp(x)\nsampler s = mixture(components = m)\ndim m = 4\n")
            .empty());
}

TEST_CASE("line breaks mean nothing") {
  CHECK(messages("map\nf\n(\nx\n)\n=\nexp\n(\nx\n)\n").empty());
  CHECK(messages("dim m = 4 map f(x) { draw W: [m, d] ~ gaussian return W @ x } map g(x) = x").empty());
}

TEST_CASE("one file yields several errors, in the order of the source") {
  std::string text =
      messages("map f(x) = exq(x)\nmap g(x = x\nmap h(x) { let y = 2 x let z = (y return z }\nmap k(x) = x + [x; x]\n");
  CHECK(count(text, "error: ") == 5);
  CHECK(text.find(":1:") < text.find(":2:"));
  CHECK(text.find(":3:") < text.find(":4:"));
}

TEST_CASE("a mistake is said once, not at every use") {
  CHECK(count(messages("fn g(x) = x + [x; x]\nmap f(x) = g(x) * g(x)\nattention a(Q; K, V) = linear(f(Q), f(K), V)\n"),
              "error: ") == 1);
  CHECK(count(messages("map f(x) = y\nmap g(x) = f(f(x))\nattention a(Q; K, V) = linear(g(Q), f(K), V)\n"),
              "error: ") == 1);
  CHECK(count(messages("dim m = = 3\nmap f(x) { param W: [m, d] = 1 return W @ x / m }\n"), "error: ") == 1);
}

TEST_CASE("nesting of 256, chains of 4096 and text of 1 MiB are accepted, one more is refused") {
  auto nested = [](size_t n) { return mapOf(std::string(n, '(') + "x" + std::string(n, ')')); };
  CHECK(nested(256).empty());
  CHECK(contains(nested(257), "nested deeper than 256"));
  auto negated = [](size_t n) { return mapOf(std::string(n, '-') + "x"); };
  CHECK(negated(256).empty());
  CHECK(contains(negated(257), "nested deeper than 256"));
  auto chain = [](size_t n) {
    std::string text = "x";
    for (size_t i = 0; i < n; ++i)
      text += i % 2 ? "*x" : "/x";
    return mapOf(text);
  };
  CHECK(chain(4096).empty());
  CHECK(contains(chain(4097), "more than 4096 operators"));
  CHECK(messages(std::string((1 << 20) - 1, '#') + "\n").empty());
  CHECK(contains(messages(std::string((1 << 20), '#') + "\n"), "at most 1 MiB"));
}

TEST_CASE("a spec that explodes by inlining is refused quickly") {
  std::string text = "fn f0(x) = x + x\n";
  for (int i = 1; i < 60; ++i)
    text +=
        "fn f" + std::to_string(i) + "(x) = f" + std::to_string(i - 1) + "(x) * f" + std::to_string(i - 1) + "(x)\n";
  CHECK(count(messages(text), "operations after inlining") > 0);
  std::string many = "fn f(x) = x";
  for (int i = 0; i < 4000; ++i)
    many += " + x";
  for (int i = 0; i < 600; ++i)
    many += "\nmap m" + std::to_string(i) + "(x) = f(x)";
  CHECK(contains(messages(many + "\n"), "operations in all after inlining"));
}

TEST_CASE("a long chain of functions is no problem for the stack") {
  std::string text = "fn f0(x) = x\n";
  for (int i = 1; i < 20000; ++i)
    text += "fn f" + std::to_string(i) + "(x) = f" + std::to_string(i - 1) + "(x)\n";
  CHECK(contains(messages(text), "nested deeper than 256 after inlining"));
  CHECK(contains(messages(text + "fn g0(x) = g1(x)\nfn g1(x) = g0(x)\n"), "'g0' calls itself through 'g1'"));
}

TEST_CASE("too many messages are cut off") {
  std::string text;
  for (int i = 0; i < 100; ++i)
    text += "map f" + std::to_string(i) + "(x) = y\n";
  std::string result = messages(text);
  CHECK(count(result, ": error: unknown name 'y'") == Diagnostics::kMaxMessages);
  CHECK(contains(result, "too many messages"));
}

TEST_CASE("carets align under tabs and shown lines are cut to what matters") {
  CHECK(contains(messages("map f(x) =\t\ty\n"),
                 "t.phi:1:13: error: unknown name 'y'\nmap f(x) =\t\ty\n          \t\t^\n"));
  std::string longLine = messages("map f(x) = " + std::string(3000, ' ') + "y" + std::string(3000, ' ') + "\n");
  CHECK(contains(longLine, "t.phi:1:3012: error"));
  CHECK(longLine.size() < 600);
  CHECK(contains(messages("map f(x) = y # \xCE\xBC\r\n"), "map f(x) = y # \xCE\xBC\n           ^\n"));
}

TEST_CASE("a file that cannot be read is said to be so") {
  Result<Spec> spec = Spec::parseFile("/nonexistent/x.phi");
  REQUIRE_FALSE(spec);
  CHECK(std::string(spec.error().what()) ==
        "/nonexistent/x.phi: error: cannot read the file: No such file or directory\n");
  CHECK_FALSE(Spec::parseFile("/"));
}

TEST_CASE("every function of the prelude parses and checks") {
  for (const ast::Decl &decl : prelude().decls) {
    const auto &fn = std::get<ast::FnDecl>(decl);
    INFO(fn.id.name);
    REQUIRE(fn.params.size() == 1);
    CHECK(mapOf(fn.id.name + "(x)").empty());
  }
  CHECK(prelude().decls.size() == 5);
}

TEST_CASE("the table of elementary functions has their signs and values") {
  for (const Elementary &f : elementaryFunctions()) {
    INFO(f.name);
    for (double x : {-30.0, -1.5, 0.0, 0.3, 2.0, 40.0}) {
      double value = f.value(x, 0.7);
      CHECK((!f.positive || std::isnan(value) || value >= 0));
    }
    std::string args = f.maxArgs == 2 ? "(x, x)" : "(x)";
    CHECK(mapOf(std::string(f.name) + args).empty());
  }
  CHECK(findElementary("softplus")->value(-20, 0) == Approx(2.0611536e-9));
  CHECK(findElementary("sigmoid")->value(-800, 0) == 0);
  CHECK(findElementary("elu")->value(-1e-12, 0) == Approx(-1e-12));
  CHECK(findElementary("nonsense") == nullptr);
}

TEST_CASE("the table of elementary functions and dialect/Pointwise.td hold the same functions") {
  std::ifstream stream(YAGLOM_SOURCE_DIR "/dialect/Pointwise.td");
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  std::regex record("def Phi_\\w+ : Phi_(Unary|Binary)<\"(\\w+)\"");
  std::map<std::string, int> records, table;
  for (std::sregex_iterator at(text.begin(), text.end(), record), end; at != end; ++at)
    records[(*at)[2]] = (*at)[1] == "Binary" ? 2 : 1;
  // Operators, and what simplification makes.
  for (const char *other : {"add", "sub", "mul", "div", "neg", "pow", "elu_plus_one", "div_or_zero", "log_decay"})
    CHECK(records.erase(other) == 1);
  for (const Elementary &f : elementaryFunctions())
    table[std::string(f.name)] = f.maxArgs;
  CHECK(table == records);
}

TEST_CASE("the formula of every sampler checks at small and large widths") {
  for (const SamplerKind *kind : samplerKinds())
    for (int64_t width : {2, 6, 128}) {
      SamplerOptions options;
      for (const SamplerOption &option : kind->options)
        options.emplace(option.name, option.fallback.value_or(3));
      INFO(kind->name << " at width " << width);
      Result<ast::File> formula = samplerFormula(*kind, options, width);
      if (!formula)
        FAIL(formula.error().what());
      CHECK(formula->find<ast::MapDecl>("sample"));
      CHECK(kind->hasDensity == (formula->find<ast::MapDecl>("log_density") != nullptr));
    }
}
