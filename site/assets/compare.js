"use strict";
// Two releases side by side.
(() => {
  const { data, NONE, relativeTo, hundredths, intervalText, words, gapAt, make, link, ratioCell, summaryCells } = regtrack;
  const { kinds, read, write, tell, follow } = regtrack.fragment;
  const { choice, targetChoices, groupChoices, numberOf } = regtrack.controls;
  if (data.targets.length === 0) return;
  const newest = data.targets.length - 1;
  const FIELDS = {
    base: { kind: kinds.target, otherwise: data.base },
    target: { kind: kinds.target, otherwise: newest === data.base ? 0 : newest },
    group: { kind: kinds.group, otherwise: null },
  };
  const form = document.getElementById("controls");
  const cell = (text, style) => make("td", style ? { class: style } : {}, text);
  let state = null;

  function row(index, group) {
    const { base, target } = state;
    const { unit } = data.rows[index];
    const answer = relativeTo(base)[index][target];
    const name = make("th", { scope: "row" }, link(data.rows[index]));
    if (unit !== "QPS") name.append(" ", make("small", {}, unit));
    const verdict = answer ? words(answer) : gapAt(index, target)?.reason ?? gapAt(index, base)?.reason ?? NONE;
    return make("tr", {}, name, cell(group.name), cell(data.rates[index][base], "num"), cell(data.rates[index][target], "num"),
      ratioCell(answer && hundredths(answer.ratio)), cell(intervalText(answer), "nowrap"), cell(verdict));
  }

  function summary(group) {
    const cells = summaryCells(group, state.base, state.target);
    return cells && make("tr", {}, make("th", { scope: "row" }, group.name), ...cells);
  }

  function show() {
    const found = read(FIELDS);
    state = found.state;
    tell(document.getElementById("notice"), found.ignored);
    const groups = data.groups.filter((_, index) => state.group === null || state.group === index);
    document.getElementById("summary").tBodies[0].replaceChildren(...groups.map(summary).filter(Boolean));
    document.getElementById("rows").tBodies[0].replaceChildren(...groups.flatMap((group) => group.rows.map((index) => row(index, group))));
    for (const name of ["base", "target"]) {
      for (const element of document.querySelectorAll(`[data-${name}]`)) element.textContent = data.targets[state[name]].label;
    }
    for (const name of Object.keys(FIELDS)) form.elements[name].value = state[name] ?? "";
  }

  const exchange = make("button", { type: "button" }, "Exchange");
  form.prepend(choice("base", "Base", targetChoices()), choice("target", "Release", targetChoices()), choice("group", "Group", groupChoices()));
  form.append(exchange);
  form.hidden = false;
  const setView = (changes) => {
    write(FIELDS, { ...state, ...changes });
    show();
  };
  const take = (event) => {
    event.preventDefault();
    const { base, target, group } = form.elements;
    setView({ base: numberOf(base), target: numberOf(target), group: numberOf(group) });
  };
  form.addEventListener("change", take);
  form.addEventListener("submit", take);
  exchange.addEventListener("click", () => setView({ base: state.target, target: state.base }));
  follow(show);
})();
