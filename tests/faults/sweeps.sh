# The sweeps, their runs, and the comparison with undisturbed runs.

cat > "$work/sweep.json" << 'END'
{"name": "sweep", "models": ["tiny"],
 "datasets": [{"name": "tiny-fact", "limit": 6, "length": 250},
              {"name": "tiny-list", "limit": 4, "length": 240}],
 "positions": ["begin", "end"], "max_new_tokens": 6,
 "methods": ["full", "snapkv:budget=40,window=8"], "probes": ["token-overlap"],
 "tables": [{"rows": ["method"], "columns": ["position"]}]}
END
# A worker has one unit, or one and the next.
cat > "$work/isolated.json" << 'END'
{"name": "isolated", "models": ["tiny"], "isolated": true,
 "datasets": [{"name": "tiny-fact", "limit": 3, "length": 200}],
 "methods": ["full", "snapkv:budget=40,window=8", "h2o:budget=64", "quest:budget=64"],
 "max_new_tokens": 40}
END
formats=(md csv json)
declare -A passed=([kills]=0 [aborts]=0 [hangs]=0 [pairs]=0 [disks]=0 [limits]=0 [read_only]=0)

fail() {
  echo "failed: $*"
  [ ! -d "${dir:-}" ] || tail -n 20 "$dir"/*.err "$dir"/*.out
  exit 1
}

# Runs rounds until the given number of them has counted.
repeat() {  # $1: number, $2: name of the count, $3...: command of a round
  local tried=0
  while ((passed[$2] < $1)); do
    ((++tried <= 20 + 5 * $1)) || fail "only ${passed[$2]} of $tried rounds of $2 had a fault"
    "${@:3}"
  done
}

# Counts a round.
count() {  # $1: name of the count, $2: what happened
  ((++passed[$1]))
  echo "$1 ${passed[$1]}: $2"
}

random() {  # sets REPLY to a number below $1
  REPLY=$(((RANDOM * 32768 + RANDOM) % $1))
}

pause() {  # for a random time of at most $1 ms
  random "$1"
  sleep "$((REPLY / 1000)).$(printf %03d $((REPLY % 1000)))"
}

# Sets dir, the folder of a round, and db, which is alone in its folder.
new_store() {
  dir=$(mktemp -d "$work/round.XXXXXX")
  mkdir "$dir/store"
  db=$dir/store/got.db
  kept=0
}

# Starts the program in the background, in a session of its own.  Sets pid.
limit=unlimited # size of its files, KiB
start() {  # $1: name of its outputs, $2...: arguments
  (
    ulimit -S -f "$limit"
    exec setsid "$program" "${@:2}" > "$dir/$1.out" 2> "$dir/$1.err"
  ) &
  pid=$!
  started[$pid]=1
}

processes_of() {  # $1: session
  cat /proc/[0-9]*/stat 2> /dev/null |
    awk -v session="$1" '{ pid = $1; sub(/.*\) /, "") } $4 == session && $1 != "Z" { print pid }'
}

# Waits for the end of a run, and of all its processes.  Sets code.  (Bash reports killed processes on
# stderr.)
end() {  # $1: its process
  local i
  for ((i = 0; i < 12000; ++i)); do
    kill -0 "$1" || break
    sleep 0.05
  done
  ((i < 12000)) || fail "a run has not ended after 10 minutes"
  wait "$1"
  code=$?
  unset "started[$1]"
  for ((i = 0; i < 100; ++i)); do
    [ -n "$(processes_of "$1")" ] || return
    sleep 0.05
  done
  fail "processes have not ended with their parent: $(processes_of "$1")"
} 2> /dev/null

# A run has failed with one line, which contains a text.
check_message() {  # $1: name of its outputs, $2: text
  [ "$code" -eq 1 ] || fail "exit code $code, expected 1"
  [ "$(wc -l < "$dir/$1.err")" -eq 1 ] || fail "expected one line"
  grep -q "$2" "$dir/$1.err" || fail "expected a message with: $2"
}

# Runs the program, which must succeed.
check() {
  "$program" "$@" > "$dir/check.out" 2> "$dir/check.err" || fail "$*: exit code $?"
}

# The state of the store: sets kept, the dialogues with results, which do not become fewer.
check_kept() {
  local before=$kept
  kept=0
  if [ -e "$db" ]; then
    "$program" status "$db" > "$dir/status.out" 2> "$dir/status.err"
    [ $? -le 1 ] || fail "the store cannot be read"
    kept=$(sed -n 's/^[a-z]*: \([0-9]*\) dialogues done.*/\1/p' "$dir/status.out")
    kept=${kept:-0}
  fi
  ((kept >= before)) || fail "the results of $kept dialogues are left, of $before"
}

check_alone() {
  [ "$(ls -A "$dir/store")" = got.db ] || fail "found $(ls -A "$dir/store"), expected got.db alone"
}

# The store equals that of an undisturbed run.  Deletes it.
check_equal() {  # $1: name of the sweep
  local format
  check_alone
  check doctor "$db"
  check diff "$work/want/$1.db" "$db" --exit-code
  for format in "${formats[@]}"; do
    check report "$db" --format "$format"
    cmp "$work/want/$1.$format" "$dir/check.out" || fail "the report in $format differs"
  done
  check_alone
  ! mountpoint -q "$dir/store" || umount "$dir/store"
  rm -r "$dir"
}

# Runs the sweeps undisturbed.  Sets their duration (ms).
declare -A duration
make_wanted() {
  local name format from
  mkdir "$work/want"
  dir=$work/want
  for name in sweep isolated; do
    from=${EPOCHREALTIME/./}
    check run "$work/$name.json" --db "$work/want/$name.db" --workers 2
    duration[$name]=$(((${EPOCHREALTIME/./} - from) / 1000))
    for format in "${formats[@]}"; do
      check report "$work/want/$name.db" --format "$format"
      mv "$dir/check.out" "$work/want/$name.$format"
    done
    echo "undisturbed $name: ${duration[$name]} ms"
  done
}
