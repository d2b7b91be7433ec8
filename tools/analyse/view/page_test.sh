#!/bin/sh
# page_test.sh WHY TRAIN: pages of training runs, without a browser. Exit code 77: there is no Node.js.
set -eu
why=$1 train=$2
here=$(cd "$(dirname "$0")" && pwd)
command -v node > /dev/null || { echo "SKIPPED: no Node.js on this computer"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for zero in 0 3; do
  "$train" --model tiny --ranks 2 --zero $zero --batch 4 --sequence 16 --steps 3 --sample 4 --threads 1 --trace $zero.json > log 2>&1 || { cat log; exit 1; }
done
"$why" view 0.json --out one.html
"$why" view 0.json 3.json --together --out both.html
node "$here/page_test.js" one.html steps narrow
node "$here/page_test.js" both.html together narrow
"$why" view "$here"/../pytorch/samples/ddp-rank?.json --out pytorch.html
node "$here/page_test.js" pytorch.html pytorch narrow
