"use strict";
// What is known of a cell of a table, on pointing at it and on getting to it by keyboard. One cell of the table is in
// the tab order; arrow keys go on from there. Escape closes the tip; the pointer may rest on it.
regtrack.tips = (table, textOf) => {
  const tip = regtrack.make("div", { role: "tooltip", id: `${table.id}-tip`, class: "tip", hidden: "" });
  document.body.append(tip);
  let shown = null;

  const hide = () => {
    shown?.removeAttribute("aria-describedby");
    shown = null;
    tip.hidden = true;
  };
  const place = () => {
    const [box, own] = [shown.getBoundingClientRect(), tip.getBoundingClientRect()];
    const room = document.documentElement.clientWidth - own.width - 4;
    tip.style.left = `${Math.max(4, Math.min(box.left, room)) + scrollX}px`;
    const above = box.bottom + own.height + 4 > innerHeight && box.top > own.height;
    // It touches the cell, so that the pointer gets there.
    tip.style.top = `${(above ? box.top - own.height : box.bottom) + scrollY}px`;
  };
  const show = (cell) => {
    const text = textOf(cell);
    hide();
    if (!text) return;
    shown = cell;
    tip.textContent = text;
    tip.hidden = false;
    cell.setAttribute("aria-describedby", tip.id);
    place();
  };
  const cellOf = (event) => event.target.closest?.("td:not([colspan])");
  const isAt = (event) => tip.contains(event.relatedTarget) || shown?.contains(event.relatedTarget);

  table.addEventListener("pointerover", (event) => {
    const cell = cellOf(event);
    if (cell && cell !== shown) show(cell);
  });
  const leave = (event) => {
    if (!isAt(event) && document.activeElement !== shown) hide();
  };
  table.addEventListener("pointerout", leave);
  tip.addEventListener("pointerout", leave);
  table.addEventListener("focusin", (event) => {
    const cell = cellOf(event);
    if (cell) show(cell);
    else hide();
  });
  table.addEventListener("focusout", hide);
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
  });
  // The table moves inside its box, also when a cell that gets the focus is brought into view.
  table.parentElement.addEventListener("scroll", () => shown && place());

  const isShown = (element) => element.offsetParent !== null;
  const rows = () => [...table.querySelectorAll("tbody tr:not(.group)")].filter(isShown);
  const cells = (row) => [...row.cells].filter((cell) => cell.tagName === "TD" && isShown(cell));
  const focus = (cell) => {
    table.querySelectorAll("td[tabindex='0']").forEach((other) => other.removeAttribute("tabindex"));
    cell.tabIndex = 0;
    cell.focus();
  };
  /** Puts the first cell into the tab order, unless one is. */
  const enter = () => {
    const current = table.querySelector("td[tabindex='0']");
    if (current && isShown(current)) return;
    current?.removeAttribute("tabindex");
    const first = rows()[0];
    if (first) cells(first)[0]?.setAttribute("tabindex", "0");
  };
  table.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    const from = event.target;
    if (!step || from.tagName !== "TD") return;
    event.preventDefault();
    const all = rows();
    const column = cells(from.parentElement).indexOf(from) + step[1];
    const row = all[all.indexOf(from.parentElement) + step[0]];
    const to = row && cells(row)[column];
    if (to) focus(to);
  });
  table.addEventListener("click", (event) => {
    const cell = cellOf(event);
    if (cell) focus(cell);
  });
  return { enter, hide };
};
