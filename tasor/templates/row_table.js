"use strict";
// The page is complete without this script: it only sorts the rows of its table, and hides some.
const table = document.querySelector("table.rows");
const body = table.tBodies[0];
const rows = [...body.rows].map((row) => ({
  row,
  kinds: row.dataset.kinds.split(" "),
  words: row.cells[0].textContent.toLowerCase(),
}));
const filters = document.querySelector(".filters");
const buttons = [...filters.querySelectorAll("button")];
const search = filters.querySelector("input");
const shown = filters.querySelector("output");
let kind = "all";

function show() {
  const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const entry of rows) {
    const fits = entry.kinds.includes(kind) && wanted.every((word) => entry.words.includes(word));
    entry.row.hidden = !fits;
    count += fits;
  }
  shown.value = `${count} of ${rows.length} ${table.dataset.rows}`;
}

// Rows without a figure stay at the end, whichever way the others are sorted.
function sorted(column, numeric, sign) {
  const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
  return rows.map((entry) => entry.row).sort((one, other) => {
    const [a, b] = [value(one), value(other)];
    if (a === "" || b === "") return (a === "") - (b === "");
    return sign * (numeric ? a - b : a.localeCompare(b, "en", { numeric: true }));
  });
}

function sortable(header) {
  const button = document.createElement("button");
  button.type = "button";
  button.append(...header.childNodes);
  header.append(button);
  button.addEventListener("click", () => {
    const direction = header.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
    for (const other of header.parentNode.cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", direction);
    const sign = direction === "ascending" ? 1 : -1;
    body.append(...sorted(header.cellIndex, header.dataset.sort === "number", sign));
  });
}

for (const button of buttons) {
  button.addEventListener("click", () => {
    kind = button.dataset.kind;
    for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
    show();
  });
}
for (const header of table.tHead.rows[0].cells) if (header.dataset.sort) sortable(header);
search.addEventListener("input", show);
filters.hidden = false;
show();
