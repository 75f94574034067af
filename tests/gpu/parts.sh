# Parts of a run: each is a process with a separate time limit, whose result is stored at once.
# Sourced by tests/gpu.sh.
# shellcheck shell=sh

# begin COMMAND LIMIT [FOLDER]: limits the parts to LIMIT seconds in total and writes table.txt,
# results.json and log.txt to FOLDER.
begin() {
  started=$(date +%s) limit=$2
  what=$1
  results=${3:-${OUT:-build-gpu/results}/$1}
  work=build-gpu/$1
  rm -rf "$work"
  mkdir -p "$work" "$results" || exit 1
  table=$results/table.txt log=$results/log.txt
  facts=$work/facts parts=$work/parts measures=$work/measures
  for file in "$table" "$log" "$facts" "$parts" "$measures"; do : > "$file"; done
  numbered=0
}

elapsed() { echo $(($(date +%s) - started)); }

# The text as a JSON string.
quoted() {
  printf '"%s"' "$(printf '%s' "$1" | tr '\n\t' '  ' | tr -d '\000-\037' | sed 's/\\/\\\\/g; s/"/\\"/g')"
}

# say TEXT: a line of the table.
say() { printf '%s\n' "$1" | tee -a "$table"; }

# fact NAME VALUE: a line of the table and of results.json.
fact() {
  say "$(printf '%-34s %s' "$1" "$2")"
  echo "$(quoted "$1"): $(quoted "$2")" >> "$facts"
}

# True if a part has failed so far.
failed() { grep -qv '"state": "ok"' "$parts"; }

list() { paste -sd, "$1"; }  # joins lines to a JSON list

# Writes results.json with all results so far.
keep() {
  if failed; then ok=false; else ok=true; fi
  {
    echo "{\"command\": \"$what\", \"seconds\": $(elapsed), \"ok\": $ok,"
    echo " \"facts\": {$(list "$facts")},"
    echo " \"parts\": [$(list "$parts")],"
    echo " \"measures\": [$(list "$measures")]}"
  } > "$work/results.json"
  cp "$work/results.json" "$results/.results.json"
  mv "$results/.results.json" "$results/results.json"  # the file is complete at any time
}

# part NAME SECONDS COMMAND...: runs COMMAND for at most SECONDS, within the total limit.  Several
# parts may run in parallel, each in a subshell.  Afterwards, $output is the file of the output.
part() {
  name=$1 seconds=$2 begun=$(elapsed)
  shift 2
  [ "$seconds" -lt $((limit - begun)) ] || seconds=$((limit - begun))
  numbered=$((numbered + 1))
  output=$work/output.$numbered
  : > "$output"
  if [ "$seconds" -le 0 ]; then
    state="no time left"
  else
    timeout --kill-after=5 "$seconds" "$@" > "$output" 2>&1
    case $? in
      0) state=ok ;;
      3) state="below target" ;;
      124 | 137) state="stopped after $seconds s" ;;
      *) state=failed ;;
    esac
  fi
  took=$(($(elapsed) - begun))
  until mkdir "$work/lock" 2> /dev/null; do sleep 0.1; done
  { echo "==== $name: $state"; tail -n 1000 "$output"; } >> "$log"
  say "$(printf '%-62s %25s  %s s' "$name" "$state" "$took")"
  echo "{\"part\": $(quoted "$name"), \"state\": \"$state\", \"seconds\": $took}" >> "$parts"
  keep
  rmdir "$work/lock"
  [ "$state" = ok ]
}

# Ends the run: exit code 1 if a part has failed.
finish() {
  keep
  echo "Table, JSON and log: $results"
  if failed; then exit 1; fi
  exit 0
}
