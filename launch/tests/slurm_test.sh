#!/bin/sh
# The Slurm templates, with an sbatch, srun and scontrol that do on this host what Slurm does: sbatch runs a copy of the
# file elsewhere, srun starts the tasks (real processes of MPI). What scaling.sbatch leaves is whole, and is kept.
#   slurm_test.sh SOURCE BENCH_ALL_REDUCE_MPI
source=$1
export SOURCE="$source" PROGRAM="$2"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/spool" "$work/tree"
out=$work/tree/outputs/scaling
failed=0
fail() {
  echo "FAILED: $*"
  sed 's/^/    /' "$work/said"
  failed=1
}

cat > "$work/bin/sbatch" << 'SBATCH'
#!/bin/sh
while :; do
  case $1 in
    --nodes=*) SLURM_JOB_NUM_NODES=${1#*=} ;;
    --ntasks-per-node=*) SLURM_NTASKS_PER_NODE=${1#*=} ;;
    *) break ;;
  esac
  shift
done
export SLURM_JOB_NUM_NODES SLURM_NTASKS_PER_NODE SLURM_SUBMIT_DIR="$PWD" SLURM_JOB_ID=70007 SLURM_JOB_NODELIST='node[1-2]'
cp "$1" "$SPOOL/slurm_script"
shift
cd "$SPOOL" && exec sh ./slurm_script "$@"
SBATCH
cat > "$work/bin/srun" << 'SRUN'
#!/bin/sh
case $1 in --mpi=list) echo pmix; exit ;; esac
echo "srun $* (store ${LOCKSTEP_STORE:-none}, cpus ${SRUN_CPUS_PER_TASK:-?})" >> "$CALLS"
while :; do case $1 in --ntasks=*) ranks=${1#*=}; shift ;; -*) shift ;; *) break ;; esac; done
exec sh "$SOURCE/launch/mpirun.sh" -n "$ranks" --timeout 60 "$@"
SRUN
printf '#!/bin/sh\necho node1; echo node2\n' > "$work/bin/scontrol"
# ./lab, as far as the templates know it: AILMENT=RANKS:kill ends it in the middle of writing.
cat > "$work/tree/lab" << 'LAB'
#!/bin/sh
echo "lab $*" >> "$CALLS"
[ "$1" = bench ] || exit 0
shift 2
nodes=1 words='' ranks=''
while [ $# -gt 0 ]; do
  case $1 in
    --ranks) ranks=$2 words="$words $1 $2" ;;
    --nodes) nodes=$2 ;;
    --backend) ;;
    --json) json=$2 words="$words $1 $2" ;;
    *) words="$words $1 $2" ;;
  esac
  shift 2
done
if [ "${AILMENT:-}" = "$ranks:kill" ]; then printf '{"context": {' > "$json"; kill -KILL $$; fi
if [ "${AILMENT:-}" = "$ranks:cut" ]; then printf '{"context": {' > "$json"; exit 0; fi
[ "${AILMENT:-}" != "$ranks:fail" ] || { echo "no more GPUs"; exit 1; }
exec sh "$SOURCE/launch/srun.sh" -n "$ranks" --nodes "$nodes" "$PROGRAM" $words
LAB
chmod +x "$work/bin/"* "$work/tree/lab"
export PATH="$work/bin:$PATH" SPOOL="$work/spool" CALLS="$work/calls"
unset OUT RANKS SRUN SLURM_MPI_TYPE SLURM_CPUS_PER_TASK SLURM_NTASKS LOCKSTEP_STORE
cd "$work/tree" || exit 1
: > "$CALLS"

study() { # expected exit code, options of sbatch…
  expected=$1
  shift
  sbatch "$@" "$source/launch/scaling.sbatch" bench all_reduce --backend mpi --bytes 1KiB --samples 5 > "$work/said" 2>&1
  code=$?
  [ $code -eq "$expected" ] || fail "the exit code is $code, not $expected"
}
says() { for words; do grep -q -- "$words" "$work/said" || fail "it does not say '$words'"; done; }
runs() { grep -c '^srun' "$CALLS"; }

# Three sizes; the process dies while it writes the second.
export RANKS='1 2 4'
AILMENT=2:kill study 1 --nodes=2 --ntasks-per-node=2
says "ranks 1: $out/ranks-1.json" "ranks 2: FAILED" "ranks 4: $out/ranks-4.json"
[ "$(ls "$out")" = "$(printf 'ranks-1.json\nranks-1.log\nranks-2.log\nranks-4.json\nranks-4.log\nstudy.txt')" ] || fail "in the folder: $(ls "$out")"
grep -q -- 'srun --ntasks=1 --nodes=1 --ntasks-per-node=1 --kill-on-bad-exit=1 --cpu-bind=cores' "$CALLS" || fail "1 rank: $(cat "$CALLS")"
grep -q -- 'srun --ntasks=4 --nodes=2 --ntasks-per-node=2' "$CALLS" || fail "4 ranks: $(cat "$CALLS")"
for ranks in 1 4; do grep -Eq "\"ranks\": *${ranks}(,|})" "$out/ranks-$ranks.json" || fail "ranks-$ranks.json is of other ranks"; done

# Handed in again: the second alone, and only that one changes.
before=$(runs) kept=$(cksum < "$out/ranks-4.json")
AILMENT=2:cut study 1 --nodes=2 --ntasks-per-node=2
says "ranks 1: finished before" "ranks 2: FAILED" "ranks 4: finished before"
[ ! -e "$out/ranks-2.json" ] || fail "half a file has the name of a whole one"
AILMENT=2:fail study 1 --nodes=2 --ntasks-per-node=2
says "ranks 2: FAILED: no more GPUs"
study 0 --nodes=2 --ntasks-per-node=2
says "ranks 2: $out/ranks-2.json"
[ "$(runs)" -eq $((before + 1)) ] || fail "it ran $(($(runs) - before)) times, not once"
[ "$(cksum < "$out/ranks-4.json")" = "$kept" ] || fail "a finished file changed"

# A finished file that was cut afterwards counts for nothing either; what does not fit the allocation is said.
printf '{"context": {' > "$out/ranks-1.json"
RANKS='1 8' study 0 --nodes=2 --ntasks-per-node=2
says "ranks 1: $out/ranks-1.json" "ranks 8: SKIPPED, the allocation has 4"

# One folder is one curve.
sbatch --nodes=1 --ntasks-per-node=2 "$source/launch/scaling.sbatch" bench ddp --backend mpi > "$work/said" 2>&1 && fail "two studies in one folder"
says "holds: ./lab bench all_reduce" "Choose another OUT"

# The other template: ranks are the allocation's, and training resumes where it stopped.
: > "$CALLS"
mkdir -p saved/step-00000010
sbatch --nodes=2 --ntasks-per-node=4 "$source/launch/job.sbatch" train --checkpoint saved > "$work/said" 2>&1
touch saved/step-00000010/manifest
sbatch --nodes=1 --ntasks-per-node=3 "$source/launch/job.sbatch" train --checkpoint=saved >> "$work/said" 2>&1
[ "$(cat "$CALLS")" = "$(printf 'lab train --checkpoint saved --ranks 8 --nodes 2\nlab train --checkpoint=saved --resume saved --ranks 3 --nodes 1')" ] ||
  fail "job.sbatch calls: $(cat "$CALLS")"

# Without MPI in the program, processes get a place to meet; cores of a task are a step's too.
: > "$CALLS"
SLURM_JOB_ID=70007 SLURM_JOB_NODELIST=x SLURM_CPUS_PER_TASK=3 sh "$source/launch/srun.sh" -n 1 /bin/true > "$work/said" 2>&1
grep -q '(store tcp://node1:30007, cpus 3)' "$CALLS" || fail "srun.sh calls: $(cat "$CALLS")"
: > "$CALLS"
SLURM_JOB_ID=70007 SLURM_JOB_NODELIST=x sh "$source/launch/srun.sh" -n 1 "$PROGRAM" --help > "$work/said" 2>&1
grep -q '(store none' "$CALLS" || fail "srun.sh calls: $(cat "$CALLS")"

[ $failed -eq 0 ] && echo PASS
exit $failed
