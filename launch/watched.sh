#!/bin/sh
# Runs the launcher of an MPI library for mpirun.sh, as the first process of a session: removes what killed jobs of the
# same user left on this host, says in a sentence which rank was killed, and ends a launcher that missed the end of its
# processes.
#
#   launch/watched.sh mpirun arguments…
set -u

# Files and folders that are older than a minute, so that no job that starts has them in hand.
left_over() { # FOLDER DEPTH PATTERN
  find "$1" -mindepth "$2" -maxdepth "$2" -user "$(id -un)" -mmin +1 -path "$1/$3" 2>/dev/null
}

# Shared memory that no process maps, and session folders whose launcher (their name has its process id) has gone.
remove_left_overs() {
  host=$(uname -n)
  candidates=$(left_over /dev/shm 1 "vader_segment.$host.*"
               left_over /dev/shm 1 "sm_segment.$host.*"
               left_over /dev/shm 1 "osc_sm.$host.*")
  if [ -n "$candidates" ]; then
    mapped=$(cat /proc/[0-9]*/maps 2>/dev/null | sed -n 's|.* \(/dev/shm/[^ ]*\).*|\1|p' | sort -u)
    for file in $candidates; do
      echo "$mapped" | grep -qxF -- "$file" || rm -f -- "$file"
    done
  fi
  for folder in $(left_over "${TMPDIR:-/tmp}" 2 "ompi.$host.*/pid.*"; left_over "${TMPDIR:-/tmp}" 2 "prte.$host.*/dvm.*"
                  left_over "${TMPDIR:-/tmp}" 1 "prterun.$host.*"); do
    number=$folder
    case ${folder##*/} in prterun.*) number=${folder%.*} ;; esac # version 5: prterun.HOST.PID.0
    kill -0 "${number##*.}" 2>/dev/null || rm -rf -- "$folder"
  done
}

# Passes on what Open MPI says between two rulers. Among its remarks on how a job ended, which would drown the program's
# own words, only a killed rank is news.
others() { # what the program's own lines in a block may be, where they came in between
  printf '%s' "$block" | grep -v -e '^ *$' -e '^Primary job' -e 'a non-zero exit code' -e 'detected that one or more processes' -e 'job to be terminated' \
    -e 'Process name:' -e 'Exit code:' -e 'MPI_ABORT' -e '^ *with errorcode' -e '^ *Proc:' -e '^ *Errorcode:' -e 'You may or may not see' -e 'exactly when Open MPI' \
    -e 'noticed that process rank' -e '^signal [0-9]* (' -e 'exited on signal' && said=yes
}
tell_block() {
  words=$(printf '%s' "$block" | tr -s '\n ' ' ') # where lines break differs between versions
  case $words in
    *"processes exited with non-zero status"*) # whose, is news where nobody has said anything
      others
      first=${words#*Process name: [} first=${first%%] Exit*} code=${words#*Exit code: } # [job,1],rank or job@1,rank
      first="rank ${first##*,} ended before the others, with exit code ${code%% *}"
      return
      ;;
    *"Primary job "* | *"MPI_ABORT was invoked"*) others; return ;;
    *"process rank "*"exiting improperly"*)
      rank=${words#*process rank } node=${words#*node }
      echo "rank ${rank%% *} on ${node%% *} ended before the others: it exited without MPI_Finalize"
      said=yes
      return
      ;;
    *"noticed that process rank "*) ;;
    *) printf '%s\n%s%s\n' "$ruler" "$block" "$ruler"; return ;;
  esac
  others
  said=yes
  rank=${words#*noticed that process rank } node=${words#* on node } signal=${words#* on signal }
  rank=${rank%% *} node=${node%% *} signal=$(kill -l "${signal%%[!0-9]*}" 2>/dev/null)
  case $signal in
    TERM | INT | HUP) ;; # it was asked to end
    KILL) echo "rank $rank on $node was ended by SIGKILL: out of memory?" ;;
    *) echo "rank $rank on $node was ended by SIG$signal" ;;
  esac
}
ruler=--------------------------------------------------------------------------
tell() {
  said='' first=''
  block='' lines=-1 # of a block; −1: outside
  while IFS= read -r line || [ -n "$line" ]; do
    if [ "$line" = $ruler ] && [ $lines -lt 0 ]; then
      lines=0
    elif [ "$line" = $ruler ]; then
      tell_block
      block='' lines=-1
    elif [ $lines -lt 0 ]; then
      case $line in *"plm:rsh: Warning: setpgid("*) continue ;; esac # which means nothing
      printf '%s\n' "$line"
      said=yes
    else
      block="$block$line
" lines=$((lines + 1))
      [ $lines -lt 50 ] || { printf '%s\n%s' "$ruler" "$block"; block='' lines=-1; } # it was somebody else's ruler
    fi
  done
  [ $lines -lt 0 ] || printf '%s\n%s' "$ruler" "$block"
  [ -n "$said" ] || [ -z "$first" ] || [ -e "$LOCKSTEP_MPI_STARTED" ] || echo "$first"
  [ -n "$said$first" ]
}

has_living() { # process ids
  for process; do
    read -r line 2>/dev/null <"/proc/$process/stat" || continue
    case ${line##*)} in " Z"*) ;; *) return 0 ;; esac
  done
  return 1
}
# Open MPI may miss the end of a process that has hardly begun, and wait for it. Kernels without the list of children
# have no such help.
watch() {
  seen='' empty=0 pause=0.1 # until there is a process: it may end soon
  while sleep $pause 2>/dev/null; do
    children=$(cat "/proc/$launcher/task"/*/children 2>/dev/null) || return
    # shellcheck disable=SC2086  # a list of numbers
    if has_living $children; then seen=yes empty=0 pause=1; elif [ -n "$seen" ]; then empty=$((empty + 1)); fi
    [ $empty -ge 10 ] || continue # a busy computer's launcher takes seconds
    echo "every process of the job has ended, but the launcher is still waiting; it is killed" >&2
    kill -TERM "$launcher"
    sleep 5
    kill -KILL "$launcher" 2>/dev/null
    return
  done
}

remove_left_overs

launcher='' asked=''
for signal in HUP INT TERM USR1 USR2; do
  # shellcheck disable=SC2064  # the signal is this one
  trap "asked=$signal; kill -$signal \$launcher 2>/dev/null" "$signal"
done

words=$(mktemp -u "${TMPDIR:-/tmp}/lockstep.XXXXXX")
# A rank in which MPI has started leaves this file: from then on programs speak for themselves.
export LOCKSTEP_MPI_STARTED="$words.started"
mkfifo -m 600 "$words" || exit 2
tell <"$words" >&2 &
teller=$!
exec 3>"$words"
rm -f "$words"
"$@" 2>&3 3>&- &
launcher=$!
watch >/dev/null 3>&- &
watcher=$!
exec 3>&-

# A signal ends the wait, too. The shell may have seen the launcher's end before, and keeps its code for the first wait.
wait "$launcher" 2>/dev/null
status=$?
while kill -0 "$launcher" 2>/dev/null; do
  wait "$launcher" 2>/dev/null
  status=$?
done
kill "$watcher" 2>/dev/null
tries=0
while kill -0 "$teller" 2>/dev/null && [ $tries -lt 20 ]; do # the last words
  sleep 0.05
  tries=$((tries + 1))
done
# Open MPI 4 says nothing where a rank ends in the moment in which the others begin.
if [ $status -ne 0 ] && [ -z "$asked" ] && ! kill -0 "$teller" 2>/dev/null && ! wait "$teller" && [ ! -e "$LOCKSTEP_MPI_STARTED" ]; then
  echo "the job ended with exit code $status; its launcher does not say which rank ended first" >&2
fi
rm -f "$LOCKSTEP_MPI_STARTED"
exit $status
