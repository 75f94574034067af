#!/bin/bash
# Runs a recipe of docs/cluster.md as it stands there; its tables must equal those of one run.
#   tests/recipes/run.sh parallel|snakemake build/turnbench docs/cluster.md
set -u
recipe=$1
program=$(realpath "$2")
document=$(realpath "$3")
fail() {
  echo "failed: $*"
  exit 1
}
if ! command -v "$recipe" > /dev/null; then
  echo "skipped: no $recipe"
  exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
# Extracts the block with a title.
block() {
  awk -v begin="title=$1\$" '/^```/ { if (on) exit; if ($0 ~ begin) { on = 1; next } } on' \
    "$document" > "$1"
  [ -s "$1" ] || fail "docs/cluster.md has no $1"
}
cat > my.json << 'END'
{"name": "my", "models": ["tiny"], "datasets": [{"name": "tiny-fact", "limit": 5, "length": 250}],
 "positions": ["begin", "end"], "methods": ["full", "snapkv:budget=40,window=8"],
 "max_new_tokens": 4, "tables": [{"rows": ["method"], "columns": ["position"]}]}
END
# The third shard is stopped when it runs for the first time.
mkdir bin
cat > bin/turnbench << END
#!/bin/bash
if [[ "\$*" == *"--shard 3/8"* ]] && [ ! -e stopped ]; then
  touch stopped
  exit 75
fi
exec "$program" "\$@"
END
chmod +x bin/turnbench
PATH=$work/bin:$PATH

case $recipe in
  parallel)
    block parallel.sh
    bash -eu parallel.sh || fail "exit code $?"
    ;;
  snakemake)
    block Snakefile
    HOME=$work snakemake --cores 2 > log 2>&1 || { cat log; fail "exit code $?"; }
    ;;
esac
[ -e stopped ] || fail "no shard was stopped"
"$program" run my.json --db want.db --quiet > /dev/null
"$program" diff want.db results.db --exit-code || fail "the results differ"
"$program" report want.db --format md -o want.md
cmp want.md tables.md || fail "the tables differ"
echo passed
