"use strict";

// The theme: that of the system, unless the reader has chosen one.
function setUpTheme() {
  const select = document.getElementById("theme");
  const apply = () => { document.documentElement.style.colorScheme = select.value; };
  try {
    select.value = localStorage.getItem("turnbench-theme") || "";
  } catch {
    // Without storage, the choice lasts as long as the page.
  }
  select.addEventListener("change", () => {
    apply();
    try {
      localStorage.setItem("turnbench-theme", select.value);
    } catch {
      // As above.
    }
  });
  apply();
}

// Columns of data that a printed page has room for.
const PRINTED_COLUMNS = 9;

// The cells of a row with the columns that they cover, from which spans have taken the others.
function placedCells(table) {
  const taken = [];
  return [...table.rows].map((row, r) => {
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

// A copy of a table with its labels and some of its other columns.
function partOfTable(table, labels, from, to) {
  const copy = table.cloneNode(true);
  const rows = placedCells(table);
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

// Prints wide tables in several parts, one below the other.
function setUpPrinting() {
  let parts = [];
  addEventListener("beforeprint", () => {
    for (const table of document.querySelectorAll(".scroll > table:not(.text)")) {
      const labels = table.querySelectorAll("thead th.label").length;
      const columns = Math.max(...placedCells(table)[0].map((place) => place.to));
      if (columns - labels <= PRINTED_COLUMNS) continue;
      for (let from = labels; from < columns; from += PRINTED_COLUMNS) {
        const part = partOfTable(table, labels, from, Math.min(from + PRINTED_COLUMNS, columns));
        table.before(part);
        parts.push(part);
      }
      table.hidden = true;
    }
  });
  addEventListener("afterprint", () => {
    for (const part of parts) part.remove();
    for (const table of document.querySelectorAll(".scroll > table[hidden]")) table.hidden = false;
    parts = [];
  });
}

for (const control of document.querySelectorAll(".control")) control.hidden = false;
setUpTheme();
setUpPrinting();
if (matchMedia("(max-width: 60rem)").matches) document.getElementById("contents").open = false;
