# shellcheck shell=sh
# What is on this machine, whoever installed it. Sourced by setup.sh and doctor.sh.

has_program() { command -v "$1" > /dev/null 2>&1; }

has_header() {
  for folder in /usr/include /usr/local/include /usr/include/"$(uname -m)"-linux-gnu; do
    [ -e "$folder/$1" ] && return 0
  done
  # A compiler may know more places (CPATH, a module system).
  has_program c++ && echo "#include <$1>" | c++ -std=c++20 -M -x c++ - > /dev/null 2>&1
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
# Whether there may be one: a container can have the devices and no nvidia-smi.
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
