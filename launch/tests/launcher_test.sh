#!/bin/sh
# Tests launch/mpirun.sh around an MPI job, whichever its launcher is: a job that cannot continue ends, and says why;
# what killed jobs have left is removed, and nothing else is.
#   launcher_test.sh SOURCE PROGRAM         PROGRAM: mpi_failure_program
source=$1
program=$2
work=$(mktemp -d)
failed=0
segments=''
trap 'rm -rf "$work" $segments' EXIT
export TMPDIR="$work"

run() { sh "$source/launch/mpirun.sh" "$@" >"$work/out" 2>&1; }
fail() {
  echo "FAILED: $*"
  sed 's/^/    /' "$work/out"
  failed=1
}
says() { grep -q -- "$1" "$work/out" || fail "the output does not say '$1'"; }

# A launcher that does not notice that its processes have ended.
cat >"$work/mpirun" <<'end'
#!/bin/sh
[ "$1" = --version ] && { echo "mpirun (Open MPI) 4.1.4"; exit; }
sleep 1 &
while :; do read -r _ <"$TMPDIR/never"; done
end
chmod +x "$work/mpirun"
mkfifo "$work/never"
if [ -e "/proc/$$/task/$$/children" ]; then
  MPIRUN=$work/mpirun run -n 2 --timeout 30 true
  [ $? -ne 124 ] || fail "a launcher without processes waits on"
  says "every process of the job has ended"
fi

# The launcher's own words are passed on whole, and so is a line of the program's that looks like its ruler.
ruler=--------------------------------------------------------------------------
cat >"$work/mpirun" <<end
#!/bin/sh
[ "\$1" = --version ] && { echo "mpirun (Open MPI) 4.1.4"; exit; }
printf '%s\n' $ruler "There are not enough slots" $ruler "  and \\n more" $ruler >&2
printf 'the end' >&2
exit 3
end
MPIRUN=$work/mpirun run -n 2 true
[ $? -eq 3 ] || fail "the launcher's exit code is lost"
printf '%s\n' $ruler "There are not enough slots" $ruler "  and \\n more" $ruler "the end" | cmp -s - "$work/out" || fail "other words"

# Open MPI's remarks are left out, but not what the program says in the middle of one.
cat >"$work/mpirun" <<end
#!/bin/sh
[ "\$1" = --version ] && { echo "mpirun (Open MPI) 4.1.4"; exit; }
printf '%s\n' $ruler "Primary job  terminated normally, but 1 process returned" "words of the program" \
  "a non-zero exit code. Per user-direction, the job has been aborted." $ruler >&2
exit 1
end
MPIRUN=$work/mpirun run -n 2 true
[ "$(cat "$work/out")" = "words of the program" ] || fail "these are not the program's words alone"

# The rank whose exit code ended the job is named if nobody has said anything.
cat >"$work/mpirun" <<end
#!/bin/sh
[ "\$1" = --version ] && { echo "mpirun (Open MPI) 4.1.4"; exit; }
printf '%s\n' $ruler "Primary job  terminated normally, but 1 process returned" "a non-zero exit code." $ruler \
  $ruler "mpirun detected that one or more processes exited with non-zero status, thus causing" "the job to be terminated. The first process to do so was:" \
  "  Process name: [[17,1],12]" "  Exit code:    3" $ruler >&2
exit 3
end
MPIRUN=$work/mpirun run -n 2 true
[ "$(cat "$work/out")" = "rank 12 ended before the others, with exit code 3" ] || fail "whose exit code it was is not said"

# A launcher that fails without a word, as Open MPI 4 does where a rank ends in the moment in which the others begin.
cat >"$work/mpirun" <<'end'
#!/bin/sh
[ "$1" = --version ] && { echo "mpirun (Open MPI) 4.1.4"; exit; }
[ "$CODE" != later ] || exec sleep 60
exit "$CODE"
end
CODE=1 MPIRUN=$work/mpirun run -n 2 true
says "^the job ended with exit code 1; its launcher does not say which rank ended first$"
CODE=0 MPIRUN=$work/mpirun run -n 2 true
[ ! -s "$work/out" ] || fail "a job that succeeds is talked about"
CODE=later MPIRUN=$work/mpirun run -n 2 --timeout 1 true
[ "$(wc -l <"$work/out")" -eq 1 ] || fail "a job that was stopped is talked about twice"

case $(ldd "$program") in *libmpi.so.40*) ;; *) exit $failed ;; esac # the rest is Open MPI's

run -n 3 --timeout 30 sh -c '[ $OMPI_COMM_WORLD_RANK = 1 ] || exec "$0" good' "$program"
[ $? -eq 1 ] || fail "a rank that ends before MPI has started leaves the others waiting"
says 'rank 1 .*ended before\|which rank ended first'  # by the first that notices: a rank that waits for it, or the launcher
[ "$(wc -l <"$work/out")" -eq 1 ] || fail "this is said more than once"

run -n 3 --timeout 30 "$program" killed
[ $? -eq 137 ] || fail "a job whose rank is killed ends with another code"
says "rank 1 on $(uname -n) was ended by SIGKILL: out of memory?"

# Left-overs: old ones of nobody go, those of a job that runs stay, however old.
sh "$source/launch/mpirun.sh" -n 2 --timeout 60 "$program" forever >"$work/running" 2>&1 &
job=$!
folders=$work/ompi.$(uname -n).$(id -u)  # version 4's; version 5 has one a job
sessions() { ls -d $segments "$folders"/pid.* "$work"/prterun.* 2>/dev/null; }
mapped() {
  segments=''
  for process in /proc/[0-9]*; do
    tr '\0' '\n' <"$process/environ" | grep -qxF "TMPDIR=$work" || continue
    segments="$segments $(sed -n 's|.* \(/dev/shm/[^ ]*\)$|\1|p' "$process/maps")"
  done 2>/dev/null
  segments=$(printf '%s\n' $segments | sort -u)
  [ "$(printf '%s\n' "$segments" | wc -l)" -ge 2 ]
}
tries=0
until mapped || [ $tries -ge 100 ]; do sleep 0.1; tries=$((tries + 1)); done
stale=/dev/shm/vader_segment.$(uname -n).$(id -u).lockstep$$.0
true &
gone=$!
wait $gone
mkdir -p "$folders/pid.$gone/0" "$work/prterun.$(uname -n).$gone.0/0"
touch "$stale"
sessions | grep -v "\.$gone\b" >"$work/before"
touch -d '10 minutes ago' "$stale" $(sessions)
touch /dev/shm/vader_segment.$(uname -n).$(id -u).lockstep$$.new
run -n 1 true || fail "true fails"
sessions >"$work/after"
cmp -s "$work/before" "$work/after" || fail "a running job's files are gone: $(diff "$work/before" "$work/after")"
[ "$(wc -l <"$work/before")" -ge 3 ] || fail "nothing of the running job was found: $(cat "$work/before")"
[ ! -e "$stale" ] || fail "what a killed job left is there"
[ -e "${stale%.0}.new" ] || fail "what was made a moment ago is gone"
rm -f "$stale" "${stale%.0}.new"
kill $job
wait $job
[ $failed -eq 0 ] && echo PASS
exit $failed
