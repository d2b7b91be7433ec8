#!/bin/sh
# .ci/fuzz.sh [TARGET…]: fuzzes what reads files (tools/fuzz/targets.cpp), each target from the inputs in
# tools/fuzz/corpus (files, and words that are typed), until FUZZ_RUNS inputs (100000) or FUZZ_SECONDS (300). Says how
# many lines of each parser were reached, and fails where an input ends in anything but a result or a sentence; that
# input is kept in FUZZ_OUT (build/fuzz/out), next to this report, to be fixed and added to the corpus. Wants Clang 16
# or newer with its runtime and llvm-cov: apt-get install clang-16 libclang-rt-16-dev llvm-16.
set -eu
cd "$(dirname "$0")/.."
runs=${FUZZ_RUNS:-100000} seconds=${FUZZ_SECONDS:-300}

version=''
for candidate in 22 21 20 19 18 17 16; do
  command -v "clang++-$candidate" > /dev/null && command -v "llvm-cov-$candidate" > /dev/null && version=$candidate && break
done
[ -n "$version" ] || { echo "fuzzing needs Clang 16 or newer: apt-get install clang-16 libclang-rt-16-dev llvm-16" >&2; exit 2; }

mkdir -p build
cmake -S . -B build/fuzz -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="clang++-$version" \
  -DCMAKE_CXX_FLAGS_RELEASE='-O1 -fno-sanitize-recover=undefined -fprofile-instr-generate -fcoverage-mapping' \
  -DLOCKSTEP_SANITIZE=address,undefined,fuzzer-no-link -DLOCKSTEP_FIBERS=threads -DLOCKSTEP_MPI=OFF \
  > build/fuzz.log 2>&1 || { cat build/fuzz.log; exit 1; }
cmake --build build/fuzz --target fuzz > build/fuzz.log 2>&1 || { tail -n 40 build/fuzz.log; exit 1; }
fuzz=$PWD/build/fuzz/programs/fuzz

# The sources whose lines a target has to reach.
sources_of() {
  case $1 in
    json) echo common/support/json/document.cpp ;;
    machine) echo common/runtime/machine/read_machine.cpp ;;
    schedule) echo common/gpt/pipeline/schedule.cpp ;;
    answer) echo tools/analyse/drill/answer.cpp ;;
    model) echo common/gpt/data/model_file.cpp ;;
    strategy) echo tools/plan/strategy_file.cpp ;;
    course) echo tools/course/course.cpp ;;
    config) echo common/support/text/command_line.cpp common/support/text/option_words.hpp ;;
    lab) echo tools/lab_command.cpp common/support/text/option_words.hpp ;;
    trace) echo common/analysis/read_trace.cpp common/analysis/graph.cpp common/analysis/replay.cpp common/analysis/diff.cpp ;;
    manifest) echo common/gpt/checkpoint/manifest.cpp ;;
    tokens) echo common/gpt/data/token_file.cpp common/gpt/data/corpus.cpp ;;
    verdicts) echo common/testing/verdict_file.cpp ;;
    names | archive) echo tools/grade/grade_submission.cpp ;;
    submission) echo tools/grade/grade_submission.cpp tools/grade/grade_found.cpp ;;
    sizes) echo common/support/text/units.cpp ;;
  esac
}

# Lines of FILE that were reached, of those that can be: "61 of 64".
lines_reached() {
  "llvm-cov-$version" export -summary-only -instr-profile="$1" "$fuzz" "$2" 2> /dev/null |
    sed -n 's/.*"totals":.*"lines":{"count":\([0-9]*\),"covered":\([0-9]*\).*/\2 of \1/p'
}

[ $# -gt 0 ] || set -- json machine model schedule strategy course config lab trace manifest tokens verdicts names sizes submission archive answer
out=${FUZZ_OUT:-$PWD/build/fuzz/out}
mkdir -p "$out"
: > "$out/report.txt"
say() { echo "$@" | tee -a "$out/report.txt"; }
failed=0
[ ! -w /dev/shm ] || export TMPDIR=/dev/shm  # for the files of targets that need some
say "commit $(git rev-parse --short HEAD), $(date -u +%Y-%m-%d), clang $version, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) threads"
for target; do
  inputs=build/fuzz/inputs/$target log=build/fuzz/$target.log raw=$PWD/build/fuzz/$target.profraw
  mkdir -p "$inputs"
  status=0 begin=$(date +%s)
  LOCKSTEP_FUZZ_TARGET=$target LLVM_PROFILE_FILE=$raw "$fuzz" -runs="$runs" -max_total_time="$seconds" -timeout=20 \
    -rss_limit_mb=2048 -print_final_stats=1 -use_value_profile=1 -artifact_prefix="$out/$target-" \
    "$inputs" tools/fuzz/corpus/*/"$target" > "$log" 2>&1 || status=$?
  count=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  if [ $status -ne 0 ]; then
    failed=1
    say "$target: FAILED after ${count:-some} inputs; $log tells"
    grep -E '^(SUMMARY|an exception|read back|Test unit written)|ERROR:|runtime error' "$log" || true
    continue
  fi
  "llvm-profdata-$version" merge -o "$raw.data" "$raw"
  say "$target: $count inputs in $(($(date +%s) - begin)) s, no fault"
  for source in $(sources_of "$target"); do
    say "  $source: $(lines_reached "$raw.data" "$source") lines"
  done
done

# Files that several of these targets read: the lines that they reached together.
together=$(for target; do sources_of "$target" | tr ' ' '\n'; done | sort | uniq -d)
for source in $together; do
  [ $failed -eq 0 ] || break
  for target; do
    case " $(sources_of "$target") " in
      *" $source "*) echo "$PWD/build/fuzz/$target.profraw.data" ;;
    esac
  done > build/fuzz/together.txt
  "llvm-profdata-$version" merge -o build/fuzz/together.data --input-files=build/fuzz/together.txt
  say "together: $source: $(lines_reached build/fuzz/together.data "$source") lines"
done
exit $failed
