#!/bin/sh
# ./lab setup [--yes]: installs the packages that are missing, and configures the build.
#
# Installs what is missing through apt (Debian, Ubuntu). It touches nothing that is there, and uses the network only if
# something is missing. It says first what it will run. Where that takes sudo and a person sits at the terminal, it
# asks; --yes, CI=true and scripts are not asked. Where nothing can be installed, it continues without what Lockstep can
# do without, and says so; docs/use/install.md says how to get things without root.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
declined=$here/../build/declined_packages # what is optional, where someone has said no to it: that is not asked again
ask=yes
[ -z "${CI:-}" ] || ask=no
for argument; do
  case $argument in
    --yes | -y) ask=no; rm -f "$declined" ;;
    -h | --help) sed -n '/^set -eu/q; s/^# \{0,1\}//p' "$0" | sed 1d; exit 0 ;;
    *) echo "setup: '$argument' is not an option. Known: --yes." >&2; exit 2 ;;
  esac
done
# shellcheck source=tools/probes.sh
. "$here/probes.sh"

if has_program "$compiler" && ! speaks_cxx20; then
  echo "$compiler is too old: $("$compiler" --version | head -n 1). GCC 11 or newer is needed: a module of your site, or apt-get install g++-12; then CXX=g++-12 ./lab setup" >&2
  exit 2
fi
if has_program cmake && ! cmake_is_new; then
  echo "cmake is too old: $(cmake --version | head -n 1). 3.22 or newer is needed: a module of your site, or python3 -m pip install --user cmake" >&2
  exit 2
fi

needed='' useful=''
want() { # want PACKAGE PROBE…: PACKAGE if PROBE says that what it brings is not there, from whatever source
  package=$1
  shift
  "$@" || needed="$needed $package"
}
like() { # likewise, for what Lockstep can do without
  package=$1
  shift
  "$@" || useful="$useful $package"
}

want g++ has_program "$compiler"
want cmake has_program cmake
want ninja-build has_program ninja
want binutils has_program nm
want libfmt-dev has_header fmt/format.h
want nlohmann-json3-dev has_header nlohmann/json.hpp
want libcli11-dev has_header CLI/CLI.hpp
want libgtest-dev has_header gtest/gtest.h
like libbenchmark-dev has_header benchmark/benchmark.h
like libboost-context-dev has_header boost/context/fiber.hpp
like libopenblas-dev has_blas
like python3-matplotlib python_with_matplotlib
like 'openmpi-bin libopenmpi-dev' has_mpi
like libgloo-dev has_header gloo/allreduce.h
like ccache has_program ccache

missing=$needed$useful
[ -n "$missing" ] || exit 0
go_on_without() { # why nothing can be installed
  if [ -z "$needed" ]; then
    echo "$1: continuing without$useful (./lab doctor says what that costs)"
    exit 0
  fi
  echo "missing:$needed; $1. Modules of your site may have it; docs/use/install.md says more." >&2
  exit 2
}
has_program apt-get || go_on_without "apt-get is not here to install it"
[ -n "$needed" ] || [ "$(cat "$declined" 2> /dev/null)" != "$useful" ] || exit 0
as_root=''
if [ "$(id -u)" -ne 0 ]; then
  as_root=sudo
  has_program sudo || go_on_without "only root can install: apt-get install$missing"
fi

echo "Packages are missing. To install them, this runs${as_root:+ with sudo}, as root:"
echo "  apt-get install -y --no-install-recommends$missing"
if [ -n "$as_root" ] && [ "$ask" = yes ] && [ -t 0 ] && [ -t 1 ]; then
  printf 'Install them now? [Y/n] '
  read -r answer || answer=no
  case $answer in
    '' | [Yy]*) ;;
    *)
      [ -n "$needed" ] || { mkdir -p "$here/../build" && echo "$useful" > "$declined"; }
      go_on_without "not installed, as you wish"
      ;;
  esac
fi
echo "installing, which takes a minute or more"
# shellcheck disable=SC2086  # a list of words
install() { $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
known() { # those of the packages that this system has
  for package; do
    if apt-cache show "$package" > /dev/null 2>&1; then printf ' %s' "$package"; else echo "not in this system's packages: $package" >&2; fi
  done
}
# The package lists may be absent or old: then once more with new ones, without what an older system does not have.
# shellcheck disable=SC2086
if ! install > "$log" 2>&1 && ! { $as_root apt-get update -q && missing="$needed$(known $useful)" && install; } > "$log" 2>&1; then
  tail -n 15 "$log" >&2
  go_on_without "it could not be installed (is there a network? \`apt-get install$missing\` says more)"
fi
