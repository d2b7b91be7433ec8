#!/bin/sh
# .ci/gpu.sh BUILD: of a build with the GPU backends: the tests for a GPU are there, and pass, or without a GPU are all
# SKIPPED with the words "no CUDA device"; and the objects hold machine code for A100 (sm_80) and H100 (sm_90).
set -eu
build=$1
# shellcheck source=tools/probes.sh
. tools/probes.sh

listed=$(ctest --test-dir "$build" -N -L gpu | sed -n 's/^Total Tests: //p')
[ "$listed" -gt 0 ] || { echo "no test has the label gpu" >&2; exit 1; }
log=$build/gpu_tests.log
ctest --test-dir "$build" -V -L gpu > "$log" 2>&1 || { tail -n 60 "$log"; exit 1; }
if has_gpu; then
  echo "$listed tests for a GPU passed"
else
  skipped=$(grep -c '[*]\{3\}Skipped' "$log" || true)
  # Test number N says why in lines that begin with "N: ".
  told=$(sed -n 's/^\([0-9]*\): .*no CUDA device.*/\1/p' "$log" | sort -u | wc -l)
  echo "$listed tests for a GPU: $skipped skipped, $told of them with the words 'no CUDA device'"
  [ "$skipped" = "$listed" ] && [ "$told" = "$listed" ] || { cat "$log"; exit 1; }
fi

# cuobjdump is not part of every toolkit; .ci/gpu_code.py reads the same containers.
objects=$(find "$build" -name '*.cu.o')
[ -n "$objects" ] || { echo "no CUDA objects in $build" >&2; exit 1; }
code() {
  if command -v cuobjdump > /dev/null; then
    for object in $objects; do
      found=$(cuobjdump --list-elf "$object" 2> /dev/null | grep -o 'sm_[0-9]*' | sort -u | tr '\n' ' ')
      [ -z "$found" ] || echo "$object: $found"
    done
  else
    # shellcheck disable=SC2086  # a list of words
    python3 .ci/gpu_code.py $objects
  fi
}
code > "$build/gpu_code.txt"
lacking=$(grep -v -e 'sm_80.*sm_90' "$build/gpu_code.txt" || true)
[ -s "$build/gpu_code.txt" ] && [ -z "$lacking" ] || { echo "objects without sm_80 and sm_90:"; echo "$lacking"; exit 1; }
echo "$(wc -l < "$build/gpu_code.txt") CUDA objects hold code for sm_80 and sm_90"
