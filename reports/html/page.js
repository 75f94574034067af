// The page: theme, contents, and the parts above.

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

// The results of each experiment, with its dialogues.
function setUpResults() {
  let list;
  const opener = (source) => {
    const dialogues = new Dialogues(source);
    return (cell, {metric, baseline}) => {
      list ??= new DialogueList();
      const {cells, turn, dialogue} = cell.dataset;
      const entry = {cells: cells.split(" ").map(Number), dialogue};
      if (turn !== undefined) entry.turn = Number(turn);
      list.open(titleOf(cell), dialogues, entry, metric, baseline);
    };
  };
  const openers = new Map();
  for (const source of document.querySelectorAll("script.dialogues"))
    openers.set(source.closest(".experiment"), opener(source));
  let table;
  for (const section of document.querySelectorAll(".result")) {
    const result = new Result(section, openers.get(section.closest(".experiment")));
    if (section.matches(".of-table")) table.followers.push(result);
    else table = result;
  }
}

for (const control of document.querySelectorAll("header .control")) control.hidden = false;
document.body.append(tip);
setUpTheme();
setUpPrinting();
setUpResults();
if (matchMedia("(max-width: 60rem)").matches) document.getElementById("contents").open = false;
