// Tables: sorting, filters, and the choice of metric and baseline.

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
    for (const head of this.heads) {
      if (head.to - head.from > 1 || head.cell.scope === "colgroup") continue;
      const button = element("button", {type: "button", className: "sort"});
      button.append(...head.cell.childNodes);
      head.cell.append(button);
      button.addEventListener("click", () => this.sortBy(head));
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
      const text = [...row.querySelectorAll(labels)].map((cell) => cell.textContent).join(" ");
      row.hidden = !matches(text, words);
      shown += !row.hidden;
    }
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
      [...row.cells].forEach((cell, column) => { cell.hidden = !shown[column]; });
    }
  }
}

const MANY_COLUMNS = 4;

// A part of the page that has several views: of each, one metric and one baseline.
class Result {
  // `open`: shows the dialogues of an entry, given the view; undefined if there are none.
  constructor(section, open) {
    this.open = open;
    this.heading = section.querySelector(".heading");
    this.view = section.querySelector(".view");
    this.views = [this.view, ...section.querySelectorAll("template")].map((node) => (
        {node, metric: node.dataset.metric ?? "", baseline: node.dataset.baseline ?? ""}));
    this.controls = element("div", {className: "controls"});
    this.shown = this.views[0];
    this.addChoices();
    this.addFilters();
    if (this.controls.hasChildNodes()) this.view.before(this.controls);
    this.adopt();
  }

  addChoices() {
    const metrics = [...new Set(this.views.map((view) => view.metric))];
    if (metrics.length > 1) {
      this.metric = choice(metrics.map((name) => [name, name]), () => this.change());
      this.controls.append(labelled("Metric", this.metric));
    }
    const baselines = [...new Set(this.views.map((view) => view.baseline))];
    if (baselines.length > 1) {
      this.baseline = choice(baselines.map((name) => [name, name || "none"]), () => this.change());
      this.baseline.value = this.shown.baseline;
      this.controls.append(labelled("Differences to", this.baseline));
    }
  }

  addFilters() {
    const table = this.view.querySelector("table");
    if (!table) return;
    const input = () => {
      const out = element("input", {type: "search", size: 14});
      out.addEventListener("input", () => this.filter());
      return out;
    };
    this.rowFilter = input();
    this.controls.append(labelled("Rows with", this.rowFilter));
    const numbers = table.tHead.querySelectorAll("th:not(.label, .counter, [scope=colgroup])").length;
    if (numbers >= MANY_COLUMNS) {
      this.columnFilter = input();
      this.controls.append(labelled("Columns with", this.columnFilter));
    }
    this.status = element("span", {className: "control", role: "status"});
    this.controls.append(this.status);
  }

  // Shows the chosen view, with the same order and filters.
  change() {
    const metric = this.metric?.value ?? this.shown.metric;
    const baseline = this.baseline?.value ?? this.shown.baseline;
    const of = this.views.filter((view) => view.metric === metric);
    const next = of.find((view) => view.baseline === baseline) ?? of[0];
    if (next.node instanceof HTMLTemplateElement) {
      const view = element("div", {className: "view"});
      view.append(next.node.content);
      next.node.remove();
      next.node = view;
    }
    const sorting = this.table?.sorting;
    this.view.replaceWith(next.node);
    this.view = next.node;
    this.shown = next;
    if (this.baseline) this.baseline.value = next.baseline;
    const caption = this.view.querySelector("caption");
    if (caption && this.heading) this.heading.textContent = caption.textContent;
    this.adopt();
    if (this.table) this.table.sorting = sorting;
  }

  // Adds the controls within a view when it is shown for the first time.
  adopt() {
    if (!this.shown.adopted) {
      this.shown.adopted = true;
      const table = this.view.querySelector("table");
      this.shown.table = table && new Table(table);
      setUpCharts(this.view);
      if (this.open) setUpEntries(this.view, (cell) => this.open(cell, this.shown));
    }
    this.table = this.shown.table;
    this.filter();
  }

  filter() {
    if (!this.table) return;
    const words = wordsOf(this.rowFilter.value);
    const shown = this.table.filterRows(words), all = this.table.rows.length;
    this.status.textContent = words.length > 0 ? `${shown} of ${all} rows` : "";
    if (this.columnFilter) this.table.filterColumns(wordsOf(this.columnFilter.value));
  }
}
