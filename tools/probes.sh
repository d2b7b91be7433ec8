# shellcheck shell=sh
# Probes of this machine's software, from any source. Sourced by setup.sh and doctor.sh.

has_program() { command -v "$1" > /dev/null 2>&1; }

compiler=${CXX:-c++}
# Features of C++20 that Lockstep needs. GCC has them from version 11 on. Clang 14 has the header, but nothing in it.
speaks_cxx20() {
  printf '#include <concepts>\n#include <semaphore>\n#include <source_location>\n#include <span>\nstd::source_location here;\nint main() {}\n' |
    $compiler -std=c++20 -fsyntax-only -x c++ - > /dev/null 2>&1
}
# Version 3.22, Ubuntu 22.04's.
cmake_is_new() {
  # shellcheck disable=SC2046  # two numbers
  set -- $(cmake --version 2> /dev/null | sed -n 's/^cmake version \([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
  [ "${1:-0}" -gt 3 ] || { [ "${1:-0}" -eq 3 ] && [ "$2" -ge 22 ]; }
}

has_header() {
  for folder in /usr/include /usr/local/include /usr/include/"$(uname -m)"-linux-gnu; do
    [ -e "$folder/$1" ] && return 0
  done
  # A compiler may know more places (CPATH, a module system).
  has_program "$compiler" && echo "#include <$1>" | $compiler -std=c++20 -M -x c++ - > /dev/null 2>&1
}

# Also where a site's modules say they are; CMake looks there too.
has_mpi() { has_program mpicxx || has_program mpicxx.mpich || [ -x "${MPI_HOME:-/nowhere}/bin/mpicxx" ]; }
# Prints the fast BLAS that the build will use, in the words of CMake, which decides it. $here is the folder of the script
# that sourced this one.
find_blas() {
  has_program cmake || return 1
  cmake -DARCHITECTURE="$($compiler -print-multiarch 2> /dev/null)" -P "$here/../cmake/LockstepBlas.cmake" 2> /dev/null
}
has_blas() { find_blas > /dev/null; }
# Prints which kernels of OpenBLAS matrix products will use on this processor, by the code that chooses them.
find_blas_kernels() {
  flags=$(cmake -DARCHITECTURE="$($compiler -print-multiarch 2> /dev/null)" -DFLAGS=ON -P "$here/../cmake/LockstepBlas.cmake" 2> /dev/null) || return 1
  made=$(mktemp -d) || return 1
  printf '#include <cstdio>\n#include "common/devices/cpu/sgemm.hpp"\nint main() { std::puts(lockstep::cpu::sgemm_name()); }\n' > "$made/ask.cpp"
  # shellcheck disable=SC2086  # words
  $compiler -std=c++20 -march=native -I"$here/.." "$made/ask.cpp" "$here/../common/devices/cpu/blas_openblas.cpp" $flags -o "$made/ask" 2> /dev/null &&
    "$made/ask"
  code=$?
  rm -rf "$made"
  return $code
}

# Prints the CUDA compiler, where CMake looks for it too.
find_nvcc() {
  for nvcc in "${CUDACXX:-}" nvcc "${CUDA_HOME:-}/bin/nvcc" "${CUDA_PATH:-}/bin/nvcc" /usr/local/cuda/bin/nvcc; do
    { [ -n "$nvcc" ] && has_program "$nvcc"; } || continue
    command -v "$nvcc"
    return 0
  done
  return 1
}
has_gpu() { has_program nvidia-smi && nvidia-smi -L > /dev/null 2>&1; }
# True if there may be one: a container can have the devices and no nvidia-smi.
may_have_gpu() { has_gpu || ls /dev/nvidia[0-9]* /dev/dxg > /dev/null 2>&1; }

# Prints the first Python that can draw: the one on PATH may not see the system's packages.
find_python() {
  for python in "${LOCKSTEP_PYTHON:-}" python3 /usr/bin/python3 /usr/local/bin/python3 python; do
    { [ -n "$python" ] && has_program "$python"; } || continue
    "$python" -c "import matplotlib" > /dev/null 2>&1 || continue
    echo "$python"
    return 0
  done
  return 1
}
python_with_matplotlib() { find_python > /dev/null; }
# Prints the first Python in which this statement succeeds, such as 'import torch'; else says that there is none.
find_pytorch() {
  for python in ${LOCKSTEP_PYTORCH:-} python3 /usr/bin/python3; do
    "$python" -c "$1" 2> /dev/null || continue
    echo "$python"
    return 0
  done
  echo "no PyTorch here (LOCKSTEP_PYTORCH names a Python that has it)" >&2
  return 1
}
