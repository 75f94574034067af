// Tables: sorting, filters, and fixed labels.

const collator = new Intl.Collator("en", {numeric: true});

function element(name, properties = {}, ...children) {
  const out = Object.assign(document.createElement(name), properties);
  out.append(...children);
  return out;
}

function labelled(text, control) {
  return element("label", {className: "control"}, `${text} `, control);
}

function choice(options, change) {
  const select = element("select");
  for (const [value, text] of options) select.append(element("option", {value}, text));
  select.addEventListener("change", change);
  return select;
}

// The words of a filter; a text matches if it contains all of them.
function wordsOf(filter) {
  return filter.toLowerCase().split(/\s+/).filter(Boolean);
}

function matches(text, words) {
  const lower = text.toLowerCase();
  return words.every((word) => lower.includes(word));
}

// The cells of rows with the columns that they cover, from which spans have taken the others.
function placedCells(rows) {
  const taken = [];
  return [...rows].map((row, r) => {
    let column = 0;
    return [...row.cells].map((cell) => {
      while (taken[r]?.[column]) column++;
      const placed = {cell, from: column, to: column + cell.colSpan};
      for (let down = 0; down < cell.rowSpan; down++) {
        for (let c = placed.from; c < placed.to; c++) (taken[r + down] ??= [])[c] = true;
      }
      column = placed.to;
      return placed;
    });
  });
}

// The number of a cell, or its text; null if it is empty or has no mean.
function sortKey(cell) {
  const data = cell.querySelector("data");
  if (data) return Number(data.value);
  return cell.matches(".label") ? cell.textContent : null;
}

function compareKeys(a, b, direction) {
  if (a === null || b === null) return (a === null) - (b === null);
  const order = typeof a === "number" && typeof b === "number" ? a - b
                                                               : collator.compare(a, b);
  return direction * order;
}

// A table that can be sorted by the heads of its columns, and whose rows and columns can be hidden.
class Table {
  constructor(table) {
    this.table = table;
    this.body = table.tBodies[0];
    this.rows = [...this.body.rows];
    this.heads = placedCells(table.tHead.rows).flat();
    this.columns = Math.max(...this.heads.map((head) => head.to));
    this.labels = table.tHead.querySelectorAll("th.label").length;
    this.divideLabels();
    for (const {cell} of this.heads.filter((head) => head.cell.scope === "colgroup"))
      cell.replaceChildren(element("span", {className: "stuck"}, ...cell.childNodes));
    for (const head of this.heads) {
      if (head.to - head.from > 1 || head.cell.scope === "colgroup") continue;
      const button = element("button", {type: "button", className: "sort"});
      button.append(...head.cell.childNodes);
      head.cell.append(button);
      button.addEventListener("click", () => this.sortBy(head));
    }
  }

  // Gives every row all of its labels, so that rows can be sorted and hidden.
  divideLabels() {
    const above = [];
    for (const row of this.rows) {
      for (let column = 0; column < this.labels; column++) {
        const label = above[column];
        if (label?.left > 0) {
          row.insertBefore(label.cell.cloneNode(true), row.cells[column] ?? null);
          label.left--;
        } else {
          const cell = row.cells[column];
          above[column] = {cell, left: cell.rowSpan - 1};
          cell.rowSpan = 1;
        }
      }
    }
  }

  // Ascending, descending, in the order of the manifest.
  sortBy(head) {
    const next = {none: "ascending", ascending: "descending", descending: "none"};
    const order = next[head.cell.ariaSort ?? "none"];
    for (const other of this.heads) other.cell.removeAttribute("aria-sort");
    if (order !== "none") head.cell.ariaSort = order;
    const direction = order === "descending" ? -1 : 1;
    const rows = order === "none" ? this.rows
        : this.rows.map((row) => ({row, key: sortKey(row.cells[head.from])}))
              .sort((a, b) => compareKeys(a.key, b.key, direction))
              .map(({row}) => row);
    this.body.append(...rows);
    this.mergeLabels();
  }

  // Labels that the rows below repeat extend over these rows.
  mergeLabels() {
    const above = [];
    for (const row of [...this.body.rows].filter(({hidden}) => !hidden)) {
      const labels = [...row.querySelectorAll("th")];
      let same = true;
      labels.forEach((label, i) => {
        same &&= i + 1 < labels.length && label.textContent === above[i]?.textContent;
        label.hidden = same;
        label.rowSpan = 1;
        if (same) above[i].rowSpan++;
        else above[i] = label;
      });
    }
  }

  // Fixes all columns of labels if at least half of the width remains, else the last one.
  pinLabels() {
    const rows = [this.table.tHead.rows[0], ...this.rows];
    const labels = rows.map((row) => [...row.cells].filter((cell) => cell.matches("th.label")));
    const count = Math.min(...labels.map((cells) => cells.length));
    const widths = labels[0].slice(0, count).map((cell) => cell.offsetWidth);
    const total = widths.reduce((sum, width) => sum + width, 0);
    const all = 2 * total <= this.table.parentElement.clientWidth;
    let left = 0;
    for (let column = 0; column < count; column++) {
      const pinned = all || column === count - 1;
      for (const cells of labels) {
        cells[column].style.position = pinned ? "sticky" : "static";
        cells[column].style.left = pinned ? `${left}px` : "";
      }
      if (pinned) left += widths[column];
    }
    this.table.style.setProperty("--pinned", `${left}px`);  // where the other columns begin
  }

  // The column and the order by which the table is sorted.
  get sorting() {
    const head = this.heads.find(({cell}) => cell.ariaSort);
    return head && {text: head.cell.textContent, from: head.from, order: head.cell.ariaSort};
  }

  set sorting(wanted) {
    const head = wanted && this.heads.find(({cell, from}) =>
        from === wanted.from && cell.textContent === wanted.text);
    if (!head) return;
    this.sortBy(head);
    if (wanted.order === "descending") this.sortBy(head);
  }

  // Returns the number of rows shown.
  filterRows(words) {
    const labels = this.table.matches(".text") ? "th, td" : "th, td.label";
    let shown = 0;
    for (const row of this.rows) {
      // The title of a shortened label is the whole label.
      const text = [...row.querySelectorAll(labels)]
          .map((cell) => `${cell.matches("th") ? cell.title : ""} ${cell.textContent}`).join(" ");
      row.hidden = !matches(text, words);
      shown += !row.hidden;
    }
    this.mergeLabels();
    return shown;
  }

  filterColumns(words) {
    const texts = Array.from({length: this.columns}, (_, column) =>
        this.heads.filter(({from, to}) => from <= column && column < to)
            .map(({cell}) => cell.textContent).join(" "));
    const shown = texts.map((text, column) => column < this.labels || matches(text, words));
    for (const {cell, from, to} of this.heads) {
      const count = shown.slice(from, to).filter(Boolean).length;
      cell.hidden = count === 0;
      if (count > 0) cell.colSpan = count;
    }
    for (const row of this.rows) {
      [...row.cells].forEach((cell, column) => {
        if (column >= this.labels) cell.hidden = !shown[column];
      });
    }
  }
}
