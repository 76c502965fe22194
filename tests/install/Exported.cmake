# Exports several attentions, links them into one C program without yaglom and LLVM, and compares its outputs and gradients with
# those of the JIT, bit for bit.
# SPDX-License-Identifier: Apache-2.0
cmake_policy(VERSION 3.25)

include("${CMAKE_CURRENT_LIST_DIR}/Run.cmake")

set(exports "${SCRATCH}/exports")
set(ENV{YAGLOM_CACHE_DIR} "${exports}/cache") # the same kernel twice is compiled once
set(seed --seed 7)
file(REMOVE_RECURSE "${exports}" "${SCRATCH}/exported")
set(specs "${SOURCE}/examples/specs")

# Each: name, spec, attention, then options of the compiler and of the export.
set(cases
  "flexformer|${specs}/flexformer_n.phi|flexformer_n_attention|--set n=16|"
  "linear_transformer|${specs}/linear_transformer.phi|linear_transformer||"
  "performer|${specs}/performer.phi|performer|--set m=16|"
  "exact|${specs}/softmax.phi|exact|--dtype f64|"
  "retention|${specs}/retention.phi|retention||"
  "shared|${SOURCE}/tests/install/exported/shared.phi|both|--dtype f64|"
  "levels|${specs}/linear_transformer.phi|linear_transformer||--target x86-64-v4,x86-64-v3")

function(read_case text)
  string(REPLACE "|" ";" fields "${text}")
  foreach(field IN ITEMS name spec attention options target)
    list(POP_FRONT fields value)
    separate_arguments(value UNIX_COMMAND "${value}")
    set(${field} ${value} PARENT_SCOPE)
  endforeach()
endfunction()

foreach(case IN LISTS cases)
  read_case("${case}")
  run("${TOOL}" export "${spec}" --attention ${attention} --head-dim 16 --value-dim 12 ${options} ${target} --backward
      --heads 2 ${seed} --name ${name} -o "${exports}")
endforeach()

run("${TOOL}" export "${specs}/linear_transformer.phi" --attention linear_transformer --head-dim 16 --value-dim 12
    --target x86-64-v4 --name wide -o "${exports}")

# A symbol that an object needs of others is one of the C library.
file(GLOB objects "${exports}/*.o")
list(LENGTH objects count)
if(NOT count EQUAL 17)
  message(FATAL_ERROR "expected 17 object files, found ${count}")
endif()
foreach(object IN LISTS objects)
  run("${NM}" -u "${object}")
  string(REGEX REPLACE "[ \n]+U " ";" symbols "${output}")
  foreach(symbol IN LISTS symbols)
    string(STRIP "${symbol}" symbol)
    if(NOT symbol MATCHES "^(|memcpy|memmove|memset|_GLOBAL_OFFSET_TABLE_)$")
      message(FATAL_ERROR "${object} needs ${symbol}")
    endif()
  endforeach()
endforeach()

run(${CMAKE_COMMAND} -S "${SOURCE}/tests/install/exported" -B "${SCRATCH}/exported" -G "${GENERATOR}"
    "-DCMAKE_C_COMPILER=${CC}" "-DEXPORTS=${exports}" "-DCMAKE_BUILD_TYPE=Release")
run(${CMAKE_COMMAND} --build "${SCRATCH}/exported" --verbose)
if(output MATCHES "LLVM|MLIR|libyaglom|-lyaglom")
  message(FATAL_ERROR "what exports need to be linked names ${CMAKE_MATCH_0}:\n${output}")
endif()
set(program "${SCRATCH}/exported/exported")
run(ldd "${program}")
string(REGEX MATCHALL "[^ /\t\n]+\\.so" libraries "${output}")
foreach(library IN LISTS libraries)
  if(NOT library MATCHES "^(libc|libm|linux-vdso|ld-linux-x86-64)\\.so$")
    message(FATAL_ERROR "the program is linked to ${library}")
  endif()
endforeach()

# The program in docs/export.md.
file(READ "${SOURCE}/docs/export.md" text)
if(NOT text MATCHES "\n```c\n(.*)\n```\n\n- .Ownership")
  message(FATAL_ERROR "docs/export.md shows no program in C")
endif()
file(WRITE "${exports}/example.c" "${CMAKE_MATCH_1}\n")
file(GLOB performer "${exports}/performer*.o")
run("${CC}" -std=c99 -Wall -Wextra -Werror "-I${exports}" "${exports}/example.c" "${exports}/performer.c" ${performer}
    -o "${exports}/example")
run("${exports}/example")
run("${CXX}" -std=c++17 -Wall -Wextra -Werror -fsyntax-only -x c++ "${exports}/shared.h")

run("${program}" make "${exports}")
foreach(case IN LISTS cases)
  read_case("${case}")
  run("${TOOL}" run "${spec}" --attention ${attention} ${options} --backward ${seed} --input "${exports}/${name}.in"
      --output "${exports}/${name}.out")
endforeach()
run("${program}" check "${exports}")
message(STATUS "${output}")
