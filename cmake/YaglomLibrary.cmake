# The helpers that every folder's CMakeLists.txt uses: yaglom_library(), yaglom_executable(), yaglom_test().
# SPDX-License-Identifier: Apache-2.0

# What every unit of ours is compiled with.
add_library(yaglom_options INTERFACE)
target_include_directories(yaglom_options INTERFACE
  "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/include" "${PROJECT_BINARY_DIR}")
target_compile_options(yaglom_options INTERFACE -Wall -Wextra)
# LLVM's, for units without LLVM too: those that share a precompiled header must have the same ones.
target_compile_definitions(yaglom_options INTERFACE ${LLVM_DEFINITIONS_LIST})
target_compile_features(yaglom_options INTERFACE cxx_std_20)
target_link_options(yaglom_options INTERFACE -Wl,--build-id) # the cache on disk tells builds apart by it
if(YAGLOM_SANITIZER STREQUAL "address")
  # Without -fno-sanitize-recover UBSan reports and exits 0.
  target_compile_options(yaglom_options INTERFACE
    -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(yaglom_options INTERFACE -fsanitize=address,undefined)
  target_compile_definitions(yaglom_options INTERFACE YAGLOM_ASAN)
elseif(YAGLOM_SANITIZER STREQUAL "thread")
  target_compile_options(yaglom_options INTERFACE -fsanitize=thread)
  target_link_options(yaglom_options INTERFACE -fsanitize=thread)
  target_compile_definitions(yaglom_options INTERFACE YAGLOM_TSAN)
elseif(YAGLOM_SANITIZER)
  message(FATAL_ERROR "YAGLOM_SANITIZER is '${YAGLOM_SANITIZER}'; expected address or thread")
endif()
if(YAGLOM_FUZZERS)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "YAGLOM_FUZZERS needs clang")
  endif()
  target_compile_options(yaglom_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

include(YaglomPrecompile)

# Turns folder names ("frontend") into targets ("yaglom_frontend"); other targets ("fmt::fmt") stay as they are.
function(_yaglom_targets out)
  set(targets)
  foreach(name IN LISTS ARGN)
    if(TARGET yaglom_${name})
      list(APPEND targets yaglom_${name})
    elseif(TARGET ${name})
      list(APPEND targets ${name})
    else()
      message(FATAL_ERROR "yaglom: '${name}' is neither a folder's library added before this one nor a target")
    endif()
  endforeach()
  set(${out} ${targets} PARENT_SCOPE)
endfunction()

# All targets that `targets` need: objects, unlike archives, are not handed on from library to library.
function(_yaglom_closure out)
  set(closure)
  set(queue ${ARGN})
  while(queue)
    list(POP_FRONT queue target)
    if(NOT target IN_LIST closure)
      list(APPEND closure ${target})
      get_target_property(depends ${target} YAGLOM_DEPENDS)
      if(depends)
        list(APPEND queue ${depends})
      endif()
    endif()
  endwhile()
  set(${out} ${closure} PARENT_SCOPE)
endfunction()

# yaglom_library(name SOURCES file... [DEPENDS name...] [LLVM] [OPTIONS flag...])
#
# The object library yaglom_<name> of one folder. Its objects end in the shared library, and in every test and tool that
# names it. DEPENDS are folders ("frontend") or imported targets ("fmt::fmt"); LLVM says that its units include LLVM or MLIR.
# OPTIONS are compiler options for its units.
function(yaglom_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "LLVM" "" "SOURCES;DEPENDS;OPTIONS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "yaglom_library(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  set(target yaglom_${name})
  add_library(${target} OBJECT ${arg_SOURCES})
  set_target_properties(${target} PROPERTIES
    POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  _yaglom_targets(depends ${arg_DEPENDS})
  if(arg_LLVM)
    list(APPEND depends yaglom_llvm)
    yaglom_precompile(${target} llvm "${arg_OPTIONS}")
  else()
    list(APPEND depends fmt::fmt)
    yaglom_precompile(${target} plain "${arg_OPTIONS}")
  endif()
  target_compile_options(${target} PRIVATE ${arg_OPTIONS})
  target_link_libraries(${target} PUBLIC yaglom_options ${depends})
  set_target_properties(${target} PROPERTIES YAGLOM_DEPENDS "${depends}")
  set_property(GLOBAL APPEND PROPERTY YAGLOM_LIBRARIES ${target})
endfunction()

# yaglom_executable(name SOURCES file... [DEPENDS name...] [LLVM] [INSTALL] [OUTPUT file])
#
# A program linked to the objects of the folders it names, and of what they need. INSTALL installs it, OUTPUT names its file
# when that is another name than the target's.
function(yaglom_executable name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "LLVM;INSTALL" "OUTPUT" "SOURCES;DEPENDS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "yaglom_executable(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  add_executable(${name} ${arg_SOURCES})
  _yaglom_targets(depends ${arg_DEPENDS})
  if(arg_LLVM)
    list(APPEND depends yaglom_llvm)
  endif()
  _yaglom_closure(closure ${depends})
  target_link_libraries(${name} PRIVATE yaglom_options ${closure} Threads::Threads)
  if(arg_OUTPUT)
    set_target_properties(${name} PROPERTIES OUTPUT_NAME ${arg_OUTPUT})
  endif()
  if(arg_INSTALL)
    # CMAKE_INSTALL_RPATH_USE_LINK_PATH leaves out the folder that is being installed.
    set_target_properties(${name} PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
    install(TARGETS ${name})
  endif()
endfunction()

# yaglom_test(name SOURCES file... [DEPENDS name...] [LABELS label...] [TIMEOUT seconds] [SERIAL] [LLVM] [OPTIONS flag...])
#
# A Catch2 program without a main; every TEST_CASE is one CTest entry. Its label is the folder's name ("unit"), followed by
# LABELS: `asan` and `tsan` say in which sanitizer runs of scripts/test it takes part ("numeric+asan"; `ctest -L asan`).
# The target tests-<label> builds all tests of a label. SERIAL keeps other tests away while one of these runs (timings).
# YAGLOM_SOURCE_DIR is the checkout, as a C string.
function(yaglom_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "LLVM;SERIAL" "TIMEOUT" "SOURCES;DEPENDS;LABELS;OPTIONS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "yaglom_test(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  set(llvm)
  if(arg_LLVM)
    set(llvm LLVM)
  endif()
  yaglom_executable(${name} SOURCES ${arg_SOURCES} DEPENDS ${arg_DEPENDS} ${llvm})
  target_link_libraries(${name} PRIVATE Catch2::Catch2WithMain fmt::fmt)
  target_compile_options(${name} PRIVATE ${arg_OPTIONS})
  yaglom_precompile(${name} test "${arg_OPTIONS}")
  target_compile_definitions(${name} PRIVATE "YAGLOM_SOURCE_DIR=\"${PROJECT_SOURCE_DIR}\"")

  get_filename_component(folder "${CMAKE_CURRENT_SOURCE_DIR}" NAME)
  set(labels ${folder} ${arg_LABELS})
  foreach(label IN LISTS labels)
    if(NOT TARGET tests-${label})
      add_custom_target(tests-${label})
    endif()
    add_dependencies(tests-${label} ${name})
  endforeach()
  # One string: a list would be split on its way through Catch2's script.
  list(JOIN labels "+" label)
  set(timeout 300)
  if(arg_TIMEOUT)
    set(timeout ${arg_TIMEOUT})
  endif()
  # Nothing is kept in the home of whoever runs the tests; those of the cache choose a folder themselves.
  set(properties LABELS ${label} TIMEOUT ${timeout} ENVIRONMENT_MODIFICATION YAGLOM_CACHE_DIR=set:)
  if(arg_SERIAL)
    list(APPEND properties RUN_SERIAL ON)
  endif()
  if(YAGLOM_SANITIZER STREQUAL "thread")
    list(APPEND properties ENVIRONMENT "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/tsan.supp")
  endif()
  include(Catch)
  # NoTests: with Catch2 2.13 a test whose name holds ; or \ would run nothing and pass.
  catch_discover_tests(${name} EXTRA_ARGS -w NoTests PROPERTIES ${properties})
endfunction()

# yaglom_fuzzer(name SOURCES file... [DEPENDS name...] [LLVM])
#
# The libFuzzer program fuzz-<name>, built with YAGLOM_FUZZERS (preset asan); scripts/test runs each on
# tests/fuzz/corpus/<name>, if that folder exists. The target fuzzers builds them all.
function(yaglom_fuzzer name)
  if(NOT YAGLOM_FUZZERS)
    return()
  endif()
  yaglom_executable(fuzz-${name} ${ARGN})
  target_compile_options(fuzz-${name} PRIVATE -fsanitize=fuzzer)
  target_link_options(fuzz-${name} PRIVATE -fsanitize=fuzzer)
  if(NOT TARGET fuzzers)
    add_custom_target(fuzzers)
  endif()
  add_dependencies(fuzzers fuzz-${name})
endfunction()

include(YaglomInstall)
