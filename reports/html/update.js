// A page that `turnbench serve` sends: it asks for the version of the store, and offers the page of
// a newer one.

function setUpUpdates() {
  const shown = document.body.dataset.version;
  let touched = false;  // a reader who has opened, filtered or scrolled must not lose the place
  for (const kind of ["pointerdown", "keydown", "input"])
    document.addEventListener(kind, () => { touched = true; }, {capture: true, passive: true});
  const link = element("button", {type: "button", className: "update", hidden: true}, "New results");
  link.addEventListener("click", () => location.reload());
  document.querySelector("body > header").append(link);
  const isUntouched = () => !touched && window.scrollY === 0 && location.hash === "";
  const poll = async () => {
    try {
      const response = await fetch("status.json", {cache: "no-store"});
      const {version} = await response.json();
      if (response.ok && version !== shown) {
        if (isUntouched()) location.reload();
        else link.hidden = false;
      }
    } catch {
      // The server has ended: the page stays as it is.
    }
    setTimeout(poll, 2000);
  };
  setTimeout(poll, 2000);
}

setUpUpdates();
