# The shared library made of all folders' objects, and what is installed.
# SPDX-License-Identifier: Apache-2.0

# yaglom_shared_library(): the target yaglom (alias yaglom::yaglom) of every library added so far.
function(yaglom_shared_library)
  get_property(libraries GLOBAL PROPERTY YAGLOM_LIBRARIES)
  set(objects)
  foreach(library IN LISTS libraries)
    list(APPEND objects $<TARGET_OBJECTS:${library}>)
  endforeach()

  add_library(yaglom SHARED ${objects})
  add_library(yaglom::yaglom ALIAS yaglom)
  set_target_properties(yaglom PROPERTIES
    LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  target_compile_features(yaglom PUBLIC cxx_std_20)
  target_sources(yaglom PUBLIC FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/include" FILES
    "${PROJECT_SOURCE_DIR}/include/yaglom/builder.h"
    "${PROJECT_SOURCE_DIR}/include/yaglom/cache.h"
    "${PROJECT_SOURCE_DIR}/include/yaglom/compile.h"
    "${PROJECT_SOURCE_DIR}/include/yaglom/device.h"
    "${PROJECT_SOURCE_DIR}/include/yaglom/dlpack.h"
    "${PROJECT_SOURCE_DIR}/include/yaglom/export.h"
    "${PROJECT_SOURCE_DIR}/include/yaglom/kernel.h"
    "${PROJECT_SOURCE_DIR}/include/yaglom/result.h"
    "${PROJECT_SOURCE_DIR}/include/yaglom/safetensors.h"
    "${PROJECT_SOURCE_DIR}/include/yaglom/schedule.h"
    "${PROJECT_SOURCE_DIR}/include/yaglom/spec.h"
    "${PROJECT_SOURCE_DIR}/include/yaglom/tensor.h"
    "${PROJECT_SOURCE_DIR}/include/yaglom/tune.h"
    "${PROJECT_SOURCE_DIR}/include/yaglom/yaglom.h")
  _yaglom_closure(closure ${libraries})
  list(REMOVE_ITEM closure ${libraries})
  foreach(dependency IN LISTS closure ITEMS yaglom_options Threads::Threads)
    target_link_libraries(yaglom PRIVATE $<BUILD_INTERFACE:${dependency}>)
  endforeach()
  if(NOT YAGLOM_SANITIZER)
    # Hidden visibility alone leaks weak symbols and type infos of std::.
    set(script "${PROJECT_SOURCE_DIR}/cmake/yaglom.map")
    target_link_options(yaglom PRIVATE "LINKER:--version-script=${script}")
    set_property(TARGET yaglom APPEND PROPERTY LINK_DEPENDS "${script}")
  endif()

  install(TARGETS yaglom EXPORT yaglom-targets FILE_SET HEADERS)
  install(EXPORT yaglom-targets NAMESPACE yaglom:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/yaglom)
  include(CMakePackageConfigHelpers)
  write_basic_package_version_file("${PROJECT_BINARY_DIR}/yaglom-config-version.cmake" COMPATIBILITY SameMinorVersion)
  install(FILES "${PROJECT_SOURCE_DIR}/cmake/yaglom-config.cmake" "${PROJECT_BINARY_DIR}/yaglom-config-version.cmake"
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/yaglom)
endfunction()
