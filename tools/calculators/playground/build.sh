#!/bin/sh
# ./lab playground OUT.html: builds the page of docs/playground again, one file that needs no network: the suite's
# schedules, checker and formulas, compiled to WebAssembly by Emscripten (Debian's package is emscripten, 3.1.6 or newer).
#
#   build.sh NATIVE OUT.html    NATIVE: build/…/programs/playground, which has the page's data
#   build.sh --can              in one sentence what is missing, if something is
#   build.sh --sources          what a page says of the sources that it was built from
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
from=$PWD
cd "$root"
own='answer pipeline memory all_reduce overlap plan exports tabled'
suite='tools/calculators/contest tools/calculators/recipes common/gpt/pipeline/schedule common/gpt/pipeline/bound
  common/runtime/error common/support/json/escape common/support/text/units common/runtime/machine/machine
  common/runtime/machine/library common/runtime/machine/measured_prices solutions/week21_data_parallel/cost_model
  solutions/week22_zero/memory_calculator solutions/week24_pipeline/gpipe solutions/week24_pipeline/one_f_one_b
  solutions/week24_pipeline/interleaved solutions/week24_pipeline/zero_bubble solutions/week24_pipeline/zb_v
  solutions/week24_pipeline/bubble solutions/week24_pipeline/stages solutions/week25_3d/mesh solutions/week25_3d/planner
  solutions/week25_3d/step_time labs/trainer/plan/halves labs/trainer/plan/pricer labs/trainer/plan/search
  common/gpt/model/config common/gpt/model/stage'
scripts='page pipeline memory all_reduce overlap plan start'

# The suite's files are left out: browser_test.sh asks whether the page computes what they compute.
sources() {
  (
    cd "$here"
    # shellcheck disable=SC2046,SC2086  # words
    cat $(printf '%s.cpp ' $own) $(printf '%s.js ' $scripts) answer.hpp request.hpp planned.hpp planned.cpp shim/* page.html page.css build.sh inline.py ../../analyse/view/view.css
  ) | sha256sum | cut -c 1-16
}

can_build() {
  command -v em++ > /dev/null || { echo "no Emscripten: em++ is not on PATH (Debian's package is emscripten); docs/playground/index.html is the page, built."; return 1; }
  for fmt in /usr/include /usr/local/include; do [ ! -e "$fmt/fmt/format.h" ] || return 0; done
  echo "no headers of fmt in /usr/include (Debian's package is libfmt-dev)."
  return 1
}

case ${1:-} in
  --sources) sources; exit 0 ;;
  --can) can_build; exit $? ;;
esac
can_build >&2 || exit 2
case $2 in /*) out=$2 ;; *) out=$from/$2 ;; esac
mkdir -p "$(dirname "$out")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
export NODE_PATH="${NODE_PATH:-/usr/share/nodejs}" # where Debian has what em++ minifies with
mkdir "$work/include"
ln -s "$fmt/fmt" "$work/include/fmt" # and nothing else of the host's
"$1" --pieces > "$work/pieces_table.cpp"
# The page names no folder of this computer, so every clone builds the same.
flags="-std=c++20 -O2 -fwasm-exceptions -ffp-contract=off -DFMT_HEADER_ONLY -ffile-prefix-map=$root/= -ffile-prefix-map=$work/include/= -ffile-prefix-map=$work/="
# shellcheck disable=SC2086  # words
for file in $(printf 'tools/calculators/playground/%s ' $own) $suite; do
  em++ $flags -isystem "$here/shim" -I"$root" -isystem "$work/include" -c "$file.cpp" -o "$work/$(echo "$file" | tr / _).o"
done
# shellcheck disable=SC2086
em++ $flags -isystem "$here/shim" -I"$root" -isystem "$work/include" -c "$work/pieces_table.cpp" -o "$work/pieces_table.o"
# shellcheck disable=SC2086
em++ $flags "$work"/*.o -o "$work/core.js" -sSINGLE_FILE=1 -sMODULARIZE=1 -sEXPORT_NAME=lockstepCore -sFILESYSTEM=0 -sENVIRONMENT=web \
  -sALLOW_MEMORY_GROWTH=1 -sEXPORTED_FUNCTIONS=_playground_answer -sEXPORTED_RUNTIME_METHODS=ccall
"$1" --data > "$work/data.json"
cd "$here"
# shellcheck disable=SC2046,SC2086
python3 inline.py page.html "$out" SOURCES="$(sources)" STYLE=../../analyse/view/view.css,page.css CORE="$work/core.js" DATA="$work/data.json" \
  SCRIPT="$(printf '%s.js,' $scripts)"
