#!/bin/sh
# page.sh train|plan OPTIONS --page DIRECTORY: what ./lab train and ./lab plan do with --page. Their files are kept in
# DIRECTORY/data, and report.sh --run or --plan makes DIRECTORY/index.html of them, which can be done again at any time.
#
# train: trains; asks ./lab why what limits the run; and trains a few steps on one rank and on all, which the scaling
# efficiency is computed from. plan: plans; and predicts published runs, which says how far off a plan may be.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=bench/plots/find_python.sh
. "$root/bench/plots/find_python.sh"
usage() { echo "lab $command: $*" >&2; exit 2; }

command=$1
shift
typed="./lab $command $*"
folder='' cluster=dgx-a100x128 phantom='' prices='--prices library' last=''
for word; do
  shift
  case $last in
    --page) folder=$word last='' && continue ;;
    --cluster) cluster=$word ;;
  esac
  last=$word
  case $word in
    --page) continue ;;
    --page=*) folder=${word#*=} && continue ;;
    --cluster=*) cluster=${word#*=} ;;
    --phantom) phantom=yes ;;
    --prices | --prices=*) prices='' ;;
    --json | --csv | --trace | --json=* | --csv=* | --trace=*) usage "leave out ${word%%=*}: --page keeps it in its directory's data" ;;
    --explain-as | --explain-as=* | --card | --card=* | --table | --table=*) usage "${word%%=*} runs nothing that a page could show: leave out --page" ;;
  esac
  set -- "$@" "$word"
done
[ -n "$folder" ] || usage "--page needs a directory"
[ -n "$plain" ] || usage "--page needs python3"
mkdir -p "$folder/data" || exit 2
data=$folder/data

if [ "$command" = plan ]; then
  name=${cluster##*/}
  # A renter trains with the vendor's libraries, not with this suite's kernels.
  # shellcheck disable=SC2086  # two words or none
  "$root/lab" plan "$@" $prices --json "$data/plan_${name%.json}.json" || exit
  "$root/lab" validate --json "$data/validate.json" > /dev/null || exit
  exec sh "$root/bench/report/report.sh" --plan "$folder"
fi

# scaling: the same program on one rank and on all, each with its share of the batch, or with all of it where it does not divide.
scaling() {
  read -r ranks batch backend << END
$("$plain" -c 'import json, sys; row = json.load(open(sys.argv[1]))["rows"][0]; print(row["ranks"], row["batch_sequences"], row["backend"])' "$data/run.json")
END
  [ "$ranks" -gt 1 ] && [ "$backend" != cuda ] || return 0
  how=--strong
  [ $((batch % ranks)) -ne 0 ] || how=--weak batch=$((batch / ranks))
  skip=''
  for word; do
    shift
    [ -z "$skip" ] || { skip=''; continue; }
    case $word in
      --check-races | --every-rank) continue ;;
      --ranks | --batch | --steps | --sample | --prompt | --log-every | --validate-every | --checkpoint | --checkpoint-every | \
        --resume | --on-save-error) skip=yes && continue ;;
      --ranks=* | --batch=* | --steps=* | --sample=* | --prompt=* | --log-every=* | --validate-every=* | --checkpoint=* | \
        --checkpoint-every=* | --resume=* | --on-save-error=*) continue ;;
    esac
    set -- "$@" "$word"
  done
  echo
  echo "the same on 1 and on $ranks ranks"
  # A command that fails has said why, and the page says what it lacks.
  "$root/lab" scale "$@" "$how" --ranks "1,$ranks" --batch "$batch" --json "$data/scale.json" || :
}

for file in run.json run.csv run.trace scale.json why.json why.txt command.txt; do rm -f "$data/$file"; done
# A trace of one rank per stage does not say what the others wait for.
"$root/lab" train "$@" ${phantom:+--every-rank} --json "$data/run.json" --csv "$data/run.csv" --trace "$data/run.trace"
code=$?
[ -e "$data/run.trace" ] || exit "$code" # nothing ran, and it was said why
printf '%s\n%s\n' "$typed" "$code" > "$data/command.txt"
"$root/lab" why "$data/run.trace" --json "$data/why.json" > "$data/why.txt"
[ "$code" -ne 0 ] || scaling "$@"
sh "$root/bench/report/report.sh" --run "$folder" || exit
exit "$code"
