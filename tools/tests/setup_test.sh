#!/bin/sh
# setup_test.sh SOURCE: what ./lab setup says, asks and runs, on a computer that is made up: programs that record what they
# are asked, and everything else that setup calls. Nothing is installed.
set -eu
unset CXX CUDACXX CUDA_HOME CUDA_PATH  # this computer's choices; the made-up ones have their own
source=$1
# shellcheck source=tools/tests/testing.sh
. "$source/tools/tests/testing.sh"
mkdir -p "$folder/bin" "$folder/tools" "$folder/cmake"
cp "$source/tools/setup.sh" "$source/tools/probes.sh" "$folder/tools/"
cp "$source/cmake/LockstepBlas.cmake" "$folder/cmake/"
for program in sh env sed head tail cat rm mkdir mktemp uname dirname find readlink nm c++ cmake; do
  ln -s "$(command -v "$program")" "$folder/bin/$program"
done
made_up bin/apt-get "echo \"apt-get \$*\" >> $folder/ran"
made_up bin/apt-cache 'exit 0'
made_up bin/sudo "echo sudo >> $folder/ran; exec \"\$@\""
made_up bin/id 'echo 1000'
made_up bin/mpicxx 'exit 0'
made_up bin/ccache 'exit 0'
made_up bin/python3 'exit 0'

# set_up ARGUMENTS…: runs it without a terminal; what it said and ran is in said and ran.
set_up() {
  rm -f "$folder/ran"
  code=0
  env PATH="$folder/bin" CI= sh "$folder/tools/setup.sh" "$@" > "$folder/said" 2>&1 < /dev/null || code=$?
}
# answered ANSWER: the same at a terminal, where someone answers.
answered() {
  rm -f "$folder/ran"
  code=0
  printf '%s\n' "$1" | script -qec "env PATH=$folder/bin CI= sh $folder/tools/setup.sh" /dev/null > "$folder/said" 2>&1 || code=$?
}
ran() { [ -e "$folder/ran" ]; }

set_up # Ninja is missing
[ $code = 0 ] || fail "exit code $code"
says '^Packages are missing. To install them, this runs with sudo, as root:$'
says '^  apt-get install -y --no-install-recommends.* ninja-build'
says '^installing, which takes a minute or more$' # apt-get's own output is not seen
grep -q '^apt-get install .*ninja-build' "$folder/ran" || fail 'it should install'
[ "$(head -n 1 "$folder/ran")" = sudo ] || fail 'with sudo'

set_up --no-such
[ $code = 2 ] || fail "exit code $code"
ran && fail 'an unknown option should do nothing'

if command -v script > /dev/null; then # of Debian's essential bsdutils
  answered n
  ran && fail 'no means no'
  [ $code = 2 ] || fail "without Ninja it cannot go on: $code"
  says 'missing:.* ninja-build; not installed, as you wish'
  answered ''
  ran || fail 'the default is yes'

  made_up bin/ninja 'exit 0'
  rm "$folder/bin/mpicxx" # optional
  answered n
  ran && fail 'no means no'
  [ $code = 0 ] || fail "without MPI it can go on: $code"
  says 'continuing without.* openmpi-bin'
  answered n
  grep -q Packages "$folder/said" && fail 'whoever said no once is not asked again'
  set_up --yes
  ran || fail '--yes installs what was declined'
fi

# A fast BLAS is what CMake would take; the header of another one says nothing.
# shellcheck source=tools/probes.sh disable=SC2034
blas() { (here=$folder/tools; . "$folder/tools/probes.sh"; OPENBLAS_ROOT=$folder/blas find_blas); }
mkdir -p "$folder/blas/include" "$folder/blas/lib"
echo '#define OPENBLAS_VERSION " OpenBLAS 9.8.7 "' > "$folder/blas/include/openblas_config.h"
: > "$folder/blas/include/cblas.h"
: > "$folder/blas/lib/libopenblas.so"
[ "$(blas)" = 'OpenBLAS 9.8.7' ] || fail "found: $(blas)"
