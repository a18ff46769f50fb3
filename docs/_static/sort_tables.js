// Headers of tables of numbers become buttons that sort rows: upwards, downwards, as written.
// Without scripts the tables stand as written.

const NUMBER = /^[~<>]?\s*([-+−]?[\d,]*\.?\d+(?:e[-+]?\d+)?)%?(?:\s*(?:±|\+-)\s*[\d.,]+)?(?:\s*[=≠])?$/;
const STATES = ["ascending", "descending", null];

const textOf = (row, column) => row.cells[column].textContent.trim();

function numberOf(text) {
  const match = NUMBER.exec(text);
  return match && Number(match[1].replaceAll(",", "").replace("−", "-"));
}

// Numbers by value, before words in the order of the alphabet; empty cells last in both directions.
function compare(one, other, sign) {
  if (!one || !other) return !one - !other;
  const [first, second] = [numberOf(one), numberOf(other)];
  if (first === null && second === null) {
    return sign * one.localeCompare(other, "en", { numeric: true });
  }
  if (first === null || second === null) return sign * ((first === null) - (second === null));
  return sign * (first - second);
}

function makeSortable(table) {
  const body = table.tBodies[0];
  const written = [...body.rows];
  // An empty first cell means that of the row above, wherever the row goes.
  let label = "";
  const labels = written.map((row) => (label = textOf(row, 0) ? row.cells[0].innerHTML : label));
  const blank = written.map((row) => !textOf(row, 0));
  for (const [column, header] of [...table.tHead.rows[0].cells].entries()) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = header.textContent.trim();
    header.replaceChildren(button);
    button.addEventListener("click", () => {
      const state = STATES[(STATES.indexOf(header.getAttribute("aria-sort")) + 1) % 3];
      for (const each of table.tHead.rows[0].cells) each.removeAttribute("aria-sort");
      written.forEach((row, at) => {
        if (blank[at]) row.cells[0].innerHTML = state ? labels[at] : "";
      });
      if (state) header.setAttribute("aria-sort", state);
      const sign = state === "descending" ? -1 : 1;
      const texts = new Map(written.map((row) => [row, textOf(row, column)]));
      const sorted = (one, other) => compare(texts.get(one), texts.get(other), sign);
      body.append(...(state ? [...written].sort(sorted) : written));
    });
  }
}

for (const table of document.querySelectorAll("article table")) {
  const texts = [...(table.tBodies[0]?.rows ?? [])].flatMap((row) => [...row.cells].slice(1));
  const numbers = texts.some((cell) => numberOf(cell.textContent.trim()) !== null);
  if (table.tHead && numbers) makeSortable(table);
}
