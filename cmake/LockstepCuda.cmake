# Looks for the CUDA toolkit, where LOCKSTEP_CUDA asks for it. Sets LOCKSTEP_HAS_CUDA; a toolkit that is missing or does
# not work never breaks the build.
#
# Kernels (.cu) are C++17; host files are C++20 like everything else. The runtime is linked statically, so that a program
# starts on a machine without driver; cuBLASLt is shared and found by RPATH.
set(LOCKSTEP_HAS_CUDA OFF)
if(NOT LOCKSTEP_CUDA)
  message(STATUS "lockstep: CUDA is switched off (-DLOCKSTEP_CUDA=ON looks for it)")
  return()
endif()
find_program(LOCKSTEP_NVCC nvcc HINTS ${CUDAToolkit_ROOT} ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
if(NOT LOCKSTEP_NVCC)
  message(STATUS "lockstep: no CUDA backend, because nvcc was not found (install the CUDA toolkit, or set CUDA_HOME)")
  return()
endif()

# Machine code for A100, H100/H200 and B200, as far as this nvcc knows them, and PTX of the last for what comes later.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  execute_process(COMMAND ${LOCKSTEP_NVCC} --list-gpu-arch OUTPUT_VARIABLE known ERROR_QUIET)
  string(REGEX MATCHALL "compute_[0-9]+" known "${known}")
  set(architectures "")
  foreach(architecture 80 90 100)
    if("compute_${architecture}" IN_LIST known)
      list(APPEND architectures ${architecture})
    endif()
  endforeach()
  list(POP_BACK architectures newest)
  list(TRANSFORM architectures APPEND "-real")
  list(APPEND architectures ${newest})
  set(CMAKE_CUDA_ARCHITECTURES "${architectures}" CACHE STRING "GPU architectures to compile for")
endif()

# enable_language stops at a compiler that does not work (a host compiler too new for it, say): ask first.
if(NOT CMAKE_CUDA_COMPILER)
  include(CheckLanguage)
  set(ENV{CUDACXX} ${LOCKSTEP_NVCC})
  check_language(CUDA)
endif()
if(NOT CMAKE_CUDA_COMPILER)
  message(STATUS "lockstep: no CUDA backend, because ${LOCKSTEP_NVCC} does not compile here (is this host compiler too new for it?)")
  return()
endif()
enable_language(CUDA)

# CMake 3.25 does not know that CUDA 13 has no nvToolsExt, and stops; nobody here links it.
if(NOT TARGET CUDA::nvToolsExt)
  add_library(CUDA::nvToolsExt INTERFACE IMPORTED)
endif()
find_package(CUDAToolkit QUIET)
if(NOT TARGET CUDA::cudart_static OR NOT TARGET CUDA::cublasLt)
  message(STATUS "lockstep: no CUDA backend, because the toolkit of ${LOCKSTEP_NVCC} lacks the static runtime or cuBLASLt")
  return()
endif()

set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
set(CMAKE_CUDA_FLAGS_RELEASE "-O3")
list(APPEND CMAKE_BUILD_RPATH ${CUDAToolkit_LIBRARY_DIR})
set(LOCKSTEP_HAS_CUDA ON)
message(STATUS "lockstep: CUDA ${CUDAToolkit_VERSION} for architectures ${CMAKE_CUDA_ARCHITECTURES}")
