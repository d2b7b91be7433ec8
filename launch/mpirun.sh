#!/bin/sh
# Starts an MPI program on this host, or on several, whichever MPI is installed.
#
#   launch/mpirun.sh -n RANKS [--nodes N] [--hostfile FILE] [--timeout SECONDS] [--grace SECONDS] program arguments…
#
# With --nodes, each host gets RANKS / N processes; which hosts is said by the hostfile (else that of LOCKSTEP_HOSTFILE),
# or by the scheduler.
# Works as root, in containers, and with more ranks than cores. The whole job ends when the launcher is interrupted,
# when the time is over (exit code 124), or when a rank dies. With --grace an interrupted launcher (SIGINT, SIGTERM) sends
# its ranks SIGUSR1 each second, which they ignore until they choose otherwise; they have so long to save and end, or
# until it is interrupted again. The time is that of a computer with nothing else to do: where more processes run than
# there are cores, its seconds pass accordingly more slowly. MPIRUN names another launcher than the one that fits the
# library the program is linked with.
set -u

options='[--nodes N] [--hostfile FILE] [--timeout SECONDS] [--grace SECONDS]'
# shellcheck source=launch/options.sh
. "$(dirname -- "$0")/options.sh"
[ "$nodes" -eq 1 ] || hostfile=${hostfile:-${LOCKSTEP_HOSTFILE:-}}
[ -z "$hostfile" ] || [ -r "$hostfile" ] || refuse "the hostfile $hostfile cannot be read"

export HOME="${HOME:-/}" # without one Open MPI 5 starts nothing
[ -z "${MPI_HOME:-}" ] || PATH=$PATH:$MPI_HOME/bin
# The launcher of the library that the program is linked with, from where the library is: another one would start N
# programs of one rank each. The program may stand behind a profiler and its options.
choose_launcher() {
  library=''
  for word; do
    case $word in */*) library=$(ldd "$word" 2>/dev/null | sed -n 's/^[[:space:]]*libmpi[^ ]* => \(\/.*\) (.*/\1/p' | head -n 1) ;; esac
    [ -z "$library" ] || break
  done
  bin=${library%/*} # such as /usr/lib/x86_64-linux-gnu, /opt/openmpi/lib, or Intel's …/lib/release
  bin=${bin%/lib*}/bin/
  case $bin in /bin/ | /usr/bin/) bin='' ;; esac # on PATH; and Open MPI takes an absolute name for where all of it is
  case ${library##*/} in
    '') set -- mpirun mpirun.openmpi ;;
    libmpich* | libmpi.so.12) set -- "${bin}mpirun.mpich" "${bin}mpirun" mpirun.mpich mpirun.hydra mpirun ;;
    *) set -- "${bin}mpirun.openmpi" "${bin}mpirun" mpirun mpirun.openmpi ;;
  esac
  for name; do
    command -v "$name" && return
  done
  echo mpirun
}
mpirun=${MPIRUN:-$(choose_launcher "$@")}
command -v "$mpirun" >/dev/null 2>&1 ||
  refuse "$mpirun is not installed; on Debian and Ubuntu: apt-get install openmpi-bin libopenmpi-dev"

# One thread a rank, so that ranks do not fight for cores.
export OPENBLAS_NUM_THREADS="${OPENBLAS_NUM_THREADS:-1}" OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"

version=$("$mpirun" --version 2>&1 | head -n 3)
case $version in
  *"Open MPI"* | *OpenRTE* | *PRRTE* | *prterun*)
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
    # Parameters for processes are called OMPI_MCA_* in version 4 and PRTE_MCA_* in version 5.
    export OMPI_MCA_rmaps_base_oversubscribe=1
    export PRTE_MCA_rmaps_default_mapping_policy="${PRTE_MCA_rmaps_default_mapping_policy:-:OVERSUBSCRIBE}"
    # A rank that waits yields its core; Open MPI would not, since it takes the slots it was given for cores.
    export OMPI_MCA_mpi_yield_when_idle="${OMPI_MCA_mpi_yield_when_idle:-1}"
    # Its own shared memory and TCP: UCX and libfabric start slowly and spin.
    export OMPI_MCA_pml="${OMPI_MCA_pml:-ob1}"
    # On one host nothing goes over TCP, of whose interfaces version 5 would complain a line a pair of ranks. A scheduler may
    # have given several hosts.
    if [ "$nodes" -eq 1 ] && [ -z "$hostfile${SLURM_JOB_ID:-}${PBS_NODEFILE:-}${LSB_HOSTS:-}${PE_HOSTFILE:-}" ]; then
      export OMPI_MCA_btl="${OMPI_MCA_btl:-^tcp}"
    fi
    # Each rank has threads of its own, so a rank is not pinned to one core.
    export OMPI_MCA_hwloc_base_binding_policy="${OMPI_MCA_hwloc_base_binding_policy:-none}"
    export PRTE_MCA_hwloc_default_binding_policy="${PRTE_MCA_hwloc_default_binding_policy:-none}"
    if [ -f /.dockerenv ] || [ -f /run/.containerenv ]; then # they forbid copies between processes
      export OMPI_MCA_btl_vader_single_copy_mechanism="${OMPI_MCA_btl_vader_single_copy_mechanism:-none}"
    fi
    ;;
  *HYDRA* | *MPICH* | *Intel*)
    # Intel's starts helpers by name, which other libraries have too.
    case $mpirun in /bin/* | /usr/bin/*) ;; */*) PATH=${mpirun%/*}:$PATH ;; esac
    # A rank that waits for long gives its core away where ranks outnumber cores.
    if [ $((ranks / nodes)) -gt "$(nproc)" ]; then
      export MPIR_CVAR_ENABLE_HEAVY_YIELD="${MPIR_CVAR_ENABLE_HEAVY_YIELD:-1}" I_MPI_THREAD_YIELD="${I_MPI_THREAD_YIELD:-3}"
    fi
    # Each rank has threads of its own, so a rank is not pinned to one core.
    export I_MPI_PIN="${I_MPI_PIN:-off}"
    # Intel's mpirun is a script that would leave its job behind when it is killed; this is what it starts.
    case $version in *Intel*) [ ! -x "${mpirun%/*}/mpiexec.hydra" ] || mpirun=${mpirun%/*}/mpiexec.hydra ;; esac
    ;;
  *) refuse "$mpirun is neither Open MPI nor MPICH; it says: $version" ;;
esac

# The program compares this with what it finds.
export LOCKSTEP_MPI_RANKS="$ranks"

# A rank that dies while it starts may leave mpirun waiting.
# shellcheck disable=SC2016  # the words are the inner shell's
[ -z "$grace" ] || set -- sh -c 'trap "" USR1; exec "$0" "$@"' "$@"

if [ "$nodes" -gt 1 ] || [ -n "$hostfile" ]; then
  each=$((ranks / nodes))
  case $version in
    *"Open MPI"* | *OpenRTE* | *PRRTE* | *prterun*)
      set -- --map-by "ppr:$each:node" "$@"
      # Its own settings travel to the other hosts by themselves; these do not.
      for name in LOCKSTEP_MPI_RANKS OPENBLAS_NUM_THREADS OMP_NUM_THREADS $(env | sed -n 's/^\(NCCL_[A-Z0-9_]*\)=.*/\1/p'); do
        set -- -x "$name" "$@"
      done
      ;;
    *) set -- -ppn "$each" "$@" ;;
  esac
  [ -z "$hostfile" ] || set -- --hostfile "$hostfile" "$@"
fi

timers= asked= job=

members() { # process ids of the job's session: the fourth field after the command's name
  for process in /proc/[0-9]*; do
    read -r line 2>/dev/null <"$process/stat" || continue
    set -- ${line##*)}
    [ "${4:-}" = "$job" ] && echo "${process#/proc/}"
  done 2>/dev/null
}
end_job() {
  kill -TERM "$job" 2>/dev/null
  tries=0
  while [ $tries -lt 10 ] && [ -n "$(members)" ]; do
    sleep 0.1
    tries=$((tries + 1))
  done
  for process in $(members); do kill -KILL "$process" 2>/dev/null; done
}
started() { [ -n "${job:=${!:-}}" ]; }
finish() {
  trap '' INT TERM HUP USR1
  started || exit "$1"
  for timer in $timers; do kill "$timer" 2>/dev/null; done
  end_job
  exit "$1"
}
# A second of the limit in thousandths, as tools/course/process.cpp counts it: less where others use the cores, at least 100.
cores=$(nproc 2>/dev/null || echo 1)
[ "$cores" -ge $((ranks / nodes)) ] || cores=$((ranks / nodes))
second() {
  runnable=0
  read -r average _ _ now _ 2>/dev/null </proc/loadavg && now=$((${now%/*} - 1)) runnable=${average%.*}
  [ "$runnable" -ge "${now:-0}" ] || runnable=$now
  [ "$runnable" -gt "$cores" ] || { echo 1000; return; }
  [ "$runnable" -lt $((10 * cores)) ] || runnable=$((10 * cores))
  echo $((1000 * cores / runnable))
}

# Sends this script a signal when it has run for so long.
after() { # SECONDS SIGNAL WHAT-TO-SAY
  launcher=$$
  (
    trap 'exit 0' TERM
    passed=0 # thousandths of seconds
    while [ "$passed" -lt "${1}000" ]; do
      sleep 1
      kill -0 "$launcher" 2>/dev/null || exit 0 # it was killed; do not signal the process that has its number next
      passed=$((passed + $(second)))
    done
    echo "$0: the job did not end within $1 s$3; it is stopped" >&2
    kill "-$2" "$launcher"
  ) &
  timers="$timers $!"
}
interrupt() { # EXIT-CODE
  started && [ -n "$grace" ] && [ -z "$asked" ] || finish "$1"
  asked=$1
  (while kill -USR1 "$job" 2>/dev/null; do sleep 1; done) & # mpirun hands it on to the ranks, on every host
  timers="$timers $!"
  after "$grace" TERM " after it was interrupted"
}
trap 'interrupt 130' INT
trap 'interrupt 143' TERM
trap 'finish 129' HUP
trap 'finish 124' USR1

# A session of its own holds everything that mpirun starts on this host, also what leaves mpirun's process group; and
# mpirun ends when this script is killed. The traps above stand before it starts, so that an early signal is heard, too.
guard=
setpriv --pdeathsig TERM true 2>/dev/null && guard="setpriv --pdeathsig TERM"
setsid $guard sh "$(dirname -- "$0")/watched.sh" $guard "$mpirun" -n "$ranks" "$@" </dev/null &
job=$!

[ -z "$timeout" ] || after "$timeout" USR1 ""

wait "$job"
status=$?
while [ -n "$asked" ] && kill -0 "$job" 2>/dev/null; do # the interrupt ended the wait, not the job
  wait "$job"
  status=$?
done
for timer in $timers; do kill "$timer" 2>/dev/null; done
[ -z "$asked" ] || [ $status -eq 0 ] || status=$asked
exit $status
