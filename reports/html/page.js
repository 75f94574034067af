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

for (const control of document.querySelectorAll("header .control")) control.hidden = false;
document.body.append(tip);
setUpTheme();
setUpPrinting();
for (const section of document.querySelectorAll(".result")) new Result(section);
if (matchMedia("(max-width: 60rem)").matches) document.getElementById("contents").open = false;
