#!/bin/sh
# How long a report of 2,000 cells of 500 dialogues takes, with intervals and the p of 1,996
# differences: three times in each format, after the file has been read once.
#   tests/bench/report.sh [build/turnbench [cells [dialogues [turns]]]]
set -eu
program=${1:-build/turnbench}
[ $# -gt 0 ] && shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(dirname "$program")/tests/bench/turnbench_large_store" "$folder/large.db" "$@"
cat "$folder/large.db" > /dev/null
for format in md csv json html; do
  for _ in 1 2 3; do
    begin=$(date +%s.%N)
    "$program" report "$folder/large.db" --format "$format" > "$folder/out"
    end=$(date +%s.%N)
    echo "report --format $format: $(awk "BEGIN { printf \"%.2f\", $end - $begin }") s"
  done
done
