"use strict";
// The overview: another base, filters and an order for what the page holds already.
(() => {
  const { data, NONE, ONE, relativeTo, hundredths, ratioText, ends, intervalText, shade, words, gapAt, make, link, ratioCell } = regtrack;
  const { kinds, read, write, tell, follow } = regtrack.fragment;
  const { choice, targetChoices, groupChoices, numberOf } = regtrack.controls;
  const last = data.targets.length - 1;
  const VERDICTS = { slower: "slower", faster: "faster", same: "no change", open: "cannot tell" };
  const FIELDS = {
    base: { kind: kinds.target, otherwise: data.base },
    group: { kind: kinds.group, otherwise: null },
    from: { kind: kinds.first, otherwise: 0 },
    to: { kind: kinds.target, otherwise: last },
    verdict: { kind: kinds.oneOf(...Object.keys(VERDICTS)), otherwise: null },
    sort: { kind: kinds.target, otherwise: null },
    order: { kind: kinds.oneOf("fastest"), otherwise: null },
    changes: { kind: kinds.oneOf("all"), otherwise: null },
  };
  const table = document.getElementById("heat");
  if (!table) return;
  const notice = document.getElementById("notice");
  const form = document.getElementById("controls");
  const bodies = [...table.tBodies].map((body) => ({
    body,
    rows: [...body.rows].filter((row) => row.dataset.row).map((row) => ({ row, index: Number(row.dataset.row) })),
  }));
  const heads = [...table.tHead.rows[0].cells].slice(1);
  const groupOf = new Map(data.groups.flatMap((group, index) => group.rows.map((row) => [row, index])));
  // The answers of the view, and what it had at first.
  let state = null;
  const setView = (changes) => {
    write(FIELDS, { ...state, ...changes });
    show();
  };

  // ---- the heat map

  const visible = (target) => target >= state.from && target <= state.to;

  // A cell is its number, and where something is judged a mark and an interval. They are changed in place: to build
  // 714 cells anew takes as long as a reader notices.
  function parts(cell) {
    if (!cell.querySelector("b")) cell.append(make("b", { role: "img" }), make("small", {}));
    const [mark, interval] = cell.children;
    return { mark, interval };
  }

  function fill(cell, row, target) {
    const answer = relativeTo(state.base)[row][target];
    cell.removeAttribute("title");
    cell.className = answer ? `r ${shade(hundredths(answer.ratio))}` : "";
    if (!answer || target === state.base || !answer.interval) {
      cell.textContent = answer ? ratioText(answer) : gapAt(row, target)?.failed ? "×" : NONE;
      return;
    }
    const { sign, label } = answer.standing;
    const { mark, interval } = parts(cell);
    cell.firstChild.data = `${ratioText(answer)} `;
    mark.textContent = sign;
    mark.ariaLabel = label;
    interval.textContent = ends(answer).join("–");
  }

  function isWanted(row, target) {
    const answer = relativeTo(state.base)[row][target];
    return visible(target) && target !== state.base && answer?.interval && answer.standing.verdict === state.verdict;
  }

  function showHeat() {
    let any = false;
    for (const [group, { body, rows }] of bodies.entries()) {
      let shown = 0;
      for (const { row, index } of rows) {
        const cells = [...row.cells].slice(1);
        cells.forEach((cell, target) => {
          if (painted !== state.base) fill(cell, index, target);
          cell.hidden = !visible(target);
          cell.classList.toggle("hit", state.verdict !== null && Boolean(isWanted(index, target)));
        });
        row.hidden = state.verdict !== null && !cells.some((_, target) => isWanted(index, target));
        shown += row.hidden ? 0 : 1;
      }
      body.hidden = shown === 0 || (state.group !== null && state.group !== group);
      any ||= !body.hidden;
      body.rows[0].cells[1].colSpan = Math.max(1, state.to - state.from + 1);
      order(body, rows);
    }
    painted = state.base;
    heads.forEach((head, target) => (head.hidden = !visible(target)));
    document.getElementById("nothing").hidden = any;
  }
  // The base that the cells were filled for: at first that of the report.
  let painted = data.base;

  function order(body, rows) {
    const ratio = ({ index }) => relativeTo(state.base)[index][state.sort]?.ratio ?? null;
    const sign = state.order === "fastest" ? -1 : 1;
    const compare = (a, b) => {
      const [x, y] = [ratio(a), ratio(b)];
      return x === null || y === null ? (x === null) - (y === null) : sign * (x - y);
    };
    body.append(...(state.sort === null ? rows : [...rows].sort(compare)).map(({ row }) => row));
  }

  heads.forEach((head, target) => {
    const button = make("button", { type: "button", class: "order", "aria-label": `Sort by ${data.targets[target].label}` }, "↕");
    head.append(" ", button);
    button.addEventListener("click", () => {
      const isSorted = state.sort === target;
      if (!isSorted) setView({ sort: target, order: null });
      else if (state.order === null) setView({ order: "fastest" });
      else setView({ sort: null, order: null });
    });
  });

  function showOrder() {
    heads.forEach((head, target) => {
      const isSorted = state.sort === target;
      head.ariaSort = isSorted ? (state.order === "fastest" ? "descending" : "ascending") : null;
      head.querySelector(".order").textContent = isSorted ? (state.order === "fastest" ? "↓" : "↑") : "↕";
    });
  }

  function describe(cell) {
    const row = Number(cell.parentElement.dataset.row);
    const target = cell.cellIndex - 1;
    const name = `${data.rows[row].name} on ${data.targets[target].label}`;
    const gap = gapAt(row, target)?.reason;
    if (target === state.base) return gap ? `${name}: ${gap}` : `${name}: the base, 1.00 by definition`;
    const answer = relativeTo(state.base)[row][target];
    const against = `against ${data.targets[state.base].label}`;
    if (!answer) return `${name}: ${gap ?? "the base has no rate here"}`;
    const parts = [`ratio ${ratioText(answer)}`];
    if (answer.interval) parts.push(`95 % interval ${intervalText(answer)}`, words(answer));
    else parts.push("no interval, no verdict");
    if (gap) parts.push(gap);
    return `${name} ${against}: ${parts.join("; ")}`;
  }
  const tips = regtrack.tips(table, describe);

  // ---- the group tables

  // By group and target, so that lines are built once.
  const lines = new Map();
  function groupLine(group, target) {
    const key = `${group.name} ${target}`;
    const { count, min, max, avg, median, stdev } = regtrack.summaryOf(group, state.base, target) ?? { median: null };
    if (!lines.has(key)) {
      const cells = Array.from({ length: 6 }, () => make("td", {}));
      lines.set(key, { cells, row: make("tr", {}, make("th", { scope: "row" }, link(data.targets[target])), ...cells) });
    }
    const { cells, row } = lines.get(key);
    row.hidden = median === null || target === state.base || !visible(target);
    if (row.hidden) return row;
    [count, min, max, avg, regtrack.decimals(median, 2), stdev].forEach((text, at) => (cells[at].textContent = text));
    cells[4].className = `r ${shade(median)}`;
    return row;
  }

  function showGroups() {
    for (const body of document.querySelectorAll("tbody[data-group]")) {
      const group = data.groups.find((one) => one.name === body.dataset.group);
      const rows = data.targets.map((_, target) => groupLine(group, target));
      if (body.rows.length !== rows.length) body.replaceChildren(...rows);
      const isOther = state.group !== null && data.groups[state.group] !== group;
      body.closest(".scroll").hidden = isOther || rows.every((row) => row.hidden);
    }
  }

  // ---- what changed

  const LINES = 20;
  const KINDS = {
    slower: ({ standing }) => standing.verdict === "slower" && standing.confirmed,
    faster: ({ standing }) => standing.verdict === "faster" && standing.confirmed,
    unconfirmed: ({ standing }) => standing.flagged || (["slower", "faster"].includes(standing.verdict) && !standing.confirmed),
  };

  const size = ({ answer }) => Math.abs(Math.log(answer.ratio / ONE));
  let adjacent = null;
  function allChanges() {
    adjacent ??= data.targets.slice(1).flatMap((_, from) =>
      data.rows.map((_, row) => ({ row, from, to: from + 1, answer: relativeTo(from)[row][from + 1] })).filter(({ answer }) => answer));
    return adjacent;
  }

  function changeRow({ row, from, to, answer }) {
    const cell = (text, style) => make("td", style ? { class: style } : {}, text);
    return make("tr", {}, make("th", { scope: "row" }, link(data.rows[row])), cell(data.groups[groupOf.get(row)].name),
      cell(data.targets[from].label), cell(data.targets[to].label), ratioCell(hundredths(answer.ratio)),
      cell(intervalText(answer), "nowrap"), cell(words(answer), "nowrap"));
  }

  // They do not depend on the base.
  let listed = null;
  function showChanges() {
    const view = [state.from, state.to, state.group, state.verdict, state.changes].join();
    if (view === listed) return;
    listed = view;
    for (const [kind, fits] of Object.entries(KINDS)) {
      const list = document.getElementById(`changes-${kind}`);
      if (!list) continue;
      const verdict = state.verdict;
      const found = allChanges().filter(({ row, from, to, answer }) => fits(answer) && from >= state.from && to <= state.to &&
        (state.group === null || groupOf.get(row) === state.group) && (verdict === null || answer.standing.verdict === verdict));
      found.sort((a, b) => size(b) - size(a));
      const some = state.changes === "all" ? found : found.slice(0, LINES);
      list.tBodies[0].replaceChildren(...some.map(changeRow));
      const box = list.closest(".list");
      box.querySelector(".count").textContent = found.length;
      box.querySelector(".scroll").hidden = found.length === 0;
      box.querySelector(".none").hidden = found.length > 0;
      const more = box.querySelector(".more");
      more.hidden = found.length <= LINES;
      more.replaceChildren(moreButton(found.length));
    }
  }

  function moreButton(count) {
    const isAll = state.changes === "all";
    const button = make("button", { type: "button" }, isAll ? `Show the largest ${LINES}` : `Show all ${count}`);
    button.addEventListener("click", () => setView({ changes: isAll ? null : "all" }));
    return button;
  }

  // ---- the controls

  function buildControls() {
    const verdicts = [["", "any"], ...Object.entries(VERDICTS)];
    form.prepend(
      choice("base", "Base", targetChoices()), choice("group", "Group", groupChoices()), choice("from", "From", targetChoices()),
      choice("to", "To", targetChoices()), choice("verdict", "Verdict", verdicts));
    form.append(make("button", { type: "reset" }, "Reset"));
    form.hidden = false;
    const take = (event) => {
      event.preventDefault();
      const { base, group, from, to, verdict } = form.elements;
      setView({ base: numberOf(base), group: numberOf(group), from: numberOf(from), to: numberOf(to), verdict: verdict.value || null });
    };
    form.addEventListener("change", take);
    form.addEventListener("submit", take);
    form.addEventListener("reset", (event) => {
      event.preventDefault();
      setView(Object.fromEntries(Object.entries(FIELDS).map(([name, field]) => [name, field.otherwise])));
    });
  }

  function showControls() {
    for (const name of ["base", "group", "from", "to", "verdict"]) form.elements[name].value = state[name] ?? "";
    for (const element of document.querySelectorAll("[data-base]")) element.textContent = data.targets[state.base].label;
    document.querySelector("[data-other]").hidden = state.base === data.base;
  }

  /** Brings the page to what the address says. */
  function show() {
    const found = read(FIELDS);
    state = found.state;
    if (state.from > state.to) {
      found.ignored.push(`from=${data.targets[state.from].label}&to=${data.targets[state.to].label}`);
      [state.from, state.to] = [0, last];
    }
    tell(notice, found.ignored);
    tips.hide();
    showControls();
    showHeat();
    showOrder();
    showGroups();
    showChanges();
    tips.enter();
  }

  buildControls();
  follow(show);
})();
