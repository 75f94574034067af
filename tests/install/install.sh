#!/bin/bash
# The installed program: complete, without its sources, with its manual page and completions.
#   tests/install/install.sh cmake BUILD SOURCE
set -u
cmake=$1 build=$2 source=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix="$work/the prefix"
fail() {
  echo "failed: $*"
  exit 1
}

"$cmake" --install "$build" --prefix "$prefix" > "$work/log" || fail "$(cat "$work/log")"
for file in bin/turnbench share/turnbench/experiments/quickstart.json \
  share/turnbench/judges/rubrics share/man/man1/turnbench.1 share/doc/turnbench/docs/store.md \
  share/bash-completion/completions/turnbench share/zsh/site-functions/_turnbench; do
  [ -e "$prefix/$file" ] || fail "$file is not installed"
done

# The sources are hidden where the system lets us, so that nothing of them can be used.
cat > "$work/use.sh" << 'END'
set -eu
cd "$1"
program="$2/bin/turnbench"
"$program" --version > /dev/null
"$program" list experiments | grep -q "/share/turnbench/experiments/quickstart.json)" ||
  { echo "experiments are not found"; exit 1; }
"$program" list rubrics | grep -q . || { echo "rubrics are not found"; exit 1; }
"$program" plan experiments/quickstart.json --no-measure > /dev/null
"$program" run experiments/quickstart.json --limit 1 --db a.db --quiet | grep -q '^| full'
echo used
END
mkdir "$work/elsewhere"
if unshare --mount true 2> /dev/null; then
  out=$(unshare --mount bash -c 'mount -t tmpfs none "$4" && [ -z "$(ls "$4")" ] &&
    bash "$1" "$2" "$3"' bash "$work/use.sh" "$work/elsewhere" "$prefix" "$source")
else
  grep -qF "$source" "$prefix/bin/turnbench" && fail "the program contains the path of its sources"
  out=$(bash "$work/use.sh" "$work/elsewhere" "$prefix")
fi
[ "$out" = used ] || fail "$out"

# The manual page names every command and passes the checks of mandoc.
page="$prefix/share/man/man1/turnbench.1"
"$prefix/bin/turnbench" --help |
  sed -n '/^Subcommands:/,/^[A-Z].*:$/s/^  \([a-z-]*\) .*/\1/p' > "$work/commands"
[ "$(wc -l < "$work/commands")" -gt 20 ] || fail "--help lists $(wc -l < "$work/commands") commands"
while read -r command; do
  grep -qF ".SS ${command//-/\\-}" "$page" || fail "the manual page lacks $command"
done < "$work/commands"
if command -v mandoc > /dev/null; then
  mandoc -T lint -W warning "$page" | grep -v "missing date" && fail "mandoc has warnings"
fi
if command -v man > /dev/null; then
  MANWIDTH=100 man --warnings -l "$page" 2> "$work/man.err" | grep -q "turnbench run experiments" ||
    fail "man"
  [ -s "$work/man.err" ] && { cat "$work/man.err"; fail "man has warnings"; }
fi

# Completion in bash: of commands, options, values, and commands of commands.
complete_words() {  # words before the cursor; prints what follows
  bash -c '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _turnbench
    printf "%s\n" "${COMPREPLY[@]}"' bash "$prefix/share/bash-completion/completions/turnbench" "$@"
}
expect_word() {  # a word, and the words before it
  complete_words "${@:2}" | grep -qxF -- "$1" || fail "${*:2}: no completion $1"
}
expect_word report turnbench re
expect_word --shard turnbench run a.json --sh
expect_word json turnbench diff a.db b.db --format ""
expect_word datasets turnbench list d
expect_word pqcache turnbench method ""
expect_word fit-costs turnbench method pqcache fit
[ -z "$(complete_words turnbench run a.js)" ] || fail "a file is completed as a word"
if command -v zsh > /dev/null; then
  zsh -n "$prefix/share/zsh/site-functions/_turnbench" || fail "zsh"
fi
echo passed
