#!/bin/sh
# Starts a program's processes, one for each GPU that the driver shows, at most 8; without GPUs one process, which
# reports that.
#   on_gpus.sh LAUNCHER [--timeout SECONDS] program arguments…
launcher=$1
shift
gpus=0
while [ -e "/dev/nvidia$gpus" ] && [ "$gpus" -lt 8 ]; do gpus=$((gpus + 1)); done
[ "$gpus" -gt 0 ] || gpus=1
exec sh "$launcher" -n "$gpus" "$@"
