# shellcheck shell=sh
# Sourced: on a terminal the progress is one line, overwritten by the next; elsewhere, and with NO_COLOR, a line now
# and then. All of it goes to stderr.
overwrites=''
[ ! -t 2 ] || [ -n "${NO_COLOR:-}" ] || overwrites=yes

clear_line() { [ -z "$overwrites" ] || printf '\r\033[K' >&2; }

# show_line TEXT
show_line() {
  [ -n "$overwrites" ] || { printf '%s\n' "$1" >&2; return; }
  columns=$(stty size <&2 2> /dev/null | cut -d ' ' -f 2)
  [ "${columns:-0}" -gt 1 ] || columns=80
  printf '\r\033[K%.*s' "$((columns - 1))" "$1" >&2
}

# beat: a line for `progress` every ten seconds, until it is killed. No lock and no pipe is held by what it waits for.
beat() {
  while sleep 10 > /dev/null 2>&1 9>&- && kill -0 "$$" 2> /dev/null; do echo "$silence"; done
}
silence='progress: nothing'

# progress WHAT LOG: reads what Ninja prints into the log, and says how far it is.
progress() {
  begin=$(date +%s) last=$(date +%s) reached=''
  while IFS= read -r line; do
    if [ "$line" = "$silence" ]; then
      now=$(date +%s)
      [ $((now - last)) -ge 10 ] || continue
      last=$now
      show_line "building $1$reached, $((now - begin)) s so far"
      continue
    fi
    printf '%s\n' "$line"
    steps=${line%%]*}
    case $steps in "["[1-9]*/[0-9]*) steps=${steps#?} ;; *) continue ;; esac
    reached=" [$steps]"
    now=$(date +%s)
    [ -n "$overwrites" ] || [ $((now - last)) -ge 10 ] || continue
    last=$now left=''
    [ $((now - begin)) -lt 2 ] || left=", about $(((now - begin) * (${steps#*/} - ${steps%/*}) / ${steps%/*})) s left"
    show_line "building $1 [$steps]$left"
  done > "$2"
  clear_line
}
