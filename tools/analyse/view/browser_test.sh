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
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
  echo "browser_test: $1" >&2
  exit 1
}

# drive PAGE: opens a copy that drives itself, and keeps what it saw.
drive() {
  sed '/<\/body>/d; /<\/html>/d' "$1" > "$folder/driven.html"
  { echo '<script>'; cat "$here/drive.js"; echo '</script></body></html>'; } >> "$folder/driven.html"
  HOME=$folder timeout 180 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --window-size=1280,900 \
    --user-data-dir="$folder/profile" --virtual-time-budget=8000 --dump-dom "file://$folder/driven.html" \
    > "$folder/dom" 2> "$folder/errors" || fail "Chromium did not end well: $(tail -n 3 "$folder/errors")"
  sed -n '/<pre id="drive">/,/<\/pre>/p' "$folder/dom" | sed 's/.*<pre id="drive">//; s/<\/pre>.*//' > "$folder/seen"
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
grep -q '"wait: B2 from rank 1"' 1f1b.html || fail 'messages of a pipeline have the names of its steps'
drive "$folder/1f1b.html"
"$why" view gpipe.json 1f1b.json --together --out both.html
drive "$folder/both.html"
grep -q 'A and B, operation by operation' "$folder/dom" || fail 'two runs have a table of differences'
echo 'all pages were driven'
