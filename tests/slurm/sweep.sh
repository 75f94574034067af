#!/bin/bash
# A sweep on a real Slurm, on loopback: eight shards in two arrays.  The program of one task is
# killed, and one task is requeued.  The merged store must equal that of a single run.
#   tests/slurm/sweep.sh build/turnbench
set -u
program=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
. "$here/cluster.sh"
. "$here/hold.sh"
reason=$(cluster_missing)
if [ -n "$reason" ]; then
  echo "skipped: $reason"
  exit 0
fi

work=$(mktemp -d)
chmod 755 "$work"
cluster=$work/cluster
finish() {
  code=$?
  cluster_stop
  if [ "$code" -ne 0 ] && [ -d "${dir:-}/logs" ]; then tail -n 40 "$dir"/logs/* "$cluster"/log/*; fi
  rm -rf "$work"
}
trap finish EXIT
fail() {
  echo "failed: $*"
  exit 1
}

mkdir "$cluster" "$work/local"
export TMPDIR=$work/local
dir="$work/a sweep's \$folder"
cat > "$work/eight shards.json" << 'END'
{"name": "shards", "models": ["tiny"],
 "datasets": [{"name": "tiny-fact", "limit": 16, "length": 900},
              {"name": "tiny-list", "limit": 16, "length": 900}],
 "positions": ["begin", "end"], "max_new_tokens": 24,
 "methods": ["full", "snapkv:budget=64", "oracle:budget=64,sinks=4"],
 "tables": [{"rows": ["method"], "columns": ["position"]}]}
END
cd "$work" || exit 1
if ! cluster_start "$cluster"; then
  tail -n 20 "$cluster"/log/*
  echo "skipped: the daemons of Slurm do not start on this machine"
  exit 0
fi

"$program" slurm "eight shards.json" --shards 8 --dir "$dir" --max-parallel 2 --time 10 \
  --cpus-per-task 1 --extra "--comment='a test' --nice=1" --threads 1 --copy-every 1 ||
  fail "slurm: exit code $?"
[ "$(wc -l < "$dir/submissions.jsonl")" -eq 1 ] || fail "found no submission"

killed=$dir/shards/shard-00001 requeued=$dir/shards/shard-00002
hold "$killed" || fail "shard 1 does not run"
killed_pid=$pid
hold "$requeued" || fail "shard 2 does not run"
step_to_results "$program" "$killed_pid" "$killed" || fail "shard 1 ended too early"
kill -KILL "$killed_pid"
step_to_results "$program" "$pid" "$requeued" || fail "shard 2 ended too early"
scontrol requeue "$job" || fail "job $job cannot be requeued"
release_with_signal "$pid"
"$program" status "$dir"
[ $? -eq 1 ] || fail "status of an unfinished sweep"

for _ in $(seq 1800); do
  [ -n "$(squeue --noheader)" ] || break
  sleep 0.25
done
[ -z "$(squeue --noheader)" ] || fail "jobs are still in the queue"
cat "$dir"/logs/*

grep -q "exit code 137" "$dir"/logs/* || fail "no program was killed"
# Its units may all have been running: then it ends them and exits with 0 instead of 75.
grep -q "turnbench: stopping" "$dir"/logs/* || fail "no program was stopped"
[ "$(grep -l "continues with [1-9]" "$dir"/logs/* | wc -l)" -ge 2 ] ||
  fail "no task continued a store"
[ "$(wc -l < "$dir/submissions.jsonl")" -eq 2 ] || fail "shard 1 was not submitted again"
"$program" status "$dir" || fail "the sweep is not done"
[ -z "$(ls "$work/local")" ] || fail "files are left on the local disk"

"$program" run "eight shards.json" --db want.db --quiet > /dev/null || fail "run: exit code $?"
"$program" diff want.db "$dir/results.db" --exit-code || fail "the results differ"
for format in md csv json; do
  "$program" report want.db --format $format > want.$format
  "$program" report "$dir/results.db" --format $format > got.$format
  cmp want.$format got.$format || fail "the tables differ"
done
echo "passed"
