#!/bin/sh
# handouts.sh [FILE…]: runs every command that the handouts print, in this clone, each for two minutes at most: what is
# still running then is fine, what fails is not; and what ./lab predict measures. Training is cut to three steps. Left
# out: verdicts on answers, which are the learner's; the learner's code (mine.sh runs it) and files; what needs a GPU.
set -eu
[ $# -gt 0 ] || set -- labs/week*/*.md
mkdir -p outputs build
failed=0 count=0
for file; do
  # Commands stand at the beginning of a line; two blanks, or one and a #, begin a remark.
  sed -n 's/^\(\.\/lab [a-z].*\)$/\1/p' "$file" | sed 's/  .*//; s/ #.*//; s/…//g' > build/handout.commands
  while IFS= read -r command; do
    case "$command " in
      *' check '* | *' hint '* | *' list '* | *' watch '* | *' --mine '* | *mine.json* | *mine.txt* | *' cuda '* | *' nccl '* | *'--plot'*) continue ;;
      './lab train '*--phantom*) ;;
      './lab train '*)
        command="$(echo "$command" | sed 's/ --\(steps\|sample\|warmup\) [0-9]*//g') --steps 3 --sample 0" ;;
    esac
    count=$((count + 1))
    code=0
    # shellcheck disable=SC2086  # words
    timeout 120 $command > build/handout.log 2>&1 < /dev/null || code=$?
    if [ $code -ne 0 ] && [ $code -ne 124 ]; then
      failed=$((failed + 1))
      echo "$file: $command"
      tail -n 3 build/handout.log | sed 's/^/    /'
    fi
  done < build/handout.commands
done
# Every figure that learners are asked to predict can be measured.
yes 1 | ./lab predict 21,22,23,24,25 > build/handout.log 2>&1 || { failed=$((failed + 1)); tail -n 3 build/handout.log; }
left=$(git status --porcelain)
[ -z "$left" ] || { failed=$((failed + 1)); echo "left beside the sources: $left"; }
echo "$count commands, $failed failed"
[ $failed -eq 0 ]
