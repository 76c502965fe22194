// Catch2 under one name: version 2.13 (Debian 12) and version 3 have different headers, and a different home for Approx.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
