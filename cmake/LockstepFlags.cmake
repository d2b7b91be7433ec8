# Compiler flags for everything.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
# There are no shared libraries. In code for one, GCC may not inline a function that another library could replace,
# which made the simulator a tenth slower.
set(CMAKE_POSITION_INDEPENDENT_CODE OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/programs)  # where ./lab finds them

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# Contract checks stay on in every build: no NDEBUG. What a preset or a user chose instead of CMake's default is kept.
if(CMAKE_CXX_FLAGS_RELEASE STREQUAL "-O3 -DNDEBUG")
  set(CMAKE_CXX_FLAGS_RELEASE "-O2")
endif()

# With ccache another clone, or a branch, compiles what differs: where the folder is makes no difference. Not for students'
# answers (LockstepLabs.cmake), which change whenever they are compiled. CCACHE_DEPEND, because GCC knows what a
# precompiled header has by its text: one that differs from it in a comment alone would be included twice. It looks at
# times of included files, so that one saved while it is compiled is not kept with the old object.
find_program(LOCKSTEP_CCACHE ccache)
if(LOCKSTEP_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # It fails, and each compilation with it, if it cannot write to its folder, as without a home of one's own.
  execute_process(COMMAND ${LOCKSTEP_CCACHE} --get-config cache_dir OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE
                  ERROR_QUIET)
  execute_process(COMMAND sh -c "mkdir -p \"$0\" && test -w \"$0\"" "${folder}" RESULT_VARIABLE unwritable OUTPUT_QUIET
                  ERROR_QUIET)
  set(folder "")
  if(unwritable)
    set(folder CCACHE_DIR=${CMAKE_BINARY_DIR}/ccache)
  endif()
  set(CMAKE_CXX_COMPILER_LAUNCHER env ${folder} CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1
      CCACHE_SLOPPINESS=pch_defines,time_macros ${LOCKSTEP_CCACHE})
  set(LOCKSTEP_ANSWERS_LAUNCHER "")
else()
  set(LOCKSTEP_ANSWERS_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()

include_directories(${CMAKE_SOURCE_DIR})
add_compile_options("$<$<NOT:$<COMPILE_LANGUAGE:CUDA>>:-Wall;-Wextra;-Wno-missing-field-initializers>"
                    "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall;-lineinfo>")

# GNU's second linker, where it is there: a third of the time for each of a hundred programs. Sanitizers keep the first.
include(CheckLinkerFlag)
check_linker_flag(CXX -fuse-ld=gold LOCKSTEP_HAS_GOLD)
if(LOCKSTEP_HAS_GOLD AND NOT LOCKSTEP_SANITIZE)
  add_link_options("$<$<LINK_LANGUAGE:CXX>:-fuse-ld=gold>")
endif()

# GCC begins with the memory of a precompiled header, and would look through all of it for unused blocks.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-expand=300>")
endif()

if(LOCKSTEP_SANITIZE)
  # Not what nvcc compiles: the fake GPU compiles the kernels as C++, and those are instrumented.
  add_compile_options("$<$<NOT:$<COMPILE_LANGUAGE:CUDA>>:-fsanitize=${LOCKSTEP_SANITIZE};-fno-omit-frame-pointer;-g1>")
  add_link_options(-fsanitize=${LOCKSTEP_SANITIZE})
  if(NOT LOCKSTEP_FIBERS STREQUAL "threads")
    message(STATUS "sanitizers need ordinary threads: configure with -DLOCKSTEP_FIBERS=threads (the asan and tsan presets do)")
  endif()
endif()
