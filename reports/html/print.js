// Print: wide tables in several parts, one below the other.

// Columns of numbers that a printed page has room for.
const PRINTED_COLUMNS = 9;

// A copy of a table with its labels and some of its other columns.
function partOfTable(table, labels, from, to) {
  const copy = table.cloneNode(true);
  const rows = placedCells(table.rows);
  [...copy.rows].forEach((row, r) => {
    [...row.cells].forEach((cell, i) => {
      const place = rows[r][i];
      if (place.from < labels) return;
      const shown = Math.min(place.to, to) - Math.max(place.from, from);
      if (shown > 0) cell.colSpan = shown;
      else cell.remove();
    });
  });
  return copy;
}

function setUpPrinting() {
  let parts = [], tables = [];
  addEventListener("beforeprint", () => {
    for (const table of document.querySelectorAll("main .scroll > table")) {
      const shown = table.cloneNode(true);
      for (const cell of shown.querySelectorAll("[hidden]")) cell.remove();
      // Heads that are repeated on the next page lack the text of buttons.
      for (const control of shown.querySelectorAll(".sort, .stuck, .open"))
        control.replaceWith(...control.childNodes);
      const columns = Math.max(...placedCells(shown.tHead.rows)[0].map(({to}) => to));
      const labels = shown.tHead.querySelectorAll("th.label").length;
      const step = table.matches(".text") ? columns : PRINTED_COLUMNS;
      for (let from = labels; from < columns; from += step) {
        const part = partOfTable(shown, labels, from, Math.min(from + step, columns));
        table.before(part);
        parts.push(part);
      }
      table.hidden = true;
      tables.push(table);
    }
  });
  addEventListener("afterprint", () => {
    for (const part of parts) part.remove();
    for (const table of tables) table.hidden = false;
    parts = tables = [];
  });
}
