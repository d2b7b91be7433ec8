#!/bin/sh
# The commands of docs/use/cmake.md, unchanged, in a clone in which ./lab has not run before: one exercise is configured
# and built, and its output is what the page shows; tests that take longer are listed by the page's command.
set -eu
page=docs/use/cmake.md
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
git clone -q . "$folder/clone"
cd "$folder/clone"

fail() {
  echo "cmake_page.sh: $command: $1; it prints:" >&2
  sed 's/^/    /' "$folder/said" >&2
  exit 1
}
# block KIND: the lines of the page's blocks of that kind. timeless: without what differs from run to run.
block() { awk -v kind="$1" '/^```/ { inside = !inside; this = substr($0, 4); next } inside && this == kind' "$page"; }
timeless() { sed -E 's/ +[0-9.]+ sec$//; s/[[:space:]]+/ /g; s/[0-9]+\/[0-9]+ Test #[0-9]+/Test/; s/Start [0-9]+/Start/; s/[0-9]+ - mine/- mine/'; }
# Tests that are listed, without the one that builds.
listed() { grep -E '^ *Test +#' "$folder/said" | grep -vc 'mine\.build$' || :; }

{ block '' | sed 's/ *#.*//'; sed -n 's/^|[^|]*| `\([^`]*\)` |$/\1/p' "$page"; } > "$folder/commands"
ran=0
while IFS= read -r command; do
  ran=$((ran + 1)) expects=0
  case $command in
    *'&&'*) continue ;; # the stages `test` and `cuda`
    cmake* | ./lab\ *) ;;
    *' -R '* | *--rerun-failed) expects=8 ;; # 8: a test failed
    ctest*) command="$command -N" ;;
    *) : > "$folder/said"; fail 'which command is this?' ;;
  esac
  code=0
  sh -c "$command" < /dev/null > "$folder/said" 2>&1 || code=$?
  [ $code -eq $expects ] || fail "the exit code is $code, not $expects"
  case $command in
    *-N)
      [ "$(listed)" -gt 1 ] || fail 'it should find tests'
      echo "$command: $(listed) tests"
      ;;
    ctest*)
      timeless < "$folder/said" > "$folder/timeless"
      block text | timeless | grep -v '^…$' | while IFS= read -r line; do
        grep -qxF -- "$line" "$folder/timeless" || fail "no line '$line'"
      done
      grep -c '^[0-9]*/[0-9]* Test .*mine\.[0-9]' "$folder/said" | grep -qx 1 || fail 'it should run one exercise'
      echo "$command: as the page shows"
      ;;
    *) echo "$command" ;;
  esac
done < "$folder/commands"
[ $ran -gt 8 ] || { echo "cmake_page.sh: only $ran commands found in $page" >&2; exit 1; }

# Names select as the page says.
for name in 21.2 '21.1$' 25.5; do
  command="ctest --preset labs -N -R $name"
  $command > "$folder/said" 2>&1
  [ "$(listed)" -eq 1 ] || fail 'it should find one exercise'
done

# The builds for a debugger and for a sanitizer: the page's flags are those of an answer.
block sh > "$folder/commands"
command=$(grep '^cmake --preset' "$folder/commands")
sh -c "$command" > "$folder/said" 2>&1 || fail 'it should configure'
grep '"command".*mine\.21\.2\.dir' build/debug/compile_commands.json > "$folder/said" || fail 'it should have the answer'
grep '"command".*mine\.21\.2\.dir' build/asan/compile_commands.json | grep -q -e '-fsanitize=address' || fail 'the answer should be sanitized'
grep -q -e ' -O0 -g ' "$folder/said" || fail 'the answer should be compiled with -O0 -g'
if grep -q -e ' -g1' "$folder/said"; then fail '-g1 should not be added to -g'; fi
