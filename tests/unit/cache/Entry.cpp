// Bytes of a cache file, and of the programs in it: what was written is read, anything else is refused.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/Entry.h"
#include "compiler/Artifact.h"
#include "tests/unit/Catch.h"

#include <nlohmann/json.hpp>

using namespace yaglom;
using namespace yaglom::compiler;
using runtime::cache::Key;
using runtime::cache::parseEntry;
using runtime::cache::toBytes;

namespace {

Program program() {
  Program program;
  program.forward = {nullptr, {nullptr, "forward", 128, 4096, 64}, {"Q", "K", "V", "O"}, "forward"};
  program.advance = {nullptr, {}, {"Q"}, "advance"};
  program.stateElements = 9;
  program.logScales = {{{3, 14}, 5}};
  program.chunk = 32;
  program.parts = Parts::Prefix;
  program.keeps = Keeps::Segments;
  program.draws = {{nullptr, {}, {"f.W.noise", "f.W"}, "draw0"}};
  program.scratchBytes = 1024;
  program.multiplyAddsPerQuery = 1.5;
  program.code = {"sm_80", std::string("PTX \0 with any byte \xff", 22), nullptr};
  return program;
}

BackwardProgram backward() {
  BackwardProgram program;
  static_cast<Entry &>(program.backward) = {nullptr, {}, {"Q", "grad.O", "grad.Q"}, "backward"};
  program.backward.gradients = {"grad.Q"};
  program.backward.rowWidths = {3, 4};
  program.backward.kept = {{0, 8}, {8, 2}};
  program.draws.resize(1);
  program.draws[0].symbol = "draw0.grad";
  program.code.bytes = "object";
  return program;
}

} // namespace

TEST_CASE("an entry is read as it was written") {
  const Key key("forward", "a, d=4", "text of the spec\n");
  const std::string payload("any\0bytes", 9), bytes = toBytes(key, payload);
  const auto entry = parseEntry(bytes);
  REQUIRE(entry);
  CHECK(entry->key == key.text);
  CHECK(entry->payload == payload);
  CHECK(entry->kind() == "forward");
  CHECK(entry->what() == "a, d=4");
  CHECK(parseEntry(toBytes(key, ""))->payload.empty());
  CHECK(key.digest().size() == 64);
  CHECK(key.digest() != Key("forward", "a, d=4", "text of the spec").digest());
}

TEST_CASE("an entry with any bit flipped, or cut anywhere, is refused") {
  const std::string bytes = toBytes(Key("forward", "a", "text"), std::string(100, 'x'));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 8)));
    CHECK_FALSE(parseEntry(damaged));
    CHECK_FALSE(parseEntry(bytes.substr(0, i)));
  }
  CHECK_FALSE(parseEntry(bytes + "x"));
}

TEST_CASE("a program is read as it was written") {
  const std::string bytes = toArtifact(program());
  const auto read = fromArtifact<Program>(bytes);
  REQUIRE(read);
  CHECK(toArtifact(*read) == bytes);
  CHECK(read->forward.operands == program().forward.operands);
  CHECK(read->forward.gpu.sharedBytes == 4096);
  CHECK(read->draws[0].symbol == "draw0");
  CHECK(read->logScales[0].position == ast::Position{3, 14});
  CHECK(read->keeps == Keeps::Segments);
  CHECK(read->multiplyAddsPerQuery == 1.5);
  CHECK(read->code.bytes == program().code.bytes);

  const auto gradient = fromArtifact<BackwardProgram>(toArtifact(backward()));
  REQUIRE(gradient);
  CHECK(gradient->backward.symbol == "backward");
  CHECK(gradient->backward.kept[1].offset == 8);
  CHECK(gradient->backward.rowWidths == backward().backward.rowWidths);

  LossProgram loss;
  loss.backward.gradients = {"grad.r"};
  CHECK(fromArtifact<LossProgram>(toArtifact(loss))->backward.gradients == loss.backward.gradients);
}

TEST_CASE("a program that lacks a field, or has one of another kind, is refused by its name") {
  const std::string written = toArtifact(program());
  const nlohmann::json whole = nlohmann::json::parse(written.substr(0, written.find('\0')));
  const auto refusal = [](const nlohmann::json &json) {
    const auto read = fromArtifact<Program>(json.dump() + '\0');
    return read ? std::string() : read.error().what();
  };
  CHECK(refusal(whole).empty());
  for (const auto &[name, value] : whole.items()) {
    nlohmann::json without = whole, other = whole;
    without.erase(name);
    other[name] = nullptr;
    CHECK(refusal(without) == "not a program: field '" + name + "' is missing");
    CHECK(refusal(other).starts_with("not a program: field '" + name + "' is "));
  }
  for (const char *name : {"chunk", "parts", "keeps", "scratch"}) {
    nlohmann::json negative = whole, huge = whole, fraction = whole;
    negative[name] = -1;
    huge[name] = ~uint64_t{0};
    fraction[name] = 1.5;
    CHECK_FALSE(refusal(negative).empty());
    CHECK_FALSE(refusal(huge).empty());
    CHECK_FALSE(refusal(fraction).empty());
  }
  CHECK(refusal(nlohmann::json::array()) == "not a program: expected an object");
  CHECK(std::string(fromArtifact<Program>("").error().what()) == "not a program: no code");
  CHECK(std::string(fromArtifact<Program>(std::string("[[\0", 3)).error().what()) == "not a program: no JSON");
  const std::string nested = std::string(1 << 20, '[') + std::string(1 << 20, ']') + '\0';
  CHECK(std::string(fromArtifact<Program>(nested).error().what()) == "not a program: expected an object");
  CHECK_FALSE(fromArtifact<BackwardProgram>(toArtifact(program())));
}
