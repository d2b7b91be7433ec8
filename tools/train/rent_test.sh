#!/bin/sh
# The table of docs/use/rent.md says what the simulator says of each pair of GPUs, and every line of its prediction runs.
#   rent_test.sh TRAIN_SIM SOURCE
set -eu
train=$1 page=$2/docs/use/rent.md
cd "$2"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Prints a run's figure behind `speed`: "65.6 k".
speed() {
  "$train" --model gpt2-355m --precision bf16 --sequence 1024 --steps 2 --phantom "$@" > "$folder/said"
  sed -n 's/^speed *\([0-9.]* k\) tokens.*/\1/p' "$folder/said"
}
# shellcheck disable=SC2016  # a pattern
rows=$(sed -n 's/^| [^|]* | `\([a-z0-9-]*\)` |.*/\1/p' "$page")
[ "$(echo "$rows" | wc -l)" -ge 7 ] || { echo "the table of $page has fewer than 7 machines"; exit 1; }
for machine in $rows; do
  one=$(speed --machine "$machine" --dp 1 --batch 8)
  fsdp=$(speed --machine "$machine" --dp 2 --batch 16 --zero 3)
  exposed=$(speed --machine "$machine" --dp 2 --batch 16 --zero 3 --no-overlap)
  ddp=$(speed --machine "$machine" --dp 2 --batch 16)
  efficiency=$(awk -v one="${one% k}" -v two="${fsdp% k}" 'BEGIN { printf "%.0f%%", 50 * two / one }')
  hours=$(awk -v two="${fsdp% k}" 'BEGIN { printf "%.2f", 100 / (two * 3.6) }')
  row="\`$machine\` | $one | $fsdp | $efficiency | $exposed | $ddp | $hours |"
  grep -qF "$row" "$page" || { echo "$page lacks: $row"; grep -F "\`$machine\` |" "$page"; exit 1; }
done
# The lines that the page quotes from the run on a10-pair.
speed --machine a10-pair --dp 2 --batch 16 --zero 3 > /dev/null
grep -e '^traffic' -e '^memory' "$folder/said" > "$folder/quoted"
while read -r line; do grep -qF "$line" "$page" || { echo "$page does not quote: $line"; exit 1; }; done < "$folder/quoted"
[ "$(wc -l < "$folder/quoted")" -eq 2 ]
echo "$rows" | wc -l
