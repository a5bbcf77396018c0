"use strict";
// The page is complete without this script: it only hides what a reader does not want to see.
const filters = document.querySelector(".filters");
const buttons = [...filters.querySelectorAll("button")];
const search = filters.querySelector("input");
const shown = filters.querySelector("output");
const entries = [...document.querySelectorAll("table.rules tbody tr")].map((row) => ({
  row,
  section: document.getElementById(row.dataset.rule),
  kinds: row.dataset.kinds.split(" "),
  words: row.textContent.toLowerCase(),
}));
let kind = "all";

function show() {
  const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const entry of entries) {
    const fits = (kind === "all" || entry.kinds.includes(kind))
      && wanted.every((word) => entry.words.includes(word));
    entry.row.hidden = entry.section.hidden = !fits;
    count += fits;
  }
  shown.value = `${count} of ${entries.length} rules`;
}

for (const button of buttons) {
  button.addEventListener("click", () => {
    kind = button.dataset.kind;
    for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
    show();
  });
}
search.addEventListener("input", show);
filters.hidden = false;
show();
