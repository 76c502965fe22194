// The page of `yaglom report`: one HTML text with its style and its charts, which loads nothing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/report/Records.h"

#include <string>

namespace yaglom::tools {

/// Charts over the length, what tuning found, and every number in tables.
std::string reportPage(const Records &records, const std::string &title);

/// The landscape of one tuning: a bar for each candidate, the fastest first.
std::string tuningChart(const TuneRecord &record);

} // namespace yaglom::tools
