#!/bin/sh
# reference.sh [REPORT]: ./lab report --full of the committed tree, as docs/reference/: a README.md with its figures, its
# numbers in tables/, methods.md, and two pages of ./lab view. REPORT: a report's folder, made before, instead of a run.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
report=${1:-$root/outputs/reference}
out=$root/docs/reference
# shellcheck source=bench/plots/find_python.sh
. "$root/bench/plots/find_python.sh"
[ -n "$plain" ] || { echo "reference.sh: needs python3" >&2; exit 2; }
[ -n "${1:-}" ] || "$root/lab" report --full --output "$report"
[ -f "$report/index.html" ] || { echo "reference.sh: $report is no report: it has no index.html" >&2; exit 2; }

rm -rf "$out"
mkdir -p "$out"
"$plain" -B "$root/bench/plots/markdown.py" "$report" "$out"
cp "$report/methods.md" "$out/"
"$root/lab" view check 21.2 --solution --ranks 4 --size 8 --out "$out/ring.html" > /dev/null
"$root/lab" view pipeline --schedule 1f1b --out "$out/pipeline.html" > /dev/null
{
  echo
  echo "## Pages of the player"
  echo
  echo "Download and open in a browser: a [ring all-reduce](ring.html) of four ranks, and a"
  echo "[pipeline](pipeline.html) under 1F1B. Regenerate all this with \`sh bench/report/reference.sh\`."
} >> "$out/README.md"
echo "wrote docs/reference: $(du -sk "$out" | cut -f1) KiB"
