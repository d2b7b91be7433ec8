# shellcheck shell=sh disable=SC2034
# Sourced: sets python to a Python with matplotlib, and plain to any Python; empty where there is none. The first python3 on PATH
# may not see the system's packages.
python='' plain=''
for candidate in "${LOCKSTEP_PYTHON:-}" /usr/bin/python3 python3 /usr/local/bin/python3; do
  [ -n "$candidate" ] && command -v "$candidate" > /dev/null 2>&1 || continue
  plain=${plain:-$candidate}
  if "$candidate" -c 'import matplotlib' > /dev/null 2>&1; then
    python=$candidate
    break
  fi
done
