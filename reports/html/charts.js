// Charts: the values of a row beside the pointer, or below the row that has the focus.

const tip = document.createElement("div");
tip.id = "tip";
tip.role = "tooltip";
tip.hidden = true;

function placeTip(x, y) {
  const room = {x: innerWidth - tip.offsetWidth - 8, y: innerHeight - tip.offsetHeight - 8};
  tip.style.left = `${Math.max(0, Math.min(x + 14, room.x))}px`;
  tip.style.top = `${Math.max(0, Math.min(y + 14, room.y))}px`;
}

function showTip(row) {
  tip.replaceChildren();
  const name = document.createElement("strong");
  name.textContent = row.querySelector(".label").textContent;
  tip.append(name, `\n${row.dataset.values}`);
  tip.hidden = false;
}

// Moves the values of each row from the image, where browsers show them late, to the tip.
function setUpCharts(view) {
  for (const row of view.querySelectorAll(".chart .row[tabindex]")) {
    const image = row.querySelector("svg");
    row.dataset.values = image.querySelector("desc").textContent;
    image.setAttribute("aria-label", `${image.querySelector("title").textContent}: ${
        row.dataset.values.replaceAll("\n", "; ")}`);
    for (const text of image.querySelectorAll("title, desc")) text.remove();
    row.addEventListener("pointermove", (event) => {
      showTip(row);
      placeTip(event.clientX, event.clientY);
    });
    row.addEventListener("pointerleave", () => { tip.hidden = true; });
    row.addEventListener("focus", () => {
      showTip(row);
      const box = row.getBoundingClientRect();
      placeTip(box.left, box.bottom - 10);
    });
    row.addEventListener("blur", () => { tip.hidden = true; });
  }
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") tip.hidden = true;
});
