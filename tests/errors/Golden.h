// The files of tests/errors: a spec, and below it the exact output that checking it gives.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace yaglom::errors {

/// One file: the text above the first line that begins with "#>", and what stands behind that mark from there on.
/// A line `#! instantiate NAME d=16 e=12` in the spec asks for that attention to be instantiated after the check.
struct Case {
  std::string name; ///< "shape.phi"
  std::string spec;
  std::string expected;
};

/// All cases of the folder, sorted by name.
std::vector<Case> readCases(const std::string &folder);
/// What the front end says of the spec.
std::string actual(const Case &c);
/// The file's text: the spec, then `output` marked with "#>".
std::string fileText(const Case &c, const std::string &output);
/// docs/errors.md.
std::string document(const std::vector<Case> &cases);

} // namespace yaglom::errors
