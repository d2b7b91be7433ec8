# Shared by tests of scripts. Sourced by one, it gives it a folder, in whose file `said`, or in several *.log, is what
# was said last.
# shellcheck shell=sh
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# fail WORDS: ends the test.
fail() {
  echo "$(basename "$0" .sh): $*" >&2
  cat "$folder/said" "$folder"/*.log 2> /dev/null | sed 's/^/    /' >&2
  exit 1
}
says() { grep -q -- "$1" "$folder/said" || fail "it should say '$1'"; }
# made_up FILE 'shell text': a program.
made_up() {
  printf '#!/bin/sh\n%s\n' "$2" > "$folder/$1"
  chmod +x "$folder/$1"
}
# running NAME: the ids of processes with this name, of which the kernel keeps 15 letters.
running() {
  for process in /proc/[0-9]*; do
    read -r its 2> /dev/null < "$process/comm" && [ "$its" = "$1" ] && echo "${process#/proc/}"
  done 2> /dev/null
}
