#!/bin/sh
# ./lab doctor: what this machine has for Lockstep, and what to do where something is missing. Changes nothing.
set -eu
export HOME="${HOME:-/}" # without one Open MPI 5 does not say its version
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tools/probes.sh
. "$here/probes.sh"

bad=0
ok() { printf 'ok       %-10s %s\n' "$1" "$2"; }
without() { printf 'without  %-10s %s\n' "$1" "$2"; } # optional
missing() {
  printf 'MISSING  %-10s %s\n' "$1" "$2"
  bad=1
}
first_line() { "$@" 2>&1 | head -n 1; }

needed() { # needed NAME PROGRAM PACKAGE
  if has_program "$2"; then ok "$1" "$(first_line "$2" --version)"; else missing "$1" "./lab setup installs $3"; fi
}
if has_program "$compiler" && ! speaks_cxx20; then
  missing compiler "$compiler is too old for C++20: GCC 11 or newer is needed; CXX=g++-12 ./lab setup takes another"
else
  needed compiler "$compiler" g++
fi
if has_program cmake && ! cmake_is_new; then
  missing cmake "$(first_line cmake --version) is too old, 3.22 is needed: python3 -m pip install --user cmake"
else
  needed cmake cmake cmake
fi
needed ninja ninja ninja-build

libraries=''
for pair in fmt/format.h:libfmt-dev nlohmann/json.hpp:nlohmann-json3-dev CLI/CLI.hpp:libcli11-dev \
  gtest/gtest.h:libgtest-dev; do
  has_header "${pair%%:*}" || libraries="$libraries ${pair##*:}"
done
if [ -z "$libraries" ]; then ok libraries 'fmt, JSON, CLI11, GoogleTest'; else missing libraries "./lab setup installs$libraries"; fi

if has_header benchmark/benchmark.h; then
  ok benchmark 'Google Benchmark'
else
  without benchmark './lab setup installs libbenchmark-dev; without it there is no ./lab bench and no ./lab report'
fi
if has_header boost/context/fiber.hpp; then
  ok fibers 'Boost.Context'
else
  without fibers 'Boost.Context (./lab setup installs libboost-context-dev): ranks are threads, and the simulator slower'
fi

if has_mpi; then
  launcher=$(PATH=$PATH:${MPI_HOME:-}/bin command -v mpirun || true)
  # MPICH's launcher says its version in a second line.
  ok MPI "${launcher:-no mpirun beside it}: $(${launcher:-true} --version 2>&1 | sed -n 's/^ *Version: */MPICH /p; /MPI/p' | head -n 1)"
else
  without MPI './lab setup installs Open MPI; the simulator works without it'
fi

if has_header gloo/allreduce.h; then
  ok Gloo 'its all-reduce stands beside MPI'"'"'s'
else
  without Gloo './lab setup installs libgloo-dev; without it ./lab bench all_reduce compares with MPI'"'"'s all-reduce alone'
fi

if has_program ccache; then
  ok ccache "$(ccache --version | head -n 1)"
else
  without ccache './lab setup installs it; without it every new clone compiles everything'
fi

blas=$(find_blas) || true
if [ -n "$blas" ]; then
  ok BLAS "$(find_blas_kernels || echo "$blas")"
else
  without BLAS './lab setup installs libopenblas-dev; without it matrix products are several times slower'
fi

cores=$(nproc)
quota=''
[ -r /sys/fs/cgroup/cpu.max ] && quota=$(awk '$1 != "max" {printf "%.1f", $1 / $2}' /sys/fs/cgroup/cpu.max)
threads_per_core=$(lscpu 2> /dev/null | awk -F: '/^Thread\(s\) per core/ {gsub(/ /, "", $2); print $2}')
ok cores "$cores usable hardware threads, ${threads_per_core:-?} per core${quota:+, a quota of $quota}"
ok memory "$(awk '/^MemAvailable/ {printf "%.1f GiB available", $2 / 1048576}' /proc/meminfo)"

if has_gpu; then
  ok GPU "$(first_line nvidia-smi -L)"
else
  without GPU 'no NVIDIA GPU answers; simulator and MPI need none'
fi
if nvcc=$(find_nvcc); then
  ok CUDA "$("$nvcc" --version | tail -n 2 | head -n 1)"
else
  without CUDA 'no nvcc: only --backend cuda and nccl need the CUDA toolkit'
fi

if python=$(find_python); then
  ok python "$python, matplotlib $("$python" -c 'import matplotlib; print(matplotlib.__version__)')"
else
  without python './lab setup installs python3-matplotlib; without it reports have numbers and no figures'
fi
if has_program gdb; then ok gdb "$(first_line gdb --version)"; else without gdb 'apt-get install gdb: for ./lab check --debug'; fi

exit $bad
