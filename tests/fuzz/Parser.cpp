// libFuzzer: no text may crash the front end, and what it accepts prints, parses again and instantiates.
// SPDX-License-Identifier: Apache-2.0
#include "frontend/Instance.h"
#include "frontend/Printer.h"
#include "yaglom/spec.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

void require(bool condition, const char *what, const std::string &text) {
  if (condition)
    return;
  std::fprintf(stderr, "%s\n%s\n", what, text.c_str());
  std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace yaglom;
  Result<Spec> spec = Spec::parse(std::string(reinterpret_cast<const char *>(data), size));
  if (!spec) {
    require(*spec.error().what() != '\0', "an error without a message", "");
    return 0;
  }
  std::string printed = spec->print();
  // The canonical text has more blanks and may pass the limit of a file.
  if (printed.size() > (size_t{1} << 20))
    return 0;
  Result<Spec> again = Spec::parse(printed);
  require(static_cast<bool>(again), "the printed text is refused", again ? "" : printed + again.error().what());
  require(again->print() == printed, "printing is not stable", printed);
  std::vector<std::string> names = spec->attentions();
  names.resize(std::min<size_t>(names.size(), 16)); // more of the same would only take time
  for (const std::string &name : names)
    for (const DimValues &values : {DimValues{{"d", 6}, {"e", 4}}, DimValues{{"d", 2147483647}, {"e", 1}}})
      (void)instantiate(spec->file(), name, values);
  return 0;
}
