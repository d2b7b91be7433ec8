#!/bin/sh
# commands_test.sh LAB MPI SOURCE: one small run of each command, and in what it prints a number that only a run can know.
#   LAB  build/…/tools/lab
#   MPI  yes, where this build has that backend
set -u
lab=$1
mpi=$2
source=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# says WORDS ARGUMENTS…: ./lab with these ends with 0 and prints WORDS, a regular expression; and nowhere "1 ranks".
plural='(^ *|[^0-9.,− -] *)\<1 (ranks|replicas|sequences|microbatches|stages|layers|heads|steps|tokens|tests|exercises|lines|nodes|GPUs|candidates)\>'
says() {
  words=$1
  shift
  "$lab" "$@" > "$work/out" 2>&1
  code=$?
  if grep -E -- "$plural" "$work/out"; then
    echo "FAILED: that is a wrong plural, in ./lab $*"
    failed=1
  fi
  [ $code -eq 0 ] && grep -Eq -- "$words" "$work/out" && return
  echo "FAILED: ./lab $* ends with $code; it should end with 0 and say '$words':"
  tail -n 20 "$work/out" | sed 's/^/    /'
  failed=1
}

train='train --model tiny --dp 2 --zero 1 --steps 2 --batch 4 --sample 0'
says '^ *21\.2 +Ring all-reduce' list 21
says '^  1\. ' hint 21.2
says '^21\.2 .* PASS' check 21.2 --solution
# shellcheck disable=SC2086  # words
says '^traffic +463 KiB per rank and step, predicted 463 KiB' $train --trace "$work/a.json"
# shellcheck disable=SC2086
says '^step +2/2' $train --overlap-gather --trace "$work/b.json"
says '^run +2 ranks, steps 1 to 2 of 2' why "$work/a.json"
says 'all_gather' diff "$work/a.json" "$work/b.json"
says 'page\.html' view --out "$work/page.html" "$work/a.json"
says '^    3 +8 +43\.8 +43\.8 +262 +350' memory --params 175e9 --ranks 1,8
says '^step +1 sequence × 32 tokens on 1 rank .*, 1 microbatch each' train --phantom --machine dgx-a100 --model tiny --batch 1 --steps 1
says 'bubble of the total +27\.27%' pipeline --schedule 1f1b --stages 4 --microbatches 8
says '^all_reduce/ring/4 ranks/256 KiB .*\+0\.0%' bench all_reduce --machine dgx-a100 --ranks 4 --bytes 256KiB --algorithm ring
says ' 797\.8 M ' flops --model gpt2-124m --machine dgx-a100 --ranks 8
says '3192 candidates' plan --model gpt2-355m --cluster dgx-a100 --global-batch 64 --fast
says '^ +2 .*%|^ +2 .* 0\.5' scale --strong --ranks 1,2 --machine pcie-box-10gbe
if [ "$mpi" = yes ]; then
  # shellcheck disable=SC2086
  says '^traffic +463 KiB per rank and step, predicted 463 KiB' $train --backend mpi
  says '^all_reduce/ring/2 ranks/4' bench all_reduce --backend mpi --ranks 2 --bytes 4KiB --algorithm ring --samples 3
fi
# docs/use/commands.md has an example of each. The version is the project's, also in result files.
for command in $("$lab" help all | sed -n 's/^  \([a-z-]*\) .*/\1/p'); do
  grep -Eq "^\./lab $command( |$)" "$source/docs/use/commands.md" || { echo "FAILED: docs/use/commands.md lacks ./lab $command"; failed=1; }
done
version=$(sed -n 's/^project(lockstep VERSION \([0-9.]*\) .*/\1/p' "$source/CMakeLists.txt")
says "^Lockstep $version \\([0-9a-f]{12}(-dirty)?\\)$|^Lockstep $version \\(unknown\\)$" --version
says '^ +3 +8 ' memory --params 175e9 --ranks 8 --json "$work/memory.json"
grep -q "\"lockstep\": *\"$version\"" "$work/memory.json" || { echo "FAILED: a result file lacks the version $version"; failed=1; }
grep -qx "version: $version" "$source/CITATION.cff" || { echo "FAILED: CITATION.cff names another version"; failed=1; }
grep -q "^## $version\$" "$source/CHANGELOG.md" || { echo "FAILED: CHANGELOG.md does not say what $version is"; failed=1; }
exit $failed
