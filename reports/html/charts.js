// Charts: the values of a row or point beside the pointer, or below the row that has the focus.

const tip = document.createElement("div");
tip.id = "tip";
tip.role = "tooltip";
tip.hidden = true;

function placeTip(x, y) {
  const room = {x: innerWidth - tip.offsetWidth - 8, y: innerHeight - tip.offsetHeight - 8};
  tip.style.left = `${Math.max(0, Math.min(x + 14, room.x))}px`;
  tip.style.top = `${Math.max(0, Math.min(y + 14, room.y))}px`;
}

function showTip(title, values) {
  tip.replaceChildren();
  const name = document.createElement("strong");
  name.textContent = title;
  tip.append(name, `\n${values}`);
  tip.hidden = false;
}

function showRow(row) {
  showTip(row.querySelector(".label").textContent, row.dataset.values);
}

// Plots: the values of a point; its line, or that of a name in the legend, is emphasized.
function setUpPlot(figure) {
  const lines = [...figure.querySelectorAll(".series")];
  const emphasize = (line) => {
    figure.classList.toggle("emphasis", line !== undefined);
    for (const other of lines) other.classList.toggle("emphasized", other === line);
  };
  [...figure.querySelectorAll(".legend li")].forEach((name, i) => {
    name.addEventListener("pointerenter", () => emphasize(lines[i]));
    name.addEventListener("pointerleave", () => emphasize());
  });
  for (const point of figure.querySelectorAll(".point")) {
    const title = point.querySelector("title");
    const [, name, values] = title.textContent.match(/^(.*): (.*)$/s);
    title.remove();
    point.addEventListener("pointermove", (event) => {
      showTip(name, values);
      placeTip(event.clientX, event.clientY);
      emphasize(point.parentElement);
    });
    point.addEventListener("pointerleave", () => {
      tip.hidden = true;
      emphasize();
    });
  }
}

// Moves the values of each row from the image, where browsers show them late, to the tip.
function setUpCharts(view) {
  view.querySelectorAll(".lines").forEach(setUpPlot);
  for (const row of view.querySelectorAll(".chart .row[tabindex]")) {
    const image = row.querySelector("svg");
    row.dataset.values = image.querySelector("desc").textContent;
    image.setAttribute("aria-label", `${image.querySelector("title").textContent}: ${
        row.dataset.values.replaceAll("\n", "; ")}`);
    for (const text of image.querySelectorAll("title, desc")) text.remove();
    row.addEventListener("pointermove", (event) => {
      showRow(row);
      placeTip(event.clientX, event.clientY);
    });
    row.addEventListener("pointerleave", () => { tip.hidden = true; });
    row.addEventListener("focus", () => {
      showRow(row);
      const box = row.getBoundingClientRect();
      placeTip(box.left, box.bottom - 10);
    });
    row.addEventListener("blur", () => { tip.hidden = true; });
  }
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") tip.hidden = true;
});
