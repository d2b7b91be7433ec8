#!/bin/sh
# Installs what is missing through apt (Debian 12, Ubuntu 24.04), says what, and touches nothing that is there. When
# nothing is missing it does not look at the network.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tools/probes.sh
. "$here/probes.sh"

missing=''
want() { # want PACKAGE PROBE…: PACKAGE if PROBE says that what it brings is not there, from whatever source
  package=$1
  shift
  "$@" || missing="$missing $package"
}

want g++ has_program c++
want cmake has_program cmake
want ninja-build has_program ninja
want binutils has_program nm
want libfmt-dev has_header fmt/format.h
want nlohmann-json3-dev has_header nlohmann/json.hpp
want libcli11-dev has_header CLI/CLI.hpp
want libgtest-dev has_header gtest/gtest.h
want libbenchmark-dev has_header benchmark/benchmark.h
want libboost-context-dev has_header boost/context/fiber.hpp
want libopenblas-dev has_header cblas.h
want python3-matplotlib python_with_matplotlib
has_program mpicxx || has_program mpicxx.mpich || missing="$missing openmpi-bin libopenmpi-dev"

[ -n "$missing" ] || exit 0
if ! has_program apt-get; then
  echo "missing:$missing; apt-get is not here to install it: install the like by hand." >&2
  exit 2
fi
as_root=''
if [ "$(id -u)" -ne 0 ]; then
  as_root=sudo
  has_program sudo || { echo "missing:$missing; run as root: apt-get install$missing" >&2; exit 2; }
fi

echo "installing what is missing:$missing"
# shellcheck disable=SC2086  # a list of words
install() { $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The package lists may be absent or old: then once more with new ones.
if ! install > "$log" 2>&1 && ! { $as_root apt-get update -q && install; } > "$log" 2>&1; then
  tail -n 15 "$log" >&2
  echo "could not install:$missing (is there a network? \`apt-get install$missing\` says more)" >&2
  exit 2
fi
