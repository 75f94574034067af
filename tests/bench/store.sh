#!/bin/sh
# A store of 1,000 cells, 200 dialogues and 5 turns, which are 1,000,000 records with 3,000,000 scores,
# 6,000,000 counters and 2,000,000 timings: its size, how long a report, the status and a run with
# nothing to do take to read it, and how long eight shards of it take to merge.
#   tests/bench/store.sh [build/turnbench [cells [dialogues [turns]]]]
set -eu
program=${1:-build/turnbench}
[ $# -gt 0 ] && shift
cells=${1:-1000} dialogues=${2:-200} turns=${3:-5} shards=8
large=$(dirname "$program")/tests/bench/turnbench_large_store
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Prints the seconds that a command takes.
timed() {
  what=$1
  shift
  begin=$(date +%s.%N)
  "$@" > "$folder/out"
  end=$(date +%s.%N)
  echo "$what: $(awk "BEGIN { printf \"%.2f\", $end - $begin }") s"
}

timed write "$large" "$folder/large.db" "$cells" "$dialogues" "$turns"
echo "size: $(($(stat -c %s "$folder/large.db") / 1000000)) MB"
cat "$folder/large.db" > /dev/null
for _ in 1 2 3; do
  timed report "$program" report "$folder/large.db"
  timed status "$program" status "$folder/large.db"
  "$large" --scan "$folder/large.db"
done
shard=1
while [ $shard -le $shards ]; do
  "$large" "$folder/shard-$shard.db" "$cells" "$dialogues" "$turns" $shard $shards
  shard=$((shard + 1))
done
timed "merge of $shards shards" "$program" merge "$folder/merged.db" "$folder"/shard-*.db
"$program" report "$folder/large.db" > "$folder/large.md"
"$program" report "$folder/merged.db" > "$folder/merged.md"
cmp "$folder/large.md" "$folder/merged.md"
