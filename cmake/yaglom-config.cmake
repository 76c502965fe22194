# find_package(yaglom): defines yaglom::yaglom. Needs no LLVM or MLIR package; their libraries are found at run time.
# SPDX-License-Identifier: Apache-2.0
include("${CMAKE_CURRENT_LIST_DIR}/yaglom-targets.cmake")
