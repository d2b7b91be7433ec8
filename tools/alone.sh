# shellcheck shell=sh
# alone COMMAND…: runs it when nothing else runs in the build tree $build, where Ninja does not expect two builds, and says
# for whom it waits. The C++ program takes the same lock (FolderLock in tools/course/paths.cpp). Sourced.
alone() {
  lock=$build/mine/lock
  mkdir -p "$build/mine"
  command -v flock > /dev/null || { "$@"; return; }
  (
    flock -w 0.5 9 || { echo "waiting: $(cat "$lock") (it has locked $lock)" >&2; flock 9; }
    echo "process $$ is building" > "$lock"
    "$@"
  ) 9>> "$lock"
}
