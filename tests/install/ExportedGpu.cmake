# Exports an attention as PTX, launches its kernels on the emulator with the words that its C functions write, and compares outputs
# and gradients with those of `yaglom run --target emulated`, bit for bit.
# SPDX-License-Identifier: Apache-2.0
cmake_policy(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/Run.cmake")

set(ENV{YAGLOM_CACHE_DIR} "")
set(folder "${SCRATCH}/exported_gpu")
set(exports "${folder}/exports")
file(REMOVE_RECURSE "${folder}")
set(attention "${SOURCE}/examples/specs/performer.phi" --attention performer --set m=16)
run("${TOOL}" export ${attention} --head-dim 16 --backward --target sm_80 --heads 2 --name gpu -o "${exports}")
run("${CC}" -std=c99 -Wall -Wextra -Werror "-I${exports}" "-I${SOURCE}/tests/install"
    "${SOURCE}/tests/install/exported_gpu/words.c" "${exports}/gpu.c" -o "${folder}/words")
run("${folder}/words" make "${exports}")
string(STRIP "${output}" launches)
string(REPLACE "\n" ";" launches "${launches}")

set(passes forward backward sum)
set(texts gpu_sm_80_forward gpu_sm_80_backward gpu_sums)
set(input in)
foreach(launch pass text IN ZIP_LISTS launches passes texts)
  separate_arguments(words UNIX_COMMAND "${launch}")
  list(POP_FRONT words kernel blocks threads shared arguments)
  run("${TOOL}" emulate "${exports}/${text}.ptx" --kernel ${kernel} --grid ${blocks} --block ${threads} --shared ${shared}
      --inputs "${exports}/${input}" --args "${arguments}" -o "${exports}/${pass}.out")
  if(pass STREQUAL "backward")
    set(input backward.out) # which has the gradients that the last launch sums
  endif()
endforeach()
run("${TOOL}" run ${attention} --target emulated --backward --input "${exports}/in" --output "${exports}/run.out")
run("${folder}/words" check "${exports}")
