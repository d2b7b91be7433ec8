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
# The first core: formulas, schedules and their checker.
own='answer pipeline memory all_reduce overlap plan exports tabled'
suite='tools/calculators/contest tools/calculators/recipes common/gpt/pipeline/schedule common/gpt/pipeline/bound
  common/runtime/error common/support/json/escape common/support/text/units common/runtime/machine/machine
  common/runtime/machine/library common/runtime/machine/measured_prices solutions/week21_data_parallel/cost_model
  solutions/week22_zero/memory_calculator solutions/week24_pipeline/gpipe solutions/week24_pipeline/one_f_one_b
  solutions/week24_pipeline/interleaved solutions/week24_pipeline/zero_bubble solutions/week24_pipeline/zb_v
  solutions/week24_pipeline/bubble solutions/week24_pipeline/stages solutions/week25_3d/mesh solutions/week25_3d/planner
  solutions/week25_3d/step_time labs/trainer/plan/halves labs/trainer/plan/pricer labs/trainer/plan/search
  labs/trainer/refusals common/gpt/model/config common/gpt/model/stage'
# The second: the simulator, and programs for it. Asyncify lets its fibers leave a function and come back.
cluster_own='answer all_reduce cluster cluster_programs cluster_exports'
cluster_suite='common/runtime/error common/runtime/errors common/runtime/slice common/runtime/rank common/runtime/run
  common/runtime/private_data common/runtime/wait_chain common/runtime/ledger/ledger common/runtime/ledger/recorder
  common/runtime/race/race common/runtime/machine/library common/runtime/machine/machine
  common/runtime/machine/measured_prices common/runtime/trace/program_notes common/runtime/arithmetic
  common/runtime/arithmetic_layers common/runtime/arithmetic_attention common/runtime/arithmetic_compression
  common/runtime/arithmetic_optimizer common/runtime/arithmetic_shards common/runtime/fibers/arena
  common/runtime/fibers/errors common/runtime/fibers/deadlock common/runtime/fibers/groups common/backends/sim/run
  common/backends/sim/world common/backends/sim/endpoint common/backends/sim/peers common/backends/sim/rank
  common/backends/sim/memory common/backends/sim/network common/backends/sim/explain common/support/json/escape
  common/support/text/units common/analysis/holdings common/analysis/layout common/analysis/shares common/analysis/graph
  solutions/week21_data_parallel/cost_model solutions/week21_data_parallel/naive_all_reduce
  solutions/week21_data_parallel/ring_all_reduce solutions/week21_data_parallel/halving_doubling'
for file in adamw attention attention_block compression cross_entropy elementwise embedding gelu matmul norm philox \
  random reductions rotary sgemm_no_blas swiglu threads; do
  cluster_suite="$cluster_suite common/devices/cpu/$file"
done
scripts='page pipeline memory all_reduce overlap plan cluster start'

# The suite's files are left out: browser_test.sh asks whether the page computes what they compute.
sources() {
  (
    cd "$here"
    # shellcheck disable=SC2046,SC2086  # words
    cat $(printf '%s\n' $own $cluster_own | sort -u | sed 's/$/.cpp/') $(printf '%s.js ' $scripts) page_runtime.cc answer.hpp request.hpp planned.hpp planned.cpp cluster_programs.hpp shim/* page.html page.css build.sh inline.py ../../analyse/view/view.css
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
work=$root/build/playground # the same each time, so that ccache knows the compilations
rm -rf "$work"
mkdir -p "$work"
! command -v ccache > /dev/null || export EM_COMPILER_WRAPPER=ccache
export NODE_PATH="${NODE_PATH:-/usr/share/nodejs}" # where Debian has what em++ minifies with
mkdir "$work/include"
ln -s "$fmt/fmt" "$work/include/fmt" # and nothing else of the host's
"$1" --pieces > "$work/pieces_table.cpp"
cp "$here/page_runtime.cc" "$work/page_runtime.cpp"
# The page names no folder of this computer, so every clone builds the same.
flags="-std=c++20 -O2 -ffp-contract=off -fopenmp-simd -Wno-pass-failed -DFMT_HEADER_ONLY -ffile-prefix-map=$root/= -ffile-prefix-map=$work/include/= -ffile-prefix-map=$work/= -isystem $here/shim -I$root -isystem $work/include"

# build_core NAME EXPORT EXPORTED_FUNCTIONS "FLAGS" "LINK FLAGS" FILE…: compiles and links $work/NAME.js and NAME.wasm, which
# becomes text.
build_core() {
  name=$1 export=$2 functions=$3 compiled="$flags $4" linked=$5
  shift 5
  mkdir "$work/$name"
  printf '%s\n' "$@" | xargs -P "$(nproc)" -I{} sh -c "em++ $compiled -c '{}.cpp' -o '$work/$name/'\"\$(echo '{}' | tr / _).o\""
  # shellcheck disable=SC2086  # words
  em++ $compiled $linked "$work/$name"/*.o -o "$work/$name.js" -sMODULARIZE=1 -sEXPORT_NAME="$export" -sFILESYSTEM=0 -sENVIRONMENT=web \
    -sALLOW_MEMORY_GROWTH=1 -sEXPORTED_FUNCTIONS="$functions" -sEXPORTED_RUNTIME_METHODS=ccall
  gzip -9n < "$work/$name.wasm" | base64 -w 0 > "$work/$name.text"
}
# shellcheck disable=SC2046,SC2086
build_core core lockstepCore _playground_answer -fwasm-exceptions '' $(printf 'tools/calculators/playground/%s ' $own) $suite "$work/pieces_table"
# shellcheck disable=SC2046,SC2086
build_core cluster lockstepCluster _cluster_run,_cluster_answer -fexceptions '-Os -sASYNCIFY' $(printf 'tools/calculators/playground/%s ' $cluster_own) $cluster_suite "$work/page_runtime"
"$1" --data > "$work/data.json"
cd "$here"
# shellcheck disable=SC2046,SC2086
python3 inline.py page.html "$out" SOURCES="$(sources)" STYLE=../../analyse/view/view.css,page.css CORE="$work/core.js" CORE_WASM="$work/core.text" \
  CLUSTER="$work/cluster.js" CLUSTER_WASM="$work/cluster.text" DATA="$work/data.json" \
  SCRIPT="$(printf '%s.js,' $scripts)"
