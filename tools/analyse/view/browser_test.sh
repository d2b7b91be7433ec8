#!/bin/sh
# browser_test.sh TEST WHY TRAIN: drives pages of ./lab view in a headless Chromium: keys, zoom, playing; and what their
# legends say is what the ledgers say. Exit code 77: there is no Chromium.
set -eu
test=$1 why=$2 train=$3
here=$(cd "$(dirname "$0")" && pwd)
browser=''
for name in chromium chromium-browser google-chrome; do
  [ -n "$browser" ] || browser=$(command -v $name || true)
done
[ -n "$browser" ] || { echo "SKIPPED: no Chromium on this computer (Debian's package is chromium)"; exit 77; }
# shellcheck source=tools/tests/testing.sh
. "$here/../../tests/testing.sh"

# drive PAGE [WIDTH]: opens a copy that drives itself, and keeps what it saw.
drive() {
  sed '/<\/body>/d; /<\/html>/d' "$1" > "$folder/driven.html"
  { echo '<script>'; cat "$here/drive.js"; echo '</script></body></html>'; } >> "$folder/driven.html"
  HOME=$folder timeout 180 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --window-size=${2:-1280},900 \
    --user-data-dir="$folder/profile" --virtual-time-budget=40000 --dump-dom "file://$folder/driven.html" \
    > "$folder/dom" 2> "$folder/errors" || fail "Chromium did not end well: $(tail -n 3 "$folder/errors")"
  sed -n '/<pre id="drive"[^>]*>/,/<\/pre>/p' "$folder/dom" | sed 's/.*<pre id="drive"[^>]*>//; s/<\/pre>.*//' > "$folder/seen"
  echo "-- $(basename "$1")"
  cat "$folder/seen"
  grep -qx driven "$folder/seen" || fail "$(basename "$1"): it was not driven to the end"
  ! grep -q '^FAIL' "$folder/seen" || fail "$(basename "$1") does not do what it should"
}

# same PAGE: its legend, and the ledgers of the run that it is of. Every event is rounded to nanoseconds.
same() {
  awk -v name="$1" 'NR == FNR { for (i = 1; i <= 4; ++i) ledger[i] = $i; next }
    $1 == "legend" { found = 1
      for (i = 1; i <= 4; ++i) {
        difference = $(i + 1) - ledger[i]
        if (difference < 0) difference = -difference
        if (difference > (i < 3 ? 1e-3 * ledger[i] : 0)) { print name ": " $(i + 1) " is not " ledger[i]; wrong = 1 }
      } }
    END { exit !found || wrong }' "$folder/$1.ledger" "$folder/seen" || fail "$1: the legend is not what the ledgers say"
}

LOCKSTEP_VIEW_PAGES=$folder "$test" --gtest_filter='Page.*' > "$folder/log" || { cat "$folder/log"; fail 'no pages'; }
for page in ring wrong_ring random deadlock race ring_1024; do
  drive "$folder/$page.html"
  same $page
  case $page in
    ring) grep -qx 'holdings 16 16' "$folder/seen" || fail 'a ring ends with 16 complete sums' ;;
    wrong_ring) ! grep -qx 'holdings 16 16' "$folder/seen" || fail 'the wrong ring does not show its mistake' ;;
  esac
done

# A pipeline, by the commands; and two runs side by side.
cd "$folder"
for schedule in gpipe 1f1b; do
  "$train" --model tiny --pp 4 --schedule $schedule --microbatches 8 --steps 2 --phantom --every-rank \
    --trace "$schedule.json" > "$folder/log" 2>&1 || { cat "$folder/log"; fail "train --schedule $schedule"; }
done
"$why" view 1f1b.json --out 1f1b.html
grep -q 'Training tiny: 4 stages (1f1b, 8 microbatches)' 1f1b.html || fail 'the page does not say what ran'
drive "$folder/1f1b.html"
grep -q '^code .*' "$folder/seen" || fail 'a click shows no code'
! grep -q '^code none' "$folder/seen" || fail 'the code of an operation of the trainer is not found'
drive "$folder/1f1b.html" 500
"$why" view gpipe.json 1f1b.json --together --out both.html
drive "$folder/both.html"
grep -q 'A and B, operation by operation' "$folder/dom" || fail 'two runs have a table of differences'
"$why" view gpipe.json 1f1b.json --ghost --out ghost.html
drive "$folder/ghost.html"

# Many ranks: all of them in lines of eight, and a page that loads.
"$train" --model tiny --ranks 64 --batch 64 --sequence 32 --steps 1 --phantom --every-rank --machine dgx-a100-hdr --trace many.json > "$folder/log" 2>&1 || { cat "$folder/log"; fail 'train --ranks 64'; }
"$why" view many.json --out many.html
[ "$(wc -c < many.html)" -le 3000000 ] || fail "a page of 64 ranks has $(wc -c < many.html) bytes"
drive "$folder/many.html"
grep -q '^ok 8 lines show 64 of 64 ranks' "$folder/seen" || fail '64 ranks are not shown in lines of eight'
echo 'all pages were driven'
