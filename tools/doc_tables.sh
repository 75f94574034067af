#!/bin/sh
# Writes the tables of the documents from the experiments that they refer to:
#   tools/doc_tables.sh [--check] [--no-run] [--program FILE] [--store FILE] [--data NAME=DIR]...
#                       [MANIFEST...]
# The tables of an experiment come from its recorded results, experiments/results/NAME.db.zst.  Without
# them, or with --store, its manifest is run; runs use build/doc-tables.db, which keeps its results.
# Without manifests, writes all tables whose results, or whose models and files, exist.  --check
# changes nothing and fails if a printed table differs.  --no-run skips what would be run.
#
# A table is between two comments of a document:
#   <!-- table: MANIFEST [options of run] | PART; PART... -->
#   <!-- end of table -->
# "--data NAME" among the options takes NAME=DIR from the command line.  PART is "N", all columns of
# the manifest's Nth table, or "N STYLE: COLUMN, COLUMN=NEW NAME, ...".  STYLE: full (as reported),
# plain (without differences), means (also without intervals).  If another manifest's file precedes
# N, that manifest's table is used.  Parts are joined by their first column, in the order of the
# first part's rows.  "rows REGEX" as the last part keeps the rows whose first column matches.  The line
# that names the settings which the labels of the first table leave out is written below the table.
#   <!-- figure: MANIFEST [options of run] | FILE.svg [options of report] -->
# writes a chart of the manifest to a file.
set -eu
cd "$(dirname "$0")/.."
program=build/turnbench
store=build/doc-tables.db
recorded=true
runs=true
check=false
data=" "
while [ $# -gt 0 ]; do
  case $1 in
    --check) check=true ;;
    --no-run) runs=false ;;
    --program) program=$2; shift ;;
    --store) store=$2; recorded=false; shift ;;
    --data) data="$data$2 "; shift ;;
    --*) echo "tools/doc_tables.sh: found $1, expected --check, --no-run, --program, --store, --data or manifests" >&2; exit 2 ;;
    *) break ;;
  esac
  shift
done
wanted=" $* "
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

experiment_of() {
  sed -n 's/^ *"name": *"\([^"]*\)",*$/\1/p' "$1" | head -n 1
}

# results_of MANIFEST: the store of an experiment's results.
results_of() {
  file=experiments/results/$(experiment_of "$1").db.zst
  if $recorded && [ -f "$file" ]; then echo "$file"; else echo "$store"; fi
}

# report_of RUN: runs a manifest without recorded results, and prints the file of its Markdown report.
report_of() {
  manifest=${1%% *}
  name=$(experiment_of "$manifest")
  if [ ! -f "$work/$name.md" ]; then
    results=$(results_of "$manifest")
    # shellcheck disable=SC2086
    [ "$results" != "$store" ] || "$program" run $1 --db "$store" --quiet > /dev/null || return 1
    "$program" report "$results" --experiment "$name" --format md > "$work/$name.md"
  fi
  echo "$work/$name.md"
}

# table_of PARTS REPORT...: one Markdown table.  Parts of other manifests begin with @ and the
# number of their report.
table_of() {
  parts=$1
  shift
  awk -v parts="$parts" '
    function trimmed(text) { gsub(/^ +| +$/, "", text); return text }
    function styled(cell, style) {
      if (style != "full") sub(/ \([^()]*\)$/, "", cell)
      if (style == "means") sub(/ \[.*\]$/, "", cell)
      return cell
    }
    function print_wrapped(text,    n, i, word, line) {
      n = split(text, word, " ")
      print ""
      for (i = 1; i <= n; ++i) {
        if (length(line " " word[i]) > 120) { print line; line = "" }
        line = line == "" ? word[i] : line " " word[i]
      }
      print line
    }
    FNR == 1 { ++file; number = 0; inside = 0 }
    /^\|/ {
      if (!inside) { table = file "." (++number); rows = 0 }
      inside = 1
      line = $0
      gsub(/\\\|/, "\001", line)  # a bar within a cell
      n = split(line, cell, "|")
      ++rows
      if (rows != 2) {
        r = rows == 1 ? 0 : rows - 2
        for (i = 2; i < n; ++i) {
          text = trimmed(cell[i])
          gsub("\001", "\\|", text)
          at[table, r, i - 1] = text
        }
        width[table] = n - 2
        height[table] = r
      }
      next
    }
    /^Not shown in labels: / && table in width { left_out[table] = $0 }
    { inside = 0 }
    END {
      count = split(parts, part, ";")
      columns = 0
      for (p = 1; p <= count; ++p) {
        text = trimmed(part[p])
        if (sub(/^rows /, "", text)) { keep = text; continue }
        place = 1
        if (sub(/^@/, "", text)) { place = text + 0; sub(/^[0-9]+ */, "", text) }
        t = place "." (text + 0)
        if (!(t in width)) { print "found no table " text + 0 > "/dev/stderr"; exit 1 }
        if (p == 1) first = t
        style = "full"
        colon = index(text, ":")
        if (colon == 0) {
          for (i = 1; i <= width[t]; ++i) {
            if (i == 1 && p > 1) continue
            ++columns
            from[columns] = t; column[columns] = i; how[columns] = style; name[columns] = at[t, 0, i]
          }
          continue
        }
        split(substr(text, 1, colon - 1), words, " ")
        if (words[2] != "") style = words[2]
        wanted = split(substr(text, colon + 1), list, ",")
        for (w = 1; w <= wanted; ++w) {
          title = trimmed(list[w])
          equals = index(title, "=")
          label = equals ? trimmed(substr(title, equals + 1)) : title
          if (equals) title = trimmed(substr(title, 1, equals - 1))
          found = 0
          for (i = 1; i <= width[t]; ++i) if (at[t, 0, i] == title) found = i
          if (!found) { print "table " t ": found no column \"" title "\"" > "/dev/stderr"; exit 1 }
          ++columns
          from[columns] = t; column[columns] = found; how[columns] = style; name[columns] = label
        }
      }
      line = "|"; rule = "|"
      for (c = 1; c <= columns; ++c) { line = line " " name[c] " |"; rule = rule (c == 1 ? " --- |" : " ---: |") }
      print line
      print rule
      for (r = 1; r <= height[first]; ++r) {
        if (keep != "" && at[first, r, 1] !~ keep) continue
        line = "|"
        for (c = 1; c <= columns; ++c) {
          t = from[c]; row = t == first ? r : 0  # repeated labels of rows are blank
          for (k = 1; row == 0 && k <= height[t]; ++k) if (at[t, k, 1] == at[first, r, 1]) row = k
          line = line " " (row ? styled(at[t, row, column[c]], how[c]) : "") " |"
        }
        print line
      }
      if (first in left_out) print_wrapped(left_out[first])
    }' "$@"
}

differences=0
# replace FILE NEW: replaces the file; with --check, prints the differences.
replace() {
  cmp -s "$1" "$2" && return
  if $check; then
    diff -u "$1" "$2" >&2 || true
    echo "$1: found a table that the current build does not print; tools/doc_tables.sh writes it" >&2
    differences=1
  else
    cp "$2" "$1"
    echo "$1: written"
  fi
}

# can_report MANIFEST: true if the manifest has recorded results, or can be run.
can_report() {
  [ "$(results_of "$1")" = "$store" ] || return 0
  $runs || return 1
  if grep -q '"smollm2"' "$1" && [ ! -d models/smollm2 ]; then
    echo "$1: skipped, make smollm2 makes its model" >&2
    return 1
  fi
  if grep -q 'smollm2/retrieval_head' "$1" && [ ! -d models/smollm2/retrieval_head ]; then
    echo "$1: skipped, make retrieval-head makes its head" >&2
    return 1
  fi
}
asked() {  # MANIFEST: true if its tables are requested and can be made
  case $wanted in "  " | *" $1 "*) can_report "$1" ;; *) return 1 ;; esac
}

for document in README.md docs/*.md experiments/*.md experiments/*/README.md; do
  grep -q '^<!-- \(table\|figure\): ' "$document" || continue
  number=0
  grep '^<!-- \(table\|figure\): ' "$document" > "$work/markers"
  : > "$work/list"
  while IFS= read -r marker; do
    number=$((number + 1))
    text=${marker#<!-- }
    text=${text% -->}
    kind=${text%%:*}
    text=${text#*: }
    run=${text%% |*}
    parts=${text#*| }
    asked "${run%% *}" || continue
    [ "$(results_of "${run%% *}")" = "$store" ] || run=${run%% *}
    case $run in
      *"--data "*)
        wanted_data=${run#*--data }
        wanted_data=${wanted_data%% *}
        case $data in
          *" $wanted_data="*)
            folder=${data#* "$wanted_data"=}
            run="${run%%--data *}--data $wanted_data=${folder%% *}"
            ;;
          *)
            echo "$document: skipped the tables of $run: needs --data $wanted_data=DIR" >&2
            continue
            ;;
        esac
        ;;
    esac
    report=$(report_of "$run") || { echo "$document: $run did not run" >&2; exit 1; }
    if [ "$kind" = figure ]; then
      options=${parts#"${parts%% *}"}
      # shellcheck disable=SC2086
      "$program" report "$(results_of "${run%% *}")" --experiment "$(experiment_of "${run%% *}")" --format svg $options > "$work/figure.svg"
      replace "${parts%% *}" "$work/figure.svg"
    else
      set -- "$report"
      for word in $parts; do
        case $word in
          *.json)
            can_report "$word" || continue 2
            set -- "$@" "$(report_of "$word")" || exit 1
            parts=$(echo "$parts" | sed "s|$word|@$#|")
            ;;
        esac
      done
      table_of "$parts" "$@" > "$work/table.$number" || { echo "$document: $marker" >&2; exit 1; }
      echo "$number" >> "$work/list"
    fi
  done < "$work/markers"
  awk -v work="$work" '
    BEGIN { while ((getline n < (work "/list")) > 0) fresh[n] = 1 }
    /^<!-- (table|figure): / {
      ++number
      print
      if (number in fresh) {
        file = work "/table." number
        while ((getline line < file) > 0) print line
        close(file)
        skipping = 1
      }
      next
    }
    /^<!-- end of table -->/ { skipping = 0 }
    !skipping { print }' "$document" > "$work/document"
  replace "$document" "$work/document"
done
exit $differences
