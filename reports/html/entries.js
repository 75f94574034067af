// Entries of tables as buttons that open their dialogues.

const ARROWS = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]};

// The labels of an entry's row, as in the manifest, and of its column: "snapkv:budget=64,
// tiny-fact, end".
function titleOf(cell) {
  const row = cell.parentElement;
  const labels = [...row.querySelectorAll("th")].map((label) => label.title || label.textContent);
  const heads = placedCells(cell.closest("table").tHead.rows).flat()
      .filter(({from, to}) => from <= cell.cellIndex && cell.cellIndex < to);
  return [...labels, ...heads.map((head) => head.cell.textContent)].join(", ");
}

// The next entry in a direction that has a button and is shown.
function neighbour(cell, [down, right]) {
  let row = cell.parentElement, column = cell.cellIndex;
  for (;;) {
    if (down !== 0) row = down > 0 ? row.nextElementSibling : row.previousElementSibling;
    column += right;
    const next = row?.cells[column];
    if (!next) return null;
    const button = next.hidden || row.hidden ? null : next.querySelector(".open");
    if (button) return button;
  }
}

// Makes a button of every entry with dialogues.  One of them is a stop of the Tab key, from which
// the arrow keys move to the others.
function setUpEntries(view, open) {
  const buttons = [];
  for (const cell of view.querySelectorAll("td[data-cells]")) {
    const shown = cell.querySelector("data, .none");
    const button = element("button", {type: "button", className: "open", tabIndex: -1,
                                      title: "Show the dialogues"});
    shown.before(button);
    button.append(shown);
    button.addEventListener("click", () => open(cell));
    buttons.push(button);
  }
  if (buttons.length === 0) return;
  buttons[0].tabIndex = 0;
  view.addEventListener("keydown", (event) => {
    const button = event.target.closest(".open");
    if (!button || !ARROWS[event.key]) return;
    const next = neighbour(button.closest("td"), ARROWS[event.key]);
    if (!next) return;
    event.preventDefault();
    for (const other of buttons) other.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
}
