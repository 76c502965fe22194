# Installs the build into a scratch folder, then configures, builds and runs downstream/ against it with MLIR and LLVM hidden
# from find_package. The installed command line tool must start as well.
# SPDX-License-Identifier: Apache-2.0
include("${CMAKE_CURRENT_LIST_DIR}/Run.cmake")

set(prefix "${SCRATCH}/prefix")
file(REMOVE_RECURSE "${prefix}" "${SCRATCH}/downstream")
run(${CMAKE_COMMAND} --install "${BUILD}" --prefix "${prefix}")
run(${CMAKE_COMMAND} -S "${SOURCE}/tests/install/downstream" -B "${SCRATCH}/downstream" -G "${GENERATOR}"
    "-DCMAKE_CXX_COMPILER=${CXX}" "-DCMAKE_PREFIX_PATH=${prefix}"
    -DCMAKE_DISABLE_FIND_PACKAGE_MLIR=ON -DCMAKE_DISABLE_FIND_PACKAGE_LLVM=ON)
run(${CMAKE_COMMAND} --build "${SCRATCH}/downstream")
run("${SCRATCH}/downstream/downstream")
if(NOT output MATCHES "O\\[0\\] = 0\\.5\n")
  message(FATAL_ERROR "the downstream program printed: ${output}")
endif()

if(EXISTS "${prefix}/bin/yaglom")
  run(${CMAKE_COMMAND} -E env --unset=LD_LIBRARY_PATH "${prefix}/bin/yaglom" --help)
endif()
