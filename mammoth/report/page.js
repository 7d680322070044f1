// Sorts a table by the header that was clicked: its first order, the other one, then as it was. Rows of class "group" stay on top.
function sortBy(button) {
  const head = button.closest("th"), table = button.closest("table"), place = Number(button.dataset.place);
  const first = button.dataset.first, other = first === "ascending" ? "descending" : "ascending";
  const now = head.getAttribute("aria-sort");
  const next = now === first ? other : now === other ? "none" : first;
  table.querySelectorAll("th[aria-sort]").forEach((cell) => cell.setAttribute("aria-sort", "none"));
  head.setAttribute("aria-sort", next);
  for (const body of table.tBodies) {
    const rows = [...body.rows].filter((row) => !row.classList.contains("group"));
    rows.forEach((row, index) => { row.dataset.index ??= index; });
    rows.sort((a, b) => compare(a, b, place, next) || a.dataset.index - b.dataset.index);
    body.append(...rows);
  }
}

function compare(a, b, place, order) {
  if (order === "none") return 0;
  const [x, y] = [a, b].map((row) => row.cells[place].dataset.sort ?? row.cells[place].textContent.trim());
  if (x === "" || y === "") return (x === "") - (y === "");  // what was not run stays below
  const numbers = [x, y].map(Number);
  const difference = numbers.some(Number.isNaN) ? x.localeCompare(y) : numbers[0] - numbers[1];
  return order === "ascending" ? difference : -difference;
}

// Opens whatever folded part the address points into: a number's runs.
function reveal() {
  const target = document.getElementById(location.hash.slice(1));
  let part = target?.closest("details");
  if (!part) return;
  for (; part; part = part.parentElement.closest("details")) part.open = true;
  target.scrollIntoView({ block: "center" });
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button.sort");
  if (button) sortBy(button);
});
addEventListener("hashchange", reveal);
if (location.hash) reveal();
