# shellcheck shell=sh disable=SC2154
# Sourced by report.sh: its steps, how far they are, and about how long the rest takes. The weeks' files are read twice:
# first to count, with counting=yes, then to run.
#
#   step NAME[:SECONDS] 'what it is' program arguments…   output into data/NAME.log. SECONDS on two quiet cores; else 0.3
#   step NAME[:SECONDS] 'what it is' mpi RANKS program…   the same of MPI processes, and with nothing running beside it
#   step NAME[:SECONDS] 'what it is' alone program…       likewise, because it measures time
#   step NAME[:SECONDS] 'what it is' rows …               each of these, with its rows into data/NAME.json and data/NAME.csv
#   extra …                                               a step, but with --full alone; the page says that it is there
#   settle                                                waits for those that run, because what follows reads their data
#   pick WITH_FULL WITHOUT                                prints the one that is asked for
#
# Steps that are calculated or simulated run two at a time, where there are two cores. A step whose program this build does
# not have is left out: a handout lacks those of later weeks.
counting='' planned=0 work=0           # steps in all, and what they cost: tenths of seconds on two quiet cores
ran=0 finished=0 cost=0                # the step that runs, what those before it cost, and what it costs
now_doing=''                           # a file that report.sh chooses: what runs, for tell_progress

# begin_step TENTHS 'what it is': while counting, counts it and is false.
begin_step() {
  [ -z "$counting" ] || { planned=$((planned + 1)) work=$((work + $1)); return 1; }
  ran=$((ran + 1)) finished=$((finished + cost)) cost=$1
  echo "$(date +%s) $ran $finished $cost $2" > "$now_doing"
}

alone() { "$@"; }
rows() { "$@" --json "$data/$name.json" --csv "$data/$name.csv"; }
beside=1
[ "$(nproc)" -lt 2 ] || beside=2
running='' # PID:NAME of each step that runs concurrently

# ended NAME CODE: until a step has ended well it counts as failed, in a file of which the page knows.
ended() {
  if [ "$2" -eq 0 ]; then rm -f "$data/$1.failed"; return; fi
  failures=$((failures + 1)) why=$(tail -n 1 "$data/$1.log")
  say "$(cat "$data/$1.failed") failed: $why"
  printf '%s\n' "$why" >> "$data/$1.failed"
}
# wait_for_first: of the steps that run concurrently.
wait_for_first() {
  first_of_them=${running%% *}
  running=${running#"$first_of_them"} running=${running# }
  code=0
  wait "${first_of_them%%:*}" || code=$?
  ended "${first_of_them#*:}" $code
}
settle() { while [ -n "$running" ]; do wait_for_first; done; }

left_out='' # programs of which that has been said
# programs_are_there COMMAND…: else says, once of each, which is not.
programs_are_there() {
  for word; do
    case $word in "$programs"/*) ;; *) continue ;; esac
    [ ! -x "$word" ] || continue
    case "$left_out " in
      *" $word "*) ;;
      *) say "${word##*/} is not in this build: what it measures is left out" ;;
    esac
    [ -n "$counting" ] || left_out="$left_out $word"
    return 1
  done
}

step() {
  name=${1%%:*} what=$2 tenths=3
  case $1 in *:*) tenths=$((10 * ${1#*:})) ;; esac
  shift 2
  programs_are_there "$@" || return 0
  how=$1
  [ "$how" != rows ] || how=$2
  case $how in
    mpi | alone) quiet=yes ;;
    *) quiet='' tenths=$(((tenths + beside - 1) / beside)) ;;
  esac
  [ -z "$quiet" ] || settle
  begin_step $tenths "$what" || return 0
  printf '%s\n' "$what" > "$data/$name.failed"
  if [ -n "$quiet" ]; then
    code=0
    "$@" > "$data/$name.log" 2>&1 || code=$?
    ended "$name" $code
  else
    "$@" > "$data/$name.log" 2>&1 &
    running="${running:+$running }$!:$name"
    case $running in *' '*) wait_for_first ;; *) [ $beside -gt 1 ] || settle ;; esac
  fi
}
extra() {
  [ -z "$full" ] || { step "$@"; return; }
  [ -n "$counting" ] || printf '%s\n' "$2" > "$data/${1%%:*}.later" # the page says so
}
pick() { if [ -n "$full" ]; then echo "$1"; else echo "$2"; fi; }

# remarks_after COMMAND…: what it says to stderr, once it has ended; on a terminal the line of progress is in between.
remarks_after() {
  "$@" 2> "$now_doing.remarks"
  code=$?
  clear_line
  cat "$now_doing.remarks" >&2
  rm -f "$now_doing.remarks"
  return $code
}

# time_left AT: at that time. The costs say how much is left, the clock how fast it goes here: as the costs say, until
# steps of some 20 seconds have shown otherwise.
time_left() {
  pace=$((100 * (10 * (at - began) + 200) / (finished + 200))) # percent
  current=$((cost * pace / 100 - 10 * ($1 - at)))
  [ $current -gt 0 ] || current=0
  left=$(((current + (work - finished - cost) * pace / 100 + 9) / 10))
  if [ $left -ge 90 ]; then echo "about $(((left + 30) / 60)) min left"
  else echo "about $(((left / 10 + 1) * 10)) s left"; fi
}

# In the background, until the report ends: never silent for 10 seconds.
tell_progress() {
  last=$(date +%s)
  while kill -0 $$ 2> /dev/null; do
    sleep 1 2> /dev/null
    now=$(date +%s)
    [ -n "$overwrites" ] || [ $((now - last)) -ge 8 ] || continue
    read -r at ran finished cost what 2> /dev/null < "$now_doing" || continue # none runs yet
    last=$now
    show_line "[$ran/$planned] $what, $(time_left "$now")"
  done
}
start_telling() {
  began=$(date +%s) # the build is not what the costs are of
  tell_progress > /dev/null &
  telling=$!
  trap stop_telling EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
}
stop_telling() {
  trap - EXIT
  for each in $running; do kill "${each%%:*}"; done 2> /dev/null # interrupted
  kill "$telling" 2> /dev/null
  wait "$telling" 2> /dev/null
  rm -f "$now_doing"
  clear_line
}
