# A run that is killed and resumed, on another number of threads, leaves the same bytes as one that is not: weights, moments,
# generator and curve. Called with -DPROGRAM=... -DFOLDER=...
# SPDX-License-Identifier: Apache-2.0
set(options --attention performer --dim m=16 --width 32 --heads 2 --context 32 --batch 4 --steps 60 --every 20)

# Runs the program; `expected` is its exit code.
function(run expected)
  execute_process(COMMAND "${PROGRAM}" ${options} ${ARGN}
                  WORKING_DIRECTORY "${FOLDER}" RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT code EQUAL expected)
    message(FATAL_ERROR "${PROGRAM} ${ARGN} returned ${code}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

function(compare a b)
  execute_process(COMMAND "${CMAKE_COMMAND}" -E compare_files "${FOLDER}/${a}" "${FOLDER}/${b}" RESULT_VARIABLE code)
  if(code)
    message(FATAL_ERROR "${a} and ${b} differ")
  endif()
endfunction()

file(MAKE_DIRECTORY "${FOLDER}")
run(0 --threads 1 --checkpoint whole.safetensors --csv whole.csv)
run(0 --threads 2 --checkpoint parts.safetensors --csv parts.csv --stop 30) # ten steps behind the checkpoint
run(0 --threads 2 --checkpoint parts.safetensors --csv parts.csv --resume)
compare(whole.safetensors parts.safetensors)
compare(whole.csv parts.csv)

run(1 --checkpoint parts.safetensors --resume --rate 0.5)
if(NOT output MATCHES "parts.safetensors: is of another run")
  message(FATAL_ERROR "another run's checkpoint was not refused:\n${output}")
endif()
