#!/bin/sh
# ./lab gpu-pack [--out FILE]: packs a check for a machine that has a GPU, the CUDA toolkit, CMake and a C++ compiler,
# and neither a network nor our libraries. There: tar -xzf FILE, then sh lockstep-gpu/gpu-check.sh (docs/use/gpu.md).
#
# Inside are the committed sources, and of what ./lab setup installs: the headers of fmt, CLI11 and JSON for C++,
# GoogleTest's sources, Google Benchmark's library, and Boost.Context's headers and library; and the headers of cuDNN's
# frontend, where they are installed, or in the folder that LOCKSTEP_CUDNN_FRONTEND names. Committed: what is edited and
# not committed stays here.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
out=$root/outputs/lockstep-gpu.tar.gz
most_mib=64

usage() {
  echo "usage: ./lab gpu-pack [--out FILE.tar.gz]" >&2
  exit 2
}
fail() {
  echo "gpu-pack: $*" >&2
  exit 2
}
while [ $# -gt 0 ]; do
  case $1 in
    --out) [ $# -ge 2 ] || usage; out=$2; shift 2 ;;
    --out=*) out=${1#--out=}; shift ;;
    -h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) usage ;;
  esac
done

sh "$root/tools/setup.sh"
git -C "$root" rev-parse --verify -q HEAD > /dev/null || fail "this is no git checkout: what to pack is said by git"
mkdir -p "$(dirname "$out")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
pack=$work/lockstep-gpu
third=$pack/third_party
mkdir -p "$pack/source" "$third/include" "$third/lib" "$third/src"

# The sources, and which commit they are.
git -C "$root" archive HEAD | tar -x -C "$pack/source"
git -C "$root" describe --always --dirty --abbrev=12 --exclude='*' > "$pack/source/commit.txt"
cp "$here/gpu-check.sh" "$pack/"
cp -r "$here/cmake" "$third/"

# Prints what `c++` includes for a header: itself and all that it includes.
included_by() { # included_by HEADER…
  for header; do echo "#include <$header>"; done | c++ -std=c++20 -M -x c++ - | tr -s ' \\' '\n\n' | sed '/^-:$/d'
}
folder_of() { # folder_of fmt/format.h: the folder in which that is
  included_by "$1" | sed -n "s|^\(.*\)/$1\$|\1|p" | head -n 1
}
for header in fmt/format.h CLI/CLI.hpp nlohmann/json.hpp benchmark/benchmark.h; do
  folder=$(folder_of "$header")
  [ -n "$folder" ] || fail "$header is not on this machine"
  cp -rL "$folder/${header%%/*}" "$third/include/"
done
boost=$(folder_of boost/context/fiber.hpp)
if [ -n "$boost" ]; then
  included_by boost/context/fiber.hpp boost/context/protected_fixedsize_stack.hpp | grep "^$boost/boost/" | sort -u |
    while read -r file; do
      mkdir -p "$third/include/$(dirname "${file#"$boost"/}")"
      cp -L "$file" "$third/include/${file#"$boost"/}"
    done
  cp -rL "$boost/boost/config" "$third/include/boost/" # which of it is used, other compilers say differently
fi

# The headers of cuDNN's frontend, where the build would find them; cuDNN itself is taken from where the GPU is.
frontend=${LOCKSTEP_CUDNN_FRONTEND:-$(python3 "$root/cmake/cudnn_frontend.py" 2> /dev/null)} || frontend=''
[ -n "$frontend" ] || frontend=$(folder_of cudnn_frontend.h 2> /dev/null)
if [ -f "$frontend/cudnn_frontend.h" ]; then
  kept=$third/cudnn_frontend/include  # its headers include each other as "../include/…"
  mkdir -p "$kept"
  cp -rL "$frontend"/cudnn_*.h "$frontend/cudnn_frontend" "$kept/"
else
  echo "gpu-pack: no headers of cuDNN's frontend (python3 -m pip install --no-deps nvidia-cudnn-frontend): attention by our kernels alone" >&2
fi

library() { # library NAME…: the first that this compiler links
  for name; do
    file=$(c++ -print-file-name="$name")
    [ "$file" = "$name" ] || { readlink -f "$file"; return 0; }
  done
  return 1
}
copy_library() { # copy_library NAME: static where that is installed, else shared, under the name programs load it by
  file=$(library "lib$1.a" "lib$1.so") || return 1
  name=lib$1.a
  case $file in *.so*) name=$(objdump -p "$file" | awk '$1 == "SONAME" {print $2}') ;; esac
  cp "$file" "$third/lib/$name"
}
copy_library benchmark || fail "Google Benchmark's library is not on this machine"
[ -z "$boost" ] || copy_library boost_context || echo "gpu-pack: no library of Boost.Context: threads take its place" >&2

if [ -f /usr/src/googletest/googletest/src/gtest-all.cc ]; then
  mkdir "$third/src/googletest"
  cp -r /usr/src/googletest/googletest/include /usr/src/googletest/googletest/src "$third/src/googletest/"
else
  cp -rL "$(folder_of gtest/gtest.h)/gtest" "$third/include/"
  copy_library gtest && copy_library gtest_main || fail "GoogleTest is neither in /usr/src/googletest nor a library"
fi
uname -m > "$third/lib/processor.txt"

tar -C "$work" -czf "$work/pack.tar.gz" lockstep-gpu
bytes=$(wc -c < "$work/pack.tar.gz")
[ "$bytes" -lt $((most_mib << 20)) ] || fail "the pack has $bytes bytes, more than $most_mib MiB"
mv "$work/pack.tar.gz" "$out"
echo "$out: $((bytes / 1024)) KiB. There: tar -xzf $(basename "$out") && sh lockstep-gpu/gpu-check.sh"
