#!/bin/sh
# Autolab runs this for every submission. Whatever happens, its last line is Autolab's scores, one for each exercise
# (21.2), and it never has points that ./lab grade did not give.
suite=${LOCKSTEP:-/home/autograde/lockstep}
here=$(pwd)
results=$here/results.json
rm -f "$results"
set --
for file in "$here"/*.zip "$here"/*.tar.gz "$here"/*.tgz "$here"/*.tar "$here"/*.cpp; do
  case $file in *'/*'* | */autograde.tar) ;; *) set -- "$@" "$file" ;; esac
done
if [ $# -ne 1 ]; then
  echo "Hand in one archive, as the handout's README says: there are $# here."
elif [ "$(cat graded.txt commit.txt)" != "$(cd "$suite" && cat graded.txt commit.txt)" ]; then
  echo 'The image is of another version than autograde.tar: your instructor must build it again.'
else
  (cd "$suite" && ./lab grade "$1" --only "$(cat graded.txt)" --hide-seed --out "$results" 2>&1)
fi
# A test's number comes before its score; 21.2a counts for 21.2.
[ -s "$results" ] || : > "$results"
awk '
  /^ *"number": "/ { id = $2; gsub(/[",]/, "", id); sub(/[a-z]$/, "", id) }
  /^ *"score": / && id != "" { if (!(id in points)) order[++count] = id; points[id] += $2 + 0; id = "" }
  END {
    line = "{\"scores\": {"
    for (i = 1; i <= count; ++i) line = line (i > 1 ? ", " : "") "\"" order[i] "\": " points[order[i]]
    print line "}}"
  }' "$results"
