#!/bin/sh
# The last step of "Add a method in 30 minutes": run.sh PROGRAM DIRECTORY
set -eu
program=$1
cd "$2"
rm -f evenly.db*
expect() { grep -q -- "$1" output || { echo "found no \"$1\" in:"; cat output; exit 1; }; }

"$program" list methods > output
expect '^evenly .*keeps tokens at even distances'
"$program" describe method evenly > output
expect 'budget'
"$program" list methods > output
expect "^block-mean .*mean keys"
"$program" describe method adakv > output
expect ' scorer .*key-norm|snapkv'
"$program" run experiments/evenly.json --db evenly.db --quiet > output
expect '^| evenly | .* | 64 |'
