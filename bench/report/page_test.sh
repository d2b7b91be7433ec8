#!/bin/sh
# page_test.sh SOURCE: what ./lab train and plan --page run, keep and hand on, with a ./lab that is made up.
set -eu
source=$1
# shellcheck source=tools/tests/testing.sh
. "$source/tools/tests/testing.sh"
mkdir -p "$folder/bench/report" "$folder/bench/plots"
cp "$source/bench/report/page.sh" "$folder/bench/report/"
cp "$source/bench/plots/find_python.sh" "$folder/bench/plots/"
# It notes what it is asked, and writes what ./lab would: of a batch of BATCH sequences on 4 ranks.
cat > "$folder/lab" << 'LAB'
#!/bin/sh
echo "$*" >> ran
command=$1 file=''
while [ $# -gt 0 ]; do
  case $1 in --json) echo "{\"rows\": [{\"ranks\": 4, \"batch_sequences\": $BATCH, \"backend\": \"sim\"}]}" > "$2" ;; --trace) : > "$2" ;; esac
  shift
done
case $command in why) echo 'limit     the bubble' ;; scale) exit 1 ;; train) exit "${FAILS:-0}" ;; esac
LAB
chmod +x "$folder/lab"
echo 'echo "report $*" >> ran' > "$folder/bench/report/report.sh"
cd "$folder"
export BATCH=8

# page CODE ARGUMENTS…: it must end with that exit code. What it ran is in ran, what it said in said.
page() {
  code=$1
  shift
  rm -f ran
  status=0
  sh bench/report/page.sh "$@" > said 2>&1 || status=$?
  [ "$status" -eq "$code" ] || fail "$*: the exit code is $status, not $code: $(cat said)"
}
ran() { # ran LINE…: these and no others
  printf '%s\n' "$@" > expected
  cmp -s expected ran || fail "it ran$(printf '\n'; cat ran)"
}
kept='--json out/data/run.json --csv out/data/run.csv --trace out/data/run.trace'

page 0 train --dp 4 --steps 20 --page out --sample=0 --check-races
ran "train --dp 4 --steps 20 --sample=0 --check-races $kept" 'why out/data/run.trace --json out/data/why.json' \
  'scale --dp 4 --weak --ranks 1,4 --batch 2 --json out/data/scale.json' 'report --run out'
[ "$(head -n 1 out/data/command.txt)" = './lab train --dp 4 --steps 20 --page out --sample=0 --check-races' ] || fail 'the command is lost'
grep -q bubble out/data/why.txt || fail 'why is lost'

# A batch that 4 ranks cannot share evenly stays whole; one rank per stage does not say what the others wait for.
BATCH=6 page 0 train --page=out --phantom --batch 6
ran "train --phantom --batch 6 --every-rank $kept" 'why out/data/run.trace --json out/data/why.json' \
  'scale --phantom --strong --ranks 1,4 --batch 6 --json out/data/scale.json' 'report --run out'

# A run that stops has its page, with the trace up to there; and its exit code stays. An earlier run's files are gone.
echo old > out/data/scale.json
FAILS=3 page 3 train --page out
ran "train $kept" 'why out/data/run.trace --json out/data/why.json' 'report --run out'
[ ! -e out/data/scale.json ] || fail 'the page has numbers of an earlier run'

page 0 plan --model gpt3-13b --cluster machines/mine.json --page out
ran 'plan --model gpt3-13b --cluster machines/mine.json --prices library --json out/data/plan_mine.json' \
  'validate --json out/data/validate.json' 'report --plan out'

for given in '--json x' '--trace=x' '--explain-as torchrun'; do
  # shellcheck disable=SC2086  # words
  page 2 train --page out $given
  grep -q -e "${given%%[= ]*}" said || fail "$given is refused without its name"
  [ ! -e ran ] || fail "$given is refused too late"
done
page 2 train --page
