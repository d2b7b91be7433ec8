#!/bin/sh
# .ci/platform.sh NAME…: the README's two commands from nothing, on each of these systems. Needs root and debootstrap.
#
#   bookworm        Debian 12
#   trixie          Debian 13: the libraries that Ubuntu 24.04 has, or newer ones
#   trixie-clang    the same, compiled by Debian 13's Clang
#
# A bare system is made in a temporary folder, with git and nothing else. In it HEAD is cloned, and ./lab report and
# ./lab test install what they need, build and run. Besides their exit codes this asks for a build without a warning and
# a clean git status. Says one line a system, also at the end of the file that PLATFORMS_OUT names, and ends with 0 if all hold.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
[ "$(id -u)" -eq 0 ] || { echo "platform.sh: only root can make a bare system" >&2; exit 2; }
command -v debootstrap > /dev/null || apt-get install -y -q --no-install-recommends debootstrap > /dev/null
folder=$(mktemp -d)
trap 'rm -rf --one-file-system "$folder"' EXIT
trap 'exit 130' INT TERM

# inside COMMAND: what a user of the bare system would type there. Its mounts end with it.
# shellcheck disable=SC2016  # $1 and $2 are the inner shell's
inside() {
  unshare --mount --propagation private sh -c '
    mount -t proc proc "$1/proc" && mount -t sysfs sysfs "$1/sys" && mount -t tmpfs tmpfs "$1/dev" && mkdir "$1/dev/shm" "$1/dev/pts" &&
    mount -t tmpfs tmpfs "$1/dev/shm" && ln -s /proc/self/fd "$1/dev/fd" && ln -s pts/ptmx "$1/dev/ptmx" && mount -t devpts -o ptmxmode=666 devpts "$1/dev/pts" &&
    for device in null:3 zero:5 full:7 random:8 urandom:9; do mknod -m 666 "$1/dev/${device%:*}" c 1 "${device#*:}"; done &&
    mknod -m 666 "$1/dev/tty" c 5 0 &&
    exec chroot "$1" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 CI=true sh -c "$2"' - "$folder/$system" "$1"
}

bare_system() {
  rm -rf --one-file-system "${folder:?}/$system"
  debootstrap --variant=minbase --include=ca-certificates,git "${system%-*}" "$folder/$system" > "$folder/debootstrap.log" 2>&1 ||
    { tail -n 20 "$folder/debootstrap.log"; return 1; }
  # This machine's way to the packages.
  cp -a /etc/apt/apt.conf.d/. "$folder/$system/etc/apt/apt.conf.d/"
  cp /etc/hosts "$folder/$system/etc/hosts"
  [ ! -e /etc/resolv.conf ] || cp -L /etc/resolv.conf "$folder/$system/etc/resolv.conf"
  git clone -q "$here" "$folder/$system/root/lockstep"
}

for system; do
  case $system in
    bookworm | trixie | trixie-clang) ;;
    *) echo "platform.sh: no system '$system'; see the top of the file" >&2; exit 2 ;;
  esac
done
for system; do
  bare_system
  root=$folder/$system/root
  # step NAME: runs ./lab NAME in it; what it printed is in NAME.log.
  step() {
    if ! inside "$compiler cd /root/lockstep && ./lab $1 > /root/$1.log 2>&1"; then
      tail -n 60 "$root/$1.log"
      echo "$system: ./lab $1 failed"
      exit 1
    fi
  }
  compiler=''
  if [ "$system" != "${system%-clang}" ]; then
    inside 'apt-get update -q && apt-get install -y -q --no-install-recommends clang' > "$folder/clang.log" 2>&1 || { tail "$folder/clang.log"; exit 1; }
    compiler='export CXX=clang++;'
  fi
  began=$(date +%s)
  step report
  reported=$(date +%s)
  step test
  tested=$(date +%s)
  # Ninja prints what a compiler says; ./lab keeps in build/ what it does not show.
  if grep -iE '(^|[^-])warning:|CMake Warning' "$root"/*.log "$root"/lockstep/build/*.log; then echo "$system: there are warnings"; exit 1; fi
  changes=$(git -C "$root/lockstep" status --porcelain)
  [ -z "$changes" ] || { echo "$changes"; echo "$system: git status is not clean"; exit 1; }
  # shellcheck disable=SC2016
  what=$(inside "$compiler"'echo "Debian $(cat /etc/debian_version), $(${CXX:-c++} --version | head -n 1), $(cmake --version | head -n 1), $(mpirun --version | head -n 1)"')
  line="$system: $(git -C "$root/lockstep" describe --always --abbrev=12 --exclude='*'), $(date -u +%F): $what: ./lab report in $((reported - began)) s, packages and build included; ./lab test in $((tested - reported)) s: $(grep 'tests passed' "$root/test.log")"
  echo "$line"
  [ -z "${PLATFORMS_OUT:-}" ] || echo "$line" >> "$PLATFORMS_OUT"
  rm -rf --one-file-system "${folder:?}/$system"
done
