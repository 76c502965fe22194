# Loading the library starts no thread and no process, prints nothing, and changes no signal handler.
# SPDX-License-Identifier: Apache-2.0
set(program "${SCRATCH}/loading")
execute_process(COMMAND "${CXX}" -std=c++20 "${SOURCE}/tests/install/Loading.cpp" -o "${program}" -ldl
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${program}" "${LIBRARY}" RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT result EQUAL 0 OR NOT output STREQUAL "")
  message(SEND_ERROR "exit ${result}: ${output}")
endif()
