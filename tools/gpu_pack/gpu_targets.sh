#!/bin/sh
# Builds what GPUs and the fake GPU need in a build tree, and nothing else: the targets that are named after them,
# and ./lab's own program.
#
#   tools/gpu_pack/gpu_targets.sh BUILD
set -eu
targets=$(cmake --build "$1" --target help | sed -n 's/^\([^:/ ]*\(cuda\|nccl\|fake\|gpu\)[^:/ ]*\): phony$/\1/p' |
  grep -v -e '^mine\.' -e '^graded\.' -e '^cmake_object_order_' -e '^mutant' -e '^rebuild_' -e '^edit_' | sort -u)
[ -n "$targets" ] || exit 0
# shellcheck disable=SC2086  # a list of words
exec cmake --build "$1" --target lab_tool $targets
