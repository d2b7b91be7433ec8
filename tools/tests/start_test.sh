#!/bin/sh
# start_test.sh LAB: as how many processes ./lab starts a command, with a launcher that only says so. Nothing is built.
set -eu
lab=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/bin"
printf '#!/bin/sh\nexit 0\n' > "$folder/bin/cmake"
printf '#!/bin/sh\n[ "$1" = --version ] && { echo HYDRA; exit; }\nwhile [ "$1" != -n ]; do shift; done\nfor word; do case $word in */programs/*) echo "$2 of ${word##*/}" ;; esac; done\nexit 9\n' > "$folder/mpirun"
chmod +x "$folder/bin/cmake" "$folder/mpirun"
unset SLURM_JOB_ID
failed=0

# starts 'N of PROGRAM' ARGUMENTS…
starts() {
  expected=$1
  shift
  MPIRUN=$folder/mpirun PATH=$folder/bin:$PATH "$lab" "$@" > "$folder/said" 2>&1 || :
  grep -qx "$expected" "$folder/said" && return
  echo "start_test: lab $* should start $expected:"
  sed 's/^/    /' "$folder/said"
  failed=1
}

printf 'backend = mpi\ndp = 2\ncp = 2\n' > "$folder/mesh.cfg"
starts '2 of train_mpi' train --backend mpi
starts '4 of train_mpi' train --backend mpi --dp 2 --cp 2 --model tiny-llama --steps 2
starts '8 of train_mpi' train --backend=mpi --ranks 8 --pp 2
starts '4 of train_mpi' train --config "$folder/mesh.cfg"
starts '8 of train_mpi' train --config "$folder/mesh.cfg" --pp 2
starts '4 of train_mpi' why train --config "$folder/mesh.cfg" --trace "$folder/trace.json"
starts '4 of train_mpi' view train --backend mpi --dp 2 --cp 2
starts '4 of train_mpi' view train --config "$folder/mesh.cfg" --predicted --emulate laptop
starts '3 of bench_all_reduce_mpi' bench all_reduce --backend mpi --ranks 2,3
starts 'lab train: --dp 2 × --tp 1 × --pp 1 are 2 ranks, not the 3 of --ranks' train --backend mpi --ranks 3 --dp 2
starts "lab train: unknown option '--ddp': did you mean '--dp'? --help lists them all." train --backend mpi --ddp 2
starts "lab volume: unknown option '--ddp': did you mean '--dp'? --help lists them all." volume --ddp 2
printf 'backend = cuda\n' > "$folder/gpu.cfg"
starts 'lab train: the --config file has backend = cuda, for which ./lab needs another build: add --backend cuda to the command' \
  train --config "$folder/gpu.cfg"
# The simulator, whatever the file says: this one refuses what only MPI has.
starts 'lab train: --emulate is for --backend mpi; the simulator always models --machine' \
  train --config "$folder/mesh.cfg" --backend sim --emulate laptop
[ $failed -eq 0 ] && echo PASS
exit $failed
