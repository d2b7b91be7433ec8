#!/bin/sh
# launch/graded.sh WHAT: fails where the course has no week, exercise or part of this name. A pack is built and graded
# elsewhere, where a typing error would be seen only after minutes. WHAT: 21, 21:core, core, 21.2, 21.2a, or a list.
set -eu
course=$(dirname "$0")/../labs/course.json
for name in $(printf '%s' "${1:-none}" | tr ',' ' '); do
  week=${name%:core}
  case $name in
    core) ;;
    *[!0-9a-z.:_]*) false ;;
    *.*) grep -qF "\"id\": \"$name\"" "$course" ;;
    [0-9]*) grep -q "\"number\": $week," "$course" ;;
    *) grep -q "\"name\": \"$name\"," "$course" ;;
  esac || {
    echo "There is nothing to grade called '$name': give a week (21, 21:core), an exercise (21.2) or a part (21.2a)." >&2
    exit 2
  }
done
