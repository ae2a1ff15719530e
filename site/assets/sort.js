// Sorts a table by the column whose head is clicked. Everything works without it.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const original = [...body.rows];
  const heads = [...table.tHead.rows[0].cells];
  const key = (row, column) => {
    // A gap spans columns: it has no value and goes last.
    if ([...row.cells].some((cell) => cell.colSpan > 1) && column > 0) return null;
    const cell = row.cells[column];
    const text = cell.dataset.v ?? cell.textContent.replaceAll(",", "");
    const number = Number(text);
    return text === "–" ? null : cell.classList.contains("num") && !Number.isNaN(number) ? number : text;
  };
  const compare = (a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const order = { none: "ascending", ascending: "descending", descending: "none" }[head.ariaSort ?? "none"];
      heads.forEach((other) => (other.ariaSort = "none"));
      head.ariaSort = order;
      const sign = order === "descending" ? -1 : 1;
      const rows = order === "none" ? original : original.toSorted((a, b) => {
        const [x, y] = [key(a, column), key(b, column)];
        return x === null || y === null ? (x === null) - (y === null) : sign * compare(x, y);
      });
      body.append(...rows);
    });
  });
}
