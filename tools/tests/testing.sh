# What tests of scripts share. Sourced by one, it gives it a folder, in whose file `said` is what was said last.
# shellcheck shell=sh
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# fail WORDS: ends the test.
fail() {
  echo "$(basename "$0" .sh): $*" >&2
  [ ! -e "$folder/said" ] || sed 's/^/    /' "$folder/said" >&2
  exit 1
}
says() { grep -q -- "$1" "$folder/said" || fail "it should say '$1'"; }
# made_up FILE 'shell text': a program.
made_up() {
  printf '#!/bin/sh\n%s\n' "$2" > "$folder/$1"
  chmod +x "$folder/$1"
}
