# The headers that nearly every file begins with, compiled once: most of a second a file, half of what a small one takes.
# Included last, because it goes over the targets that are there.
#
#   lockstep_headers         the standard library's usual ones, fmt, and the runtime's that all others include
#   lockstep_program_headers the same at -O1, for programs, where the compiler refuses headers of another level: GCC from 13 on
#   lockstep_test_headers    these, and GoogleTest. Tests are compiled without optimisation, where they ask for none: their
#                            compilation takes longer than they do
#
# Not for the students' answers: they compile as they would anywhere. Ours must as well: the `tidy` stage of .ci/run
# reads every file without, as -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON compiles them.
set(empty ${CMAKE_BINARY_DIR}/precompiled/empty.cpp)
if(NOT EXISTS ${empty})
  file(WRITE ${empty} "")
endif()
set(usual <algorithm> <array> <cmath> <cstdint> <functional> <map> <memory> <optional> <set> <span> <string>
    <string_view> <utility> <vector> <fmt/format.h>
    <common/runtime/run.hpp> <common/arithmetic.hpp>)  # not by their paths: another clone has others, and ccache would compile again
add_library(lockstep_headers OBJECT ${empty})
target_link_libraries(lockstep_headers PRIVATE fmt::fmt)
target_precompile_headers(lockstep_headers PRIVATE ${usual})
set(program_headers lockstep_headers)
if(NOT (CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13))
  set(program_headers lockstep_program_headers)
  add_library(lockstep_program_headers OBJECT ${empty})
  target_link_libraries(lockstep_program_headers PRIVATE fmt::fmt)
  target_precompile_headers(lockstep_program_headers PRIVATE ${usual})
  target_compile_options(lockstep_program_headers PRIVATE -O1)
endif()
add_library(lockstep_test_headers OBJECT ${empty})
target_link_libraries(lockstep_test_headers PRIVATE fmt::fmt GTest::gtest)
target_precompile_headers(lockstep_test_headers PRIVATE ${usual} <gtest/gtest.h>)
target_compile_options(lockstep_test_headers PRIVATE -O0)

function(lockstep_all_targets folder out)
  get_property(result DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  get_property(subfolders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(subfolder IN LISTS subfolders)
    lockstep_all_targets(${subfolder} deeper)
    list(APPEND result ${deeper})
  endforeach()
  set(${out} "${result}" PARENT_SCOPE)
endfunction()

lockstep_all_targets(${CMAKE_SOURCE_DIR} targets)
list(FILTER targets EXCLUDE REGEX "^lockstep_(test_|program_)?headers$")
foreach(target IN LISTS targets)
  get_target_property(type ${target} TYPE)
  get_target_property(sources ${target} SOURCES)
  get_target_property(links ${target} LINK_LIBRARIES)
  get_target_property(options ${target} COMPILE_OPTIONS)
  get_target_property(standard ${target} CXX_STANDARD)  # kernels for the fake GPU are C++17, the runtime C++20
  # Headers that were compiled without a target's own sanitizer are none of its.
  if(target MATCHES "^(mine|graded)\\." OR options MATCHES "-fsanitize=")
    continue()
  endif()
  if(NOT type MATCHES "EXECUTABLE|STATIC_LIBRARY|OBJECT_LIBRARY" OR NOT sources OR standard EQUAL 17)
    continue()
  endif()
  target_link_libraries(${target} PRIVATE fmt::fmt)  # its definitions must be those the headers were compiled with
  # Planted mistakes and other right answers are linked with tests, and are none: without GoogleTest's templates they
  # compile in half the time.
  if(links MATCHES "GTest::|lockstep_testing|_tests" AND NOT target MATCHES "^(mutant|alternative)\\." AND NOT options MATCHES "-O")
    target_compile_options(${target} PRIVATE -O0)
    target_precompile_headers(${target} REUSE_FROM lockstep_test_headers)
  elseif(NOT options MATCHES "-O0|-O3")  # kernels: other options would need headers of their own, for five files
    get_target_property(folder ${target} SOURCE_DIR)
    if(folder MATCHES "^${CMAKE_SOURCE_DIR}/(tools|bench|labs|common/gpt)" AND NOT options MATCHES "-O")
      target_compile_options(${target} PRIVATE -O1)  # what takes their time, and is measured, is in what they call
      set(options -O1)
    endif()
    if(options MATCHES "-O1")
      target_precompile_headers(${target} REUSE_FROM ${program_headers})
    else()
      target_precompile_headers(${target} REUSE_FROM lockstep_headers)
    endif()
  endif()
endforeach()
