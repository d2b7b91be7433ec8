#!/bin/sh
# ./lab update [VERSION | FOLDER | FILE.zip] [--drop-weeks]: a newer Lockstep in this folder; your answers stay.
#
#   VERSION            in a git clone: a tag, branch or commit of origin (without: origin's newest tag, or its main)
#   FOLDER, FILE.zip   a newer version as you were handed it
#   --drop-weeks       also where it lacks weeks that this folder has: their exercises go, your answers are kept
#
# Exercises that you have not begun get today's skeleton. Answers stay, follow their exercise to another file or number,
# with their verdicts, scores and predictions, and have names and paths of before rewritten; where a contract changed,
# the difference is kept for you to read. What became of each is said, and all that was replaced is in outputs/updates/.
set -eu
fail() { echo "update: $*" >&2; exit 2; }
case " $* " in *' -h '* | *' --help '*) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p;}' "$0"; exit 0 ;; esac
root=$1
shift
drop='' # weeks that the new version lacks
for argument; do
  shift
  case $argument in
    --drop-weeks) drop=$argument ;;
    -*) fail "'$argument' is not an option: --drop-weeks is" ;;
    *) set -- "$@" "$argument" ;;
  esac
done
set -- "$root" "$@"
case $# in 1 | 2 | 4) ;; *) fail "give at most one version, folder or archive" ;; esac

what=${2:-}
begun_at=${3:-$(date +%Y-%m-%d.%H%M%S)}
new=${4:-} # set where the new version's own script takes over
kept=$root/outputs/updates/$begun_at
in_git() { git -C "$root" rev-parse --is-inside-work-tree > /dev/null 2>&1 && [ -e "$root/.git" ]; }

# The newest tag of the origin that looks like a version, else its main.
newest() {
  tag=$(git -C "$root" tag --list 'v[0-9]*' --sort=-v:refname --merged origin/main | head -n 1)
  echo "${tag:-origin/main}"
}

# The new version lies in $new, a folder of its own; its own script takes over, which knows what changed.
if [ -z "$new" ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  case $what in
    *.zip | *.tar | *.tar.gz | *.tgz | ./* | ../* | /*) [ -e "$what" ] || fail "there is no $what" ;;
  esac
  if [ -d "$what" ] || [ -f "$what" ]; then
    new=$work
    if [ -d "$what" ]; then cp -R "$what/." "$work/"; else
      archive=$(cd "$(dirname "$what")" && pwd)/$(basename "$what")
      (cd "$work" && cmake -E tar xf "$archive") || fail "$what is not an archive"
      [ ! -d "$work/lockstep" ] || new=$work/lockstep
    fi
  elif in_git; then
    git -C "$root" fetch -q --tags origin || fail "origin does not answer"
    what=${what:-$(newest)}
    commit=$(git -C "$root" rev-parse -q --verify "$what^{commit}" || git -C "$root" rev-parse -q --verify "origin/$what^{commit}") ||
      fail "origin has no $what, and there is no folder or archive of that name"
    if git -C "$root" merge-base --is-ancestor "$commit" HEAD; then
      echo "nothing newer: you have $what"
      exit 0
    fi
    git -C "$root" archive "$commit" | tar -x -C "$work"
    new=$work
    what=$commit
  else
    [ -z "$what" ] || fail "there is no folder or archive $what"
    fail "this folder is not a git clone: ./lab update FILE.zip (or FOLDER) of the version you were handed"
  fi
  [ -f "$new/tools/course/update.sh" ] || fail "that is not a version of Lockstep to update to"
  # shellcheck disable=SC2086  # the option or nothing
  sh "$new/tools/course/update.sh" "$root" "$what" "$begun_at" "$new" $drop
  exit
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# exercises TREE: "ID PATH" for each exercise of its course, PATH without the ending.
exercises() {
  awk -F'"' '$2 == "folder" { folder = $4 } $2 == "id" { id = $4 } $2 == "name" { print id, "labs/" folder "/" $4 }' "$1/labs/course.json"
}

# weeks TREE LIST: the weeks whose exercises it has, of the course in LIST; a handout lists those of other weeks too.
weeks() {
  while read -r id path; do [ ! -f "$1/$path.cpp" ] || echo "${id%%.*}"; done < "$2" | sort -un
}
# in_words NUMBER…: "week 21", "weeks 21, 22".
in_words() {
  [ $# -eq 1 ] && printf 'week ' || printf 'weeks '
  echo "$*" | sed 's/ /, /g'
}

# start PATH: the skeleton this folder began with.
start() {
  if in_git; then git -C "$root" show "$base:$1" 2> /dev/null
  else cat "$root/prebuilt/skeletons/${1#labs/}" 2> /dev/null; fi
}

# code FILE: without comments, includes and empty lines.
code() { sed 's://.*::; s/[[:space:]]*$//; /^#include/d; /^$/d' "$1"; }

if in_git; then base=$(git -C "$root" merge-base HEAD "$what"); fi

# same_in LIST ID PATH: the line "ID PATH" in LIST of the exercise that was once this one: of the same file or, where there
# is none, of the same number, unless that is a file which another exercise had before.
same_in() {
  awk -v id="$2" -v path="$3" 'FNR == NR { had[$2]; next } $2 == path { same = $0 }
    $1 "" == id "" && !($2 in had) { other = $0 } END { if (same other != "") print same != "" ? same : other }' "$work/before" "$1"
}

# in_new ID PATH: that exercise's line in the new version; fails where it is not there, or in a handout not handed out.
in_new() {
  line=$(same_in "$work/after" "$1" "$2")
  [ -f "$new/${line#* }.cpp" ] && echo "$line"
}

# Answers: what differs from the skeleton it began as.
exercises "$root" > "$work/before"
exercises "$new" > "$work/after"

# A handout of week 22 is not a newer version of week 21's.
weeks "$root" "$work/before" > "$work/had"
weeks "$new" "$work/after" > "$work/has"
lost=$(grep -vxF -f "$work/has" "$work/had" || true)
if [ -n "$lost" ] && [ -z "$drop" ]; then
  # shellcheck disable=SC2046,SC2086  # words
  fail "nothing was changed: this folder has $(in_words $(cat "$work/had")), and $what only $(in_words $(cat "$work/has")).
Ask for a handout of $(in_words $(sort -un "$work/had" "$work/has")), or unpack this one in a folder of its own.
./lab update --drop-weeks $what removes $(in_words $lost) anyway; your answers stay in outputs/updates."
fi

mkdir -p "$kept"
unbegun=0
: > "$work/begun"
while read -r id path; do
  [ -f "$root/$path.cpp" ] || continue
  if start "$path.cpp" > "$work/start" && cmp -s "$work/start" "$root/$path.cpp"; then
    ! in_new "$id" "$path" > /dev/null || unbegun=$((unbegun + 1))
  else
    echo "$id $path" >> "$work/begun"
    mkdir -p "$kept/answers/$(dirname "$path")" "$work/contracts/$(dirname "$path")"
    cp "$root/$path.cpp" "$kept/answers/$path.cpp"
    [ ! -f "$root/$path.hpp" ] || cp "$root/$path.hpp" "$work/contracts/$path.hpp"
  fi
done < "$work/before"

# Their own changes to other files: git merges those that are committed; the others it would overwrite.
replace_by_merge() {
  cut -d' ' -f2 "$work/before" | sed 's/$/.cpp/' > "$work/answers"
  git -C "$root" diff --name-only HEAD | grep -vxF -f "$work/answers" > "$work/others" || true
  [ ! -s "$work/others" ] || fail "commit or undo your changes to these files first: $(tr '\n' ' ' < "$work/others")"
  if [ -s "$work/begun" ]; then
    cut -d' ' -f2 "$work/begun" | sed 's/$/.cpp/' | (cd "$root" && xargs git checkout -q HEAD --)
  fi
  if git -C "$root" merge -q --ff-only "$what" 2> /dev/null; then return; fi
  git -C "$root" merge -q --no-commit --no-ff "$what" > "$work/merge" 2>&1 || true
  git -C "$root" diff --name-only --diff-filter=U | grep -vxF -f "$work/answers" > "$work/others" || true
  if [ -s "$work/others" ] || ! git -C "$root" rev-parse -q --verify MERGE_HEAD > /dev/null; then
    git -C "$root" merge --abort 2> /dev/null || true
    cp -R "$kept/answers/." "$root/" 2> /dev/null || true
    fail "you and the new version changed the same lines of: $(tr '\n' ' ' < "$work/others"). Nothing was changed"
  fi
  cut -d' ' -f2 "$work/after" | sed 's/$/.cpp/' | (cd "$root" && xargs git checkout -q "$what" --)
}
replace_by_copy() {
  for entry in "$new"/* "$new"/.[!.]*; do
    name=$(basename "$entry")
    case $name in outputs | build | '*' | '.[!.]*' | .git) continue ;; esac
    [ ! -e "$root/$name" ] || { mkdir -p "$kept/replaced" && mv "$root/$name" "$kept/replaced/"; }
    cp -R "$entry" "$root/"
  done
  [ -d "$kept/replaced" ] || return 0
  # Unchanged files keep their time, so that nothing built from them is built again.
  LC_ALL=C diff -rqs "$kept/replaced" "$root" | sed -n 's/^Files \(.*\) and .* are identical$/\1/p' | while IFS= read -r file; do
    touch -c -r "$file" "$root/${file#"$kept/replaced/"}" || :
  done
}
if in_git; then replace_by_merge; else replace_by_copy; fi

# Deeds, scores, predictions and verdicts move to an exercise's new number. All at the same time, since a number may now
# belong to another exercise: with an @ in front until the last is done.
while read -r id path; do
  line=$(same_in "$work/after" "$id" "$path")
  [ -z "$line" ] || [ "${line% *}" = "$id" ] || echo "$id ${line% *}"
done < "$work/before" > "$work/renumbered"
if [ -s "$work/renumbered" ]; then
  where='(^[0-9T:-]+[[:blank:]]([a-z]+[[:blank:]])?|"question": "|"id": ")'
  while read -r id now; do
    printf 's/%s%s([a-z]*)(["/[:blank:]]|$)/\\1@%s\\3\\4/g\n' "$where" "$(echo "$id" | sed 's/\./\\./')" "$now"
  done < "$work/renumbered" > "$work/numbers"
  printf 's/%s@/\\1/g\n' "$where" >> "$work/numbers"
  for file in "$root"/outputs/course.log "$root"/outputs/scores.log "$root"/outputs/predictions.json "$root"/build/*/mine/verdicts/*.json; do
    [ ! -f "$file" ] || { sed -E -f "$work/numbers" "$file" > "$work/moved" && cat "$work/moved" > "$file"; }
  done
  for folder in "$root"/build/*/mine/verdicts; do
    while read -r id now; do [ ! -f "$folder/$id.json" ] || mv "$folder/$id.json" "$folder/@$now.json"; done < "$work/renumbered"
    while read -r id now; do [ ! -f "$folder/@$now.json" ] || mv "$folder/@$now.json" "$folder/$now.json"; done < "$work/renumbered"
  done
fi

# Reports on each answer.
while read -r id path; do
  if ! line=$(in_new "$id" "$path"); then
    rm -f "$root/$path.cpp"
    gone='no longer in the course'
    [ -z "$(same_in "$work/after" "$id" "$path")" ] || gone='not in the new handout'
    echo "$id: $gone; your answer is ${kept#"$root/"}/answers/$path.cpp"
    continue
  fi
  said=kept
  now=${line#* }
  [ "${line% *}" = "$id" ] || said="is ${line% *} now, and kept"
  cp "$kept/answers/$path.cpp" "$root/$now.cpp"
  [ "$now" = "$path" ] || { rm -f "$root/$path.cpp"; said="moved to $now.cpp"; }
  mkdir "$work/one"
  cp "$root/$(dirname "$now")"/*.cpp "$work/one/"
  one=$work/one/$(basename "$now").cpp
  sh "$new/tools/course/move_answers.sh" "$work/one" > "$work/moves"
  if grep -qxF "moved: $one" "$work/moves"; then
    cp "$one" "$root/$now.cpp"
    said="$said; names of before rewritten"
  fi
  for part in "$work"/one/*.cpp; do # which parts of it may have gone to
    [ "$part" != "$one" ] && ! cmp -s "$part" "$root/$(dirname "$now")/$(basename "$part")" || continue
    cp "$part" "$root/$(dirname "$now")/"
    said="$said; parts of it are in $(dirname "$now")/$(basename "$part") now"
  done
  rm -r "$work/one"
  if [ -f "$work/contracts/$path.hpp" ] && ! diff -u "$work/contracts/$path.hpp" "$root/$now.hpp" > "$work/difference"; then
    cp "$work/difference" "$kept/$id.hpp.diff"
    if code "$work/contracts/$path.hpp" > "$work/code" && code "$root/$now.hpp" | cmp -s - "$work/code"; then
      said="$said; its contract is described anew: ${kept#"$root/"}/$id.hpp.diff"
    else
      said="$said; its contract changed: ${kept#"$root/"}/$id.hpp.diff"
    fi
  fi
  echo "$id: $said"
  sed -n "s|^by hand: $one: |    by hand: |p" "$work/moves"
done < "$work/begun"

if in_git && git -C "$root" rev-parse -q --verify MERGE_HEAD > /dev/null; then
  git -C "$root" add -A -- 'labs/week*'
  git -C "$root" commit -q -m "Lockstep updated; my answers kept"
fi
# Files of replaced folders that the new version lacks, which may be one's own. Answers were reported above.
if [ -d "$kept/replaced" ]; then
  { echo '^prebuilt/'; sed 's/^[^ ]* /^/; s/$/[._]/' "$work/before"; } > "$work/known"
  (cd "$kept/replaced" && find . ! -type d) | sed 's:^\./::' | grep -v -f "$work/known" | while read -r file; do
    [ -e "$root/$file" ] || echo "    $file"
  done | sort > "$work/others"
  { grep '^ *labs/' "$work/others"; grep -v '^ *labs/' "$work/others"; } > "$work/left" || true
  if [ -s "$work/left" ]; then
    echo "Not in the new version, and kept in ${kept#"$root/"}/replaced:"
    head -n 10 "$work/left"
    more=$(($(wc -l < "$work/left") - 10))
    [ $more -le 0 ] || echo "    and $more more"
  fi
fi
echo "$unbegun not begun: new skeletons. Your old files are kept in ${kept#"$root/"}."
echo "Next: ./lab check of each week that you have begun; CHANGELOG.md says what is new."
