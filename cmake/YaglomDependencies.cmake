# Finds what the distribution ships, and hands LLVM and MLIR out through one interface target.
# SPDX-License-Identifier: Apache-2.0

# Plain 22 is refused by the version file. Another place: -DMLIR_DIR=.../lib/cmake/mlir
find_package(MLIR 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
find_package(fmt 9 REQUIRED)
find_package(CLI11 2 REQUIRED)
find_package(TBB 2021 REQUIRED)
find_package(nlohmann_json 3 REQUIRED)
if(YAGLOM_BENCH)
  find_package(benchmark REQUIRED)
endif()
if(YAGLOM_TESTS)
  find_package(Catch2 REQUIRED)
  list(APPEND CMAKE_MODULE_PATH "${Catch2_DIR}")
endif()
find_package(Threads REQUIRED)

list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)

# The shared libraries only: with the static archives two copies of LLVM would meet in one process.
separate_arguments(LLVM_DEFINITIONS_LIST NATIVE_COMMAND "${LLVM_DEFINITIONS}")
add_library(yaglom_llvm INTERFACE)
# The build folder holds what TableGen writes, which is not ours to free of warnings.
target_include_directories(yaglom_llvm SYSTEM INTERFACE
  ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS} "${PROJECT_BINARY_DIR}")
target_link_libraries(yaglom_llvm INTERFACE MLIR LLVM)
