#!/bin/sh
# browser_test.sh NATIVE [PAGE]: drives the playground in a headless Chromium, from a file: 1,292 random questions
# are answered as NATIVE answers them; guesses, sliders, schedules and addresses work, on a screen and on a phone, light
# and dark. A PAGE must be of today's sources; without one, a new page is built. Exit code 77: there is no Chromium, or
# no Emscripten to build with.
# AXE=axe.min.js (of PyPI's wheel axe-playwright-python, for one): also axe-core's rules of accessibility, in every view.
set -eu
native=$1 page=${2:-}
here=$(cd "$(dirname "$0")" && pwd)
browser=''
for name in chromium chromium-browser google-chrome; do
  [ -n "$browser" ] || browser=$(command -v $name || true)
done
# shellcheck source=tools/tests/testing.sh
. "$here/../../tests/testing.sh"

if [ -z "$page" ]; then
  lacking=$(sh "$here/build.sh" --can) || { echo "SKIPPED: $lacking"; exit 77; }
  page=$folder/page.html
  sh "$here/build.sh" "$native" "$page" || fail 'the page cannot be built'
else
  again='build it again: ./lab playground docs/playground/index.html'
  grep -q "of the sources $(sh "$here/build.sh" --sources) -->" "$page" || fail "$page is not of today's tools/calculators/playground: $again"
  "$native" --data > "$folder/data"
  grep -qF -f "$folder/data" "$page" || fail "the models, machines or runs in $page are not today's: $again"
fi
[ "$(wc -c < "$page")" -le 2000000 ] || fail "the page has $(wc -c < "$page") bytes"
! grep -Eq '(src|href)="?(https?:)?//|@import|fetch\("http' "$page" || fail 'the page needs a network'
for core in core cluster; do
  sed -n "s/.*id=\"${core}_wasm\">\([A-Za-z0-9+/=]*\)<.*/\1/p" "$page" | base64 -d | gzip -d > "$folder/$core"
  [ -s "$folder/$core" ] || fail "the page has no $core"
  ! grep -aq '/include/fmt\|/labs/week\|/tools/calc\|/tmp/' "$folder/$core" || fail "the $core names folders of the computer that built it"
done
[ -n "$browser" ] || { echo "SKIPPED: no Chromium on this computer (Debian's package is chromium)"; exit 77; }

# Questions, and what is answered natively: also to schedules in which two steps have changed places.
awk 'BEGIN {
  srand(24)
  for (i = 0; i < 300; ++i)
    printf "pipeline?p=%d&m=%d&v=%d&f=%.3f&b=%.3f&w=%.3f&hop=%.3f\n", 1 + 6 * rand(), 1 + 12 * rand(), 1 + 3 * rand(), 2 * rand(), 2 * rand(), 2 * rand(), i % 2 ? rand() : 0
  for (i = 0; i < 300; ++i) {
    p = int(1 + 5 * rand()); m = int(1 + 6 * rand()); text = ""
    for (s = 0; s < p; ++s) {
      ahead = p - 1 - s < m ? p - 1 - s : m; n = 0
      for (k = 0; k < m + ahead; ++k) {
        if (k < m) word[n++] = "F" k
        if (k >= ahead) word[n++] = "B" (k - ahead)
      }
      if (i % 3 && rand() < 0.5) { a = int(n * rand()); b = int(n * rand()); w = word[a]; word[a] = word[b]; word[b] = w }
      for (k = 0; k < n; ++k) text = text (k ? "%20" : "") word[k]
      text = text "%0A"
    }
    printf "schedule?f=%.2f&b=%.2f&w=%.2f&hop=%.2f&limit=%d&text=%s\n", 1 + rand(), rand(), rand(), rand() / 4, i % 5 ? 0 : 3, text
  }
  split("bf16 f32 bf16-only fp32-grads megatron deepspeed fsdp2 nanotron", recipe, " ")
  for (i = 0; i < 200; ++i)
    printf "memory?parameters=%.0f&largest=%.0f&token_bytes=%.0f&p=%d&b=%d&s=%d&recipe=%s&gpu=%.0f\n", 1e6 + 1e12 * rand(), 1 + 1e9 * rand(), 1e7 * rand(), 1 + 1024 * rand(), 8 * rand(), 1 + 8192 * rand(), recipe[1 + i % 8], 1e9 + 2e11 * rand()
  for (i = 0; i < 100; ++i)
    printf "overlap?p=%d&k=%d&f=%.3f&b=%.3f&n=%.0f&alpha=%.3f&link=%.3f&add=%.3f&launch=%.3f\n", 1 + 64 * rand(), 1 + 40 * rand(), 20 * rand(), 40 * rand(), 1 + 1e9 * rand(), 50 * rand(), 0.1 + 400 * rand(), 1 + 3000 * rand(), 5 * rand()
  for (i = 0; i < 100; ++i)
    printf "all_reduce?p=%d&alpha=%.3f&link=%.3f&add=%.3f&launch=%.3f&n=%.0f\n", 1 + 130 * rand(), 50 * rand(), 0.1 + 400 * rand(), 1 + 3000 * rand(), i % 2 ? 5 * rand() : 0, 1 + 1e9 * rand()
  split("gpt2-355m gpt2-1.5b llama3-8b gpt3-13b gpt-22b llama3-70b", model, " ")
  split("dgx-a100-hdr dgx-a100-10gbe hgx-a100-40gb-efa dgx-h100-ndr pcie-box-100gbe pcie-box-10gbe", machine, " ")
  for (i = 0; i < 72; ++i)
    printf "plan?model=%s&machine=%s&gpus=%d&batch=%d&zero=%s&again=%s\n", model[1 + i % 6], machine[1 + int(i / 6) % 6], 2 ^ int(6 * rand()), 2 ^ int(9 * rand()), i % 3 ? "any" : int(4 * rand()), i % 4 ? "any" : int(2 * rand())
  programs = split("together send_first rank_0_first even_first add_early own_chunk last_rank_leaves naive ring doubling rabenseifner", program, " ")
  for (i = 0; i < 20 * programs; ++i)
    printf "cluster?program=%s&p=%d&elements=%d&eager=%d&alpha=%.3f&link=%.3f&add=%.3f&launch=%.3f\n", program[1 + i % programs], 1 + 12 * rand(), 2 ^ (14 * rand()), 2 ^ (16 * rand()), 50 * rand(), 0.1 + 400 * rand(), 1 + 3000 * rand(), 5 * rand()
}' > "$folder/questions"
"$native" < "$folder/questions" > "$folder/answers"
! grep -q '<' "$folder/answers" || fail 'an answer could close its element'

# drive WIDTH SCHEME: opens a copy that drives itself, in a frame, since no window is as narrow as a phone; and shows
# what it saw. SCHEME: 0 dark, 1 light.
drive() {
  {
    sed '/<\/body>/d; /<\/html>/d' "$page"
    echo '<script type="text/plain" id="questions">'; cat "$folder/questions"; echo '</script><script type="text/plain" id="answers">'
    cat "$folder/answers"; echo '</script><script>'; [ -z "${AXE:-}" ] || cat "$AXE"; echo '</script><script>'; cat "$here/drive.js"; echo '</script></body></html>'
  } > "$folder/driven.html"
  cat > "$folder/frame.html" << END
<!doctype html><style>body { margin: 0 }</style><iframe src="driven.html#pipeline" style="border: 0; width: $1px; height: 900px"></iframe>
<pre id="drive"></pre><script>addEventListener('message', event => { document.getElementById('drive').textContent = event.data; });</script>
END
  HOME=$folder timeout 300 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --window-size=1300,1000 \
    --blink-settings=preferredColorScheme="$2" --user-data-dir="$folder/profile" --virtual-time-budget=60000 \
    --dump-dom "file://$folder/frame.html" > "$folder/dom" 2> "$folder/errors" || fail "Chromium did not end well: $(tail -n 3 "$folder/errors")"
  sed -n '/<pre id="drive"[^>]*>/,/<\/pre>/p' "$folder/dom" | sed 's/.*<pre id="drive"[^>]*>//; s/<\/pre>.*//' > "$folder/seen"
  echo "-- $1 pixels, scheme $2"
  cat "$folder/seen"
  grep -qx driven "$folder/seen" || fail 'the page was not driven to the end'
  ! grep -q '^FAIL' "$folder/seen" || fail 'the page does not do what it should'
}

drive 1280 1
drive 390 0
[ -n "${AXE:-}" ] || echo 'not asked: axe-core (AXE=axe.min.js)'
echo 'the playground was driven'
