# Precompiled headers, with YAGLOM_PCH: what most units of a kind include, parsed once.
# SPDX-License-Identifier: Apache-2.0
set(YAGLOM_HEADERS_plain
  <algorithm> <array> <bit> <cmath> <cstdint> <fmt/format.h> <fmt/ranges.h> <functional> <map> <memory> <mutex> <optional>
  <set> <span> <string> <string_view> <utility> <vector>)
set(YAGLOM_HEADERS_test
  "${PROJECT_SOURCE_DIR}/tests/unit/Catch.h" ${YAGLOM_HEADERS_plain} <filesystem> <fstream>)
set(YAGLOM_HEADERS_llvm
  <mlir/Dialect/Arith/IR/Arith.h>
  <mlir/Dialect/Func/IR/FuncOps.h>
  <mlir/Dialect/LLVMIR/LLVMDialect.h>
  <mlir/Dialect/Linalg/IR/Linalg.h>
  <mlir/Dialect/Math/IR/Math.h>
  <mlir/Dialect/MemRef/IR/MemRef.h>
  <mlir/Dialect/SCF/IR/SCF.h>
  <mlir/Dialect/Tensor/IR/Tensor.h>
  <mlir/Dialect/Vector/IR/VectorOps.h>
  <mlir/IR/PatternMatch.h>
  <mlir/Pass/Pass.h>)

# The headers of a kind with the flags that most units have: libraries' (PIC) or programs'. No others can use them.
function(_yaglom_precompiled kind link flags)
  set(target yaglom_precompiled_${kind})
  file(WRITE "${CMAKE_BINARY_DIR}/${target}.cpp" "")
  add_library(${target} OBJECT EXCLUDE_FROM_ALL "${CMAKE_BINARY_DIR}/${target}.cpp")
  if(flags STREQUAL "PIC")
    set_target_properties(${target} PROPERTIES
      POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  endif()
  target_link_libraries(${target} PRIVATE yaglom_options ${link})
  target_precompile_headers(${target} PRIVATE ${YAGLOM_HEADERS_${kind}})
endfunction()

if(YAGLOM_PCH)
  _yaglom_precompiled(plain fmt::fmt PIC)
  _yaglom_precompiled(llvm yaglom_llvm PIC)
  if(YAGLOM_TESTS)
    _yaglom_precompiled(test fmt::fmt PROGRAM)
  endif()
endif()

# yaglom_precompile(target plain|llvm|test options)
#
# `target` finds the headers of a kind parsed: shared ones, unless it has compile options of its own.
function(yaglom_precompile target kind options)
  if(NOT YAGLOM_PCH)
    return()
  endif()
  if(options)
    target_precompile_headers(${target} PRIVATE ${YAGLOM_HEADERS_${kind}})
  else()
    target_precompile_headers(${target} REUSE_FROM yaglom_precompiled_${kind})
  endif()
endfunction()
