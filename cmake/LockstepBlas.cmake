# The BLAS that matrix products should come from: OpenBLAS, or MKL where a site's module has set MKLROOT. Others, such
# as the reference BLAS, are slow and do not count: that its cblas.h is here says nothing.
#
# The one place that decides. CMake includes it; ./lab setup and ./lab doctor run it as a script (tools/probes.sh), which
# then prints what was found, or with -DFLAGS=ON how to compile with it, or ends with an error. So no find_package here: targets cannot be made in a script.
#
#   FastBlas_NAME       its name, with its version where known; empty where there is none
#   FastBlas_MKL        true for MKL, whose libraries FindBLAS knows
#   FastBlas_VERSION    OpenBLAS's
#   FastBlas_INCLUDE    the folder with cblas.h, or for MKL mkl_cblas.h
#   FastBlas_LIBRARY
if(CMAKE_SCRIPT_MODE_FILE)
  cmake_minimum_required(VERSION 3.22)
  # Variables that a project gets from its compiler.
  set(CMAKE_FIND_LIBRARY_PREFIXES lib)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .so .a)
  set(CMAKE_SYSTEM_PREFIX_PATH /usr/local /usr)
  set(CMAKE_LIBRARY_ARCHITECTURE ${ARCHITECTURE})
  set_property(GLOBAL PROPERTY FIND_LIBRARY_USE_LIB64_PATHS ON)
endif()

set(FastBlas_NAME "")
set(FastBlas_MKL OFF)
set(places ENV OPENBLAS_ROOT ENV OPENBLAS_HOME ENV EBROOTOPENBLAS)
set(variants openblas openblas-pthread openblas-openmp openblas-serial)  # Debian has three
list(TRANSFORM variants PREPEND lib/ OUTPUT_VARIABLE library_variants)
list(TRANSFORM variants PREPEND include/ OUTPUT_VARIABLE include_variants)
find_library(FastBlas_LIBRARY openblas HINTS ${places} PATH_SUFFIXES lib lib64 ${library_variants} ${variants})
find_path(FastBlas_INCLUDE openblas_config.h HINTS ${places} PATH_SUFFIXES include ${include_variants} ${variants})
mark_as_advanced(FastBlas_LIBRARY FastBlas_INCLUDE)
if(FastBlas_LIBRARY AND FastBlas_INCLUDE AND EXISTS ${FastBlas_INCLUDE}/cblas.h)
  file(STRINGS ${FastBlas_INCLUDE}/openblas_config.h FastBlas_VERSION REGEX "OPENBLAS_VERSION")
  string(REGEX MATCH "[0-9]+\\.[0-9.]*[0-9]" FastBlas_VERSION "${FastBlas_VERSION}")
  set(FastBlas_NAME "OpenBLAS ${FastBlas_VERSION}")
elseif(EXISTS "$ENV{MKLROOT}/include/mkl_cblas.h")
  set(FastBlas_NAME "MKL in $ENV{MKLROOT}")
  set(FastBlas_MKL ON)
endif()

if(CMAKE_SCRIPT_MODE_FILE)
  if(NOT FastBlas_NAME)
    message(FATAL_ERROR "no fast BLAS")
  endif()
  set(say ${FastBlas_NAME})
  if(FLAGS)
    set(say "-DLOCKSTEP_OPENBLAS=\"${FastBlas_VERSION}\" -I${FastBlas_INCLUDE} ${FastBlas_LIBRARY}")
  endif()
  execute_process(COMMAND ${CMAKE_COMMAND} -E echo "${say}")  # message() would write to stderr
endif()
