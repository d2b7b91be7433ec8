# shellcheck shell=sh disable=SC2154,SC2034
# What gpu-check.sh leaves of its stages, renewed after each of them: table.txt for who waits, check.json for ./lab report,
# and an archive of the results' folder. Sourced; the variables without a value here are gpu-check.sh's.
log=$results/stages.tsv  # name, verdict, seconds, CPU seconds, note: a line a stage, of all calls

# record NAME VERDICT SECONDS CPU-SECONDS NOTE: in the place of what an earlier call said of this stage.
record() {
  touch "$log"
  line=$(printf '%s\t%s\t%s\t%s\t' "$1" "$2" "$3" "$4")$(printf '%.120s' "$(printf '%s' "$5" | tr '\t\n' '  ')")
  NAME=$1 LINE=$line awk -F '\t' '
    $1 == ENVIRON["NAME"] {print ENVIRON["LINE"]; found = 1; next}
    {print}
    END {if (!found) print ENVIRON["LINE"]}' "$log" > "$log.part" && mv "$log.part" "$log"
  table > "$results/table.txt"
  json > "$results/check.json"
  pack_results
}

about() {
  echo "date      $(date -u +%Y-%m-%dT%H:%M:%SZ)"
  echo "command   $command"
  echo "commit    $(cat "$source/commit.txt")"
  echo "GPU       ${gpu:-none}${gpu:+, $gpus of them, compute capability $capability, $gpu_mib MiB, driver $driver}"
  echo "nvcc      $nvcc, $(cuda_version)"
  echo "compiler  $($compiler --version | head -n 1)"
  echo "cmake     $(cmake --version | head -n 1), $generator, $jobs jobs"
  echo "system    $(uname -srm), $(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release 2> /dev/null)"
  echo "processor $(processor), $(nproc) hardware threads"
  [ -z "$gpu" ] || nvidia-smi
}
cuda_version() { "$nvcc" --version | sed -n 's/.*release .*, V\(.*\)/\1/p'; }
processor() { sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1; }
nccl_version() { sed -n 's/^-- lockstep: NCCL \([0-9.]*\).*/\1/p' "$results/configure.txt" 2> /dev/null; }

quoted() { printf '"%s"' "$(printf '%s' "$1" | tr -d '\000-\037' | sed 's/[\\"]/\\&/g')"; }
version() { [ -z "$2" ] || printf ', "%s": %s' "$1" "$(quoted "$2")"; }

# The stages as rows, with the context that every result has (docs/use/output.md).
json() {
  printf '{"context": {"machine": %s, "cores": %s, "compiler": %s, "build": "Release",\n' \
    "$(quoted "$(processor)")" "$(nproc)" "$(quoted "$($compiler --version | head -n 1)")"
  printf '  "versions": {"lockstep": %s' "$(quoted "$(sed -n 's/^project(lockstep VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt")")"
  version gpu "$gpu"
  version driver "$driver"
  version cuda "$(cuda_version)"
  version nccl "$(nccl_version)"
  printf '},\n  "commit": %s, "command": %s, "date": "%s"},\n "rows": [' \
    "$(quoted "$(cat "$source/commit.txt")")" "$(quoted "$command")" "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
  sed 's/[\\"]/\\&/g' "$log" | awk -F '\t' '{
    printf "%s\n  {\"check\": \"%s\", \"verdict\": \"%s\", \"seconds\": %s, \"cpu_seconds\": %s, \"samples\": 1, \"note\": \"%s\"}", \
      (NR > 1 ? "," : ""), $1, $2, $3, $4, $5}'
  printf ']}\n'
}

# columns GLOB NAME…: these columns of all CSV files of that name, whose fields hold no commas.
columns() {
  files=$results/$1
  shift
  for file in $files; do
    [ -f "$file" ] || continue
    awk -F, -v names="$*" 'NR == 1 {n = split(names, wanted, " "); for (i = 1; i <= NF; ++i) at[$i] = i; next}
      {line = ""; for (k = 1; k <= n; ++k) line = line sprintf("%s%s", k > 1 ? "," : "", (wanted[k] in at) ? $at[wanted[k]] : "");
       print line}' "$file"
  done
}
gpt_columns() { columns 'gpt_gpt2-*.csv' algorithm model tokens_per_second mfu fraction_of_matmul_rate flop_per_second; }
reduce_columns() { columns 'all_reduce_*.csv' algorithm ranks bytes seconds fraction_of_traffic_bound fraction_of_fused_bound; }
# pytorch_rate MODEL eager|compiled: its tokens a second.
pytorch_rate() { sed -n "s/^PyTorch [^,]*, $2, .* \([0-9][0-9]*\) tokens\/s.*/\1/p" "$results/pytorch_$1.txt" 2> /dev/null; }
findings() { # findings FILE: how many compute-sanitizer reports
  grep '^========= [A-Z]' "$1" | grep -c -v -E '^========= (COMPUTE-SANITIZER|[A-Z]+ SUMMARY|Target application|No |Error: ([^R]|R[^a]))'
}

# target WORDS EXPECTED MEASURED: a line; empty and missing numbers are dashes.
target() { printf '%-46s %9s %9s\n' "$1" "$2" "${3:-–}"; }
targets() {
  printf '\n%-46s %9s %9s\n' 'on an H200' expected measured
  target 'ring all-reduce, p = 4, 256 MiB, of its bound' '>= 80 %' \
    "$(reduce_columns | awk -F, '$1 == "ring" && $2 == 4 && $3 == 268435456 && $5 != "" {printf "%.1f %%", 100 * $5}')"
  target 'GPT-2 124M in bf16, model FLOP of the peak' '>= 45 %' \
    "$(gpt_columns | awk -F, '$1 == "step" && $2 == "gpt2-124m" && $4 != "" {printf "%.1f %%", 100 * $4}')"
  target 'its tokens/s over those of torch.compile' '>= 1.00' \
    "$(gpt_columns | awk -F, -v theirs="$(pytorch_rate gpt2-124m compiled)" '$1 == "step" && $2 == "gpt2-124m" && theirs > 0 {printf "%.2f", $3 / theirs}')"
  found=''
  for file in "$results"/*check_*.txt; do
    [ ! -f "$file" ] || found=$((${found:-0} + $(findings "$file")))
  done
  target "compute-sanitizer's findings" 0 "$found"
}

table() {
  printf '%s on %s\n\n%-24s %-8s %6s %6s  %s\n' "Lockstep $(cat "$source/commit.txt")" "${gpu:-no GPU}" stage verdict s 'CPU s' ''
  awk -F '\t' '{printf "%-24s %-8s %6d %6.0f  %s\n", $1, $2, $3, $4, $5}' "$log"
  [ -z "$gpu" ] || targets
  if [ -n "$(gpt_columns)" ]; then
    printf '\n%-20s %10s %8s %7s %10s\n' 'a GPT step, bf16' tokens/s TFLOP/s MFU 'of matmul'
    gpt_columns | awk -F, '$1 == "step" {printf "%-20s %10.0f %8.1f %6.1f%% %9.1f%%\n", $2, $3, $6 / 1e12, 100 * $4, 100 * $5}
      $1 == "matmul" {printf "%-20s %10s %8.1f %6.1f%%\n", "  a product beside it", "", $6 / 1e12, 100 * $4}'
    for who in ours cudnn; do
      columns attention_$who.csv algorithm tokens_per_second flop_per_second mfu |
        awk -F, -v who=$who '$1 == "step" {printf "%-20s %10.0f %8.1f %6.1f%%  gpt2-124m\n", "attention: " who, $2, $3 / 1e12, 100 * $4}'
    done
    for model in gpt2-124m gpt2-355m; do
      for how in eager compiled; do
        rate=$(pytorch_rate $model $how)
        [ -z "$rate" ] || printf '%-20s %10.0f  PyTorch, %s\n' "  $model" "$rate" $how
      done
    done
  fi
  [ ! -f "$results/gpt_gpt2-124m.txt" ] || sed -n '/^operations of a step/,/^  *median/{/^  *median/!p}' "$results/gpt_gpt2-124m.txt" | sed '1s/^/\n/'
  if [ -n "$(reduce_columns)" ]; then
    printf '\n%-20s %5s %10s %10s %9s %9s\n' all-reduce ranks bytes ms 'of bound' '(fused)'
    reduce_columns | sort -t, -k2n -k3n -s | awk -F, '{printf "%-20s %5d %10d %10.3f %8.1f%% %8.1f%%\n", $1, $2, $3, 1e3 * $4, 100 * $5, 100 * $6}'
  fi
}

# The folder as docs/results/ takes it: HARDWARE-DATE; nothing larger than a megabyte.
pack_results() {
  folder=$(printf '%s' "${gpu:-no-gpu}" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9-')-$(date -u +%Y-%m-%d)
  work=$(mktemp -d) || return 0
  mkdir "$work/$folder"
  find "$results" -maxdepth 1 -type f -size -1024k ! -name 'stages.tsv*' -exec cp {} "$work/$folder/" \;
  mkdir -p "$(dirname "$archive")"
  tar -C "$work" -czf "$archive.part" "$folder" && mv "$archive.part" "$archive"
  rm -rf "$work"
}

# The table on the terminal, and what another call would do.
finish() {
  echo
  cat "$results/table.txt"
  echo
  if [ -n "$left_over" ]; then echo "the time is over; go on with: sh gpu-check.sh --stages $(echo "${left_over# }" | tr ' ' ',')"; fi
  echo "results: $results, and as one file: $archive"
  exit "$failed"
}
