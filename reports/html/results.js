// Parts of the page with several views, and their controls.

// Tables with this number of columns have a filter for them.
const MANY_COLUMNS = 4;

// A part of the page that has several views: of each, one metric and one baseline.
class Result {
  // `open`: shows the dialogues of an entry, given the view; undefined if there are none.
  constructor(section, open) {
    this.open = open;
    this.section = section;
    this.followers = [];  // parts without controls, which show the same metric
    this.heading = section.querySelector(".heading");
    this.view = section.querySelector(".view");
    this.views = [this.view, ...section.querySelectorAll("template")].map((node) => (
        {node, metric: node.dataset.metric ?? "", baseline: node.dataset.baseline ?? ""}));
    this.controls = element("div", {className: "controls"});
    this.shown = this.views[0];
    if (!section.matches(".of-table")) this.addChoices();
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
    const table = this.view.querySelector("table:not(.heat)");
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
    this.show(this.metric?.value ?? this.shown.metric, this.baseline?.value ?? this.shown.baseline);
  }

  show(metric, baseline) {
    const of = this.views.filter((view) => view.metric === metric);
    const next = of.find((view) => view.baseline === baseline) ?? of[0];
    this.section.hidden = !next;
    for (const follower of this.followers) follower.show(metric, baseline);
    if (!next) return;
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
      const table = this.view.querySelector("table:not(.heat)");
      if (table) {
        const sortable = new Table(table);
        this.shown.table = sortable;
        new ResizeObserver(() => sortable.pinLabels()).observe(table.parentElement);
      }
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
