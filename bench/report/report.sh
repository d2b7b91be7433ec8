#!/bin/sh
# ./lab report: runs the reference benchmarks, draws the figures and writes outputs/report/index.html and methods.md.
#
#   ./lab report [--week N] [--mine [--no-borrow]] [--full] [--style paper|slides] [--output DIRECTORY] [--build DIRECTORY]
#   ./lab report --from DIRECTORY|FILE [--machine NAME] [--full] [--style paper|slides] [--output DIRECTORY]
#   ./lab report --compare A B [--output DIRECTORY]
#   ./lab report --run DIRECTORY [--price 2.50] | --plan DIRECTORY [--style paper|slides]
#
# At most four minutes on two quiet cores, the build apart; with --full about eight. Without MPI, what needs it is left out and
# said so; likewise figures without matplotlib. A step that fails costs its own section, and the exit code is 1.
#
# --mine: your answers where they pass, the reference's elsewhere (--no-borrow: yours everywhere). By default into
# outputs/report_mine; what every figure stands on says whose code ran.
#
# --full: every benchmark, with all its sizes and samples; and the page prints all it has, with every table and the predict
# sheets. Without it every week has its main figures, and the page prints on about 40 sheets.
#
# --week N: that week's benchmarks alone, into outputs/report_week21 (report_mine_week21 with --mine). Also writes writeup.md
# and writeup.html: predictions, figures, the handout's questions, room for answers.
#
# --from: runs nothing and needs no build; plots a file, or those of a directory and below it: JSON that any of our commands
# wrote anywhere with --json, your own CSV (ranks,samples_per_s), logs of torchrun, output of nccl-tests (--machine NAME:
# compared with the predictions of that machine file). By default into outputs/report_from_NAME. --compare: two such directories,
# or two reports, row by row, into outputs/report_compared. --run and --plan: the page again that ./lab train or plan --page
# DIRECTORY made, from the files in it; what you wrote into its words.md stays; --price, of a rank for an hour, says what a
# billion tokens cost. --style (may be given twice): paper, figures as PDF of 3.3 and 7 inches with captions and tables for
# LaTeX; slides, PNG of 1920 × 1080. docs/use/report.md says more.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build/default
out='' of='' from='' machine='' styles='' full='' mine='' borrow='' week='' first='' second='' price=''
usage() { echo "report: $*" >&2; exit 2; }
while [ $# -gt 0 ]; do
  case $1 in --*=*) option=${1%%=*} value=${1#*=}; shift; set -- "$option" "$value" "$@" ;; esac
  case $1 in
    --output | --build | --from | --machine | --style | --week) [ -n "${2:-}" ] || usage "$1 needs a value" ;;
  esac
  case $1 in
    --mine) mine=yes; shift ;;
    --no-borrow) borrow=--no-borrow; shift ;;
    --full) full=--full; shift ;;
    --compare)
      case ${2:+a}${3:+b} in ab) ;; *) usage "--compare needs two directories" ;; esac
      first=$2 second=$3
      shift 3
      ;;
    --week)
      case $2 in 2[1-5]) week=$2 ;; *) usage "--week $2: 21 to 25" ;; esac
      shift 2
      ;;
    --run | --plan)
      [ -d "${2:-}" ] || usage "$1 ${2:-}: no such directory"
      [ -z "$of" ] || usage "give --run or --plan, once"
      of=${1#--} out=$2
      shift 2
      ;;
    --output) out=$2; shift 2 ;;
    --build) build=$2; shift 2 ;;
    --from) from=$2; shift 2 ;;
    --machine) machine=$2; shift 2 ;;
    --price)
      echo "${2:-}" | grep -qE '^([0-9]+\.?[0-9]*|\.[0-9]+)(/h)?$' || usage "--price ${2:-}: of a rank for an hour, such as 2.50"
      price=$2
      shift 2
      ;;
    --style)
      case $2 in paper | slides) styles="$styles --style $2" ;; *) usage "unknown style '$2'. Known: paper, slides." ;; esac
      shift 2
      ;;
    -h | --help) sed -n '/^set -u/q; s/^# \{0,1\}//p' "$0" | sed 1d; exit 0 ;;
    *) usage "unknown option '$1'. Known: --week, --mine, --no-borrow, --full, --compare, --from, --run, --plan, --price, --machine, --style, --output, --build." ;;
  esac
done
if [ -n "$from" ]; then
  if [ -d "$from" ]; then from=$(cd "$from" && pwd -P)
  elif [ -f "$from" ]; then from=$(cd "$(dirname "$from")" && pwd -P)/$(basename "$from")
  else usage "--from $from: no such file or directory"; fi
  name=$(basename "$from")
  out=${out:-$root/outputs/report_from_${name%.*}}
fi
[ -z "$machine" ] || [ -n "$from" ] || usage "--machine needs --from: it is what results of nccl-tests are predicted for"
[ -z "$machine" ] || [ -f "$root/bench/machines/$machine.json" ] || case $machine in *.json) [ -f "$machine" ] ;; *) false ;; esac ||
  usage "--machine $machine: neither a file NAME.json nor one of $(cd "$root/bench/machines" && printf '%s ' *.json | sed 's/\.json / /g')"
if [ -n "$first" ]; then
  [ -z "$mine$from$week$full" ] || usage "--compare reads two directories and runs nothing: give it alone"
  for folder in "$first" "$second"; do
    [ -d "$folder" ] || usage "--compare $folder: no such directory"
  done
  # shellcheck source=bench/plots/find_python.sh
  . "$root/bench/plots/find_python.sh"
  [ -n "$plain" ] || usage "--compare needs python3"
  out=${out:-$root/outputs/report_compared}
  "$plain" -B "$root/bench/plots/compare.py" "$first" "$second" "$out" || exit 1
  echo "wrote ${out#"$root"/}/index.html"
  exit 0
fi
[ -z "$borrow" ] || [ -n "$mine" ] || usage "--no-borrow needs --mine"
[ -z "$week" ] || [ -z "$from" ] || usage "--week runs programs, --from runs nothing: give one of them"
[ -z "$mine" ] || [ -z "$from" ] || usage "--mine runs programs, --from runs nothing: give one of them"
out=${out:-$root/outputs/report${mine:+_mine}${week:+_week$week}}
data=$out/data
export programs="$build/programs"
started=$(date +%s)
failures=0

# shellcheck source=tools/progress.sh
. "$root/tools/progress.sh"
# shellcheck source=bench/report/steps.sh
. "$root/bench/report/steps.sh"
now_doing=$out/doing
say() {
  [ -z "$counting" ] || return 0
  clear_line
  printf '%5ss  %s\n' "$(($(date +%s) - started))" "$*"
}

mpi() { # ranks, then program and arguments
  ranks=$1
  shift
  sh "$root/launch/mpirun.sh" -n "$ranks" --timeout 300 "$@"
}
# shellcheck disable=SC2034 # by the steps
training="--steps 120 --model tiny --batch 32 --log-every 1 --sample 0" # of weeks 21 and 23
has() { grep -q "^build $1:" "$build/build.ninja"; }

# draw [--from DIRECTORY]: figures, page and methods.md.
draw() {
  lacks=''
  if [ -z "$plain" ]; then
    say "no python3: no page; the numbers are in ${from:-$data}"
    [ -n "$counting" ] || exit 1
    return
  elif [ -n "$python" ]; then
    # shellcheck disable=SC2086
    begin_step 180 "drawing figures" && { remarks_after "$python" -B "$root/bench/plots/figures.py" "$out" "$@" $styles || failures=$((failures + 1)); }
  else
    lacks=--no-matplotlib
    say "no Python with matplotlib: the figures are left out, the numbers are written"
  fi
  begin_step 20 "writing the page" || return 0
  # shellcheck disable=SC2086
  if remarks_after "$plain" -B "$root/bench/plots/page.py" "$out" "$@" $styles $full $lacks ${week:+--week "$week"}; then
    say "wrote ${out#"$root"/}/index.html${week:+ and writeup.md}"
  else
    failures=$((failures + 1))
  fi
}

# all_steps [--from DIRECTORY]: what a report does once its programs are there.
all_steps() {
  if [ -z "$from$of" ]; then
    for steps in "$root"/bench/report/week*.sh; do
      # shellcheck source=/dev/null
      case ${steps##*/} in week"$week"*.sh) . "$steps" ;; esac
    done
  fi
  settle
  draw "$@"
}
make_report() { # the same arguments
  # shellcheck source=bench/plots/find_python.sh
  . "$root/bench/plots/find_python.sh"
  counting=yes
  all_steps "$@"
  counting=''
  start_telling
  all_steps "$@"
  stop_telling
  case ${from:+from}${of:+from}$failures in
    0 | from*) ;;
    1) say "1 step failed; its log is in ${data#"$root"/}" ;;
    *) say "$failures steps failed; their logs are in ${data#"$root"/}" ;;
  esac
  [ "$failures" -eq 0 ]
}

[ -z "$price" ] || [ "$of" = run ] || usage "--price needs --run: ./lab plan takes its own"
if [ -n "$of" ]; then
  [ -z "$mine$from$week$full$machine" ] || usage "--$of reads one directory and runs nothing: give it alone"
  out=$(cd "$out" && pwd -P)
  rm -rf "$out/figures"
  mkdir -p "$data" "$out/figures" || exit 2
  make_report --of "$of" ${price:+--price "$price"}
  exit
fi

# Removes the results of an earlier report; none of them may pass for this one's.
clear_report() {
  if [ -e "$data" ] && [ ! -e "$out/index.html" ] && [ ! -e "$out/figures" ]; then
    usage "--output $out has a directory data that is not a report's, which would be emptied: give another one"
  fi
  mkdir -p "$data" "$out/figures" || exit 2
  rm -rf "$data" "$out/predictions.json" "$out/figures" "$out/paper" "$out/slides" "$out/index.html" "$out/methods.md" "$now_doing"
  mkdir -p "$data" "$out/figures"
}

if [ -n "$from" ]; then
  mkdir -p "$out" || exit 2
  case $from/ in "$(cd "$out" && pwd -P)"/*) usage "--from $from lies in the report's own directory, which is emptied first: give another --output" ;; esac
  clear_report
  make_report --from "$from" ${machine:+--machine "$machine"}
  exit
fi

[ -f "$build/build.ninja" ] || { echo "report: $build is not configured; ./lab report does that" >&2; exit 2; }
targets=
for target in bench_all_reduce bench_calibrate bench_activations bench_collectives bench_compression bench_hsdp bench_local_sgd bench_overhead bench_ddp bench_memory bench_scaling bench_zero bench_tp bench_pipeline \
  bench_schedule train plan scale; do
  for backend in sim mpi; do
    has "${target}_$backend" && targets="$targets ${target}_$backend"
  done
done
has why && targets="$targets why"
case $targets in
  *bench_all_reduce_sim*) ;;
  *)
    if [ -e "$root/prebuilt" ]; then
      echo "report: it begins with week 21, whose exercises this handout does not have" >&2
    else
      echo "report: this build has no benchmark programs, because Google Benchmark is missing (./lab setup)" >&2
    fi
    exit 2
    ;;
esac
log=$build/report.log failed=$build/report.failed
rm -f "$failed"
# shellcheck disable=SC2086
{ cmake --build "$build" --target $targets ${mine:+lab_tool} 2>&1 || : > "$failed"; } | progress "the report's programs" "$log"
[ ! -e "$failed" ] || { cat "$log" >&2; exit 1; }
if [ -n "$mine" ]; then
  # shellcheck disable=SC2086
  "$build/tools/lab" link-mine $borrow $targets || exit 1
  export programs="$build/mine/programs"
fi
clear_report
[ -z "$mine" ] || [ ! -f "$root/outputs/predictions.json" ] || cp "$root/outputs/predictions.json" "$out/"

make_report
