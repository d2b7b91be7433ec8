# shellcheck shell=sh
# say_whose_error LOG: after a build of what is given, whose compiler stopped. Sourced; $root is the repository.
say_whose_error() {
  file=$(sed -n 's/^\([^ :][^:]*\):[0-9][0-9:]*: \(fatal \)\{0,1\}error: .*/\1/p' "$1" | head -n 1)
  [ -n "$file" ] || return 0
  file=${file#"$root/"}
  while [ "$file" != "${file#../}" ]; do file=${file#../}; done
  echo "$file does not compile. It is not an answer of yours: undo what you changed there, or in a header that it includes." >&2
  echo "git diff shows what that is, and git checkout -- $file restores the file." >&2
}
