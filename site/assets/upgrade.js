"use strict";
// What an upgrade would do to a mix of statements. The page says how it is computed.
(() => {
  const { data, ONE, relativeTo, hundredths, intervalText, words, make, link, ratioCell } = regtrack;
  const { kinds, read, write, tell, follow } = regtrack.fragment;
  const { choice, targetChoices, numberOf } = regtrack.controls;
  const last = data.targets.length - 1;
  if (last < 1) return;
  const EQUAL = data.groups.map((group) => `${group.name} ${group.rows.length}`).join("\n");
  const FIELDS = {
    from: { kind: kinds.target, otherwise: last - 1 },
    to: { kind: kinds.target, otherwise: last },
    weights: { kind: kinds.text, otherwise: EQUAL },
  };
  const DECISIVE = 3;
  const form = document.getElementById("controls");
  const result = document.getElementById("result");
  const decisive = document.getElementById("decisive");
  const error = document.getElementById("error");
  let state = null;

  const percent = (share) => `${(share * 100).toFixed(1)} %`;
  const signed = (share) => `${share < 0 ? "−" : "+"}${percent(Math.abs(share))}`;

  /** The time after the upgrade as a multiple of that before; its interval where every row has one. */
  function predict(weights) {
    const answers = relativeTo(state.from);
    const parts = weights
      .map((weight, row) => ({ row, weight, answer: answers[row][state.to] }))
      .filter(({ weight }) => weight > 0);
    const known = parts.filter(({ answer }) => answer);
    const covered = known.reduce((sum, { weight }) => sum + weight, 0);
    if (covered === 0) return null;
    let [time, squares] = [0, 0];
    for (const part of known) {
      part.weight /= covered;
      part.time = part.weight / (part.answer.ratio / ONE);
      time += part.time;
      const { interval } = part.answer;
      part.half = interval ? Math.log(interval.high / interval.low) / 2 : state.from === state.to ? 0 : null;
      squares += (part.time * (part.half ?? 0)) ** 2;
    }
    const half = Math.sqrt(squares) / time;
    const unsure = known.filter((part) => part.half === null).length;
    const interval = unsure > 0 ? null : [time * Math.exp(-half), time * Math.exp(half)];
    return { time, interval, known, unsure, missing: parts.length - known.length, lost: 1 - covered };
  }

  function sentence({ time, interval }) {
    const [from, to] = [data.targets[state.from].label, data.targets[state.to].label];
    const size = percent(Math.abs(time - 1));
    const change = size === percent(0) ? "the same time" : `${size} ${time > 1 ? "more" : "less"} time`;
    const range = interval ? `, 95 % interval ${signed(interval[0] - 1)} to ${signed(interval[1] - 1)}` : "";
    return `From ${from} to ${to} this mix takes ${change}${range}.`;
  }

  function notes({ time, unsure, missing, lost }) {
    const texts = [`That is ${time.toFixed(3)} times the time, or ${(1 / time).toFixed(3)} times the throughput.`];
    if (unsure > 0) texts.push(`There is no interval, since ${unsure} of the microbenchmarks have none.`);
    if (missing > 0) {
      texts.push(`${missing} of the microbenchmarks, with ${percent(lost)} of the weight, have no ratio between these two; they are left out.`);
    }
    return texts.map((text) => make("p", {}, text));
  }

  function decisiveRow({ row, weight, answer, time }) {
    const cell = (text, style) => make("td", style ? { class: style } : {}, text);
    return make("tr", {}, make("th", { scope: "row" }, link(data.rows[row])), cell(percent(weight), "num"),
      ratioCell(hundredths(answer.ratio)), cell(intervalText(answer), "nowrap"), cell(words(answer)), cell(signed(time - weight), "num"));
  }

  function showResult() {
    const { weights, error: wrong } = regtrack.weights.parse(state.weights);
    const prediction = weights ? predict(weights) : null;
    error.textContent = wrong ?? (prediction ? "" : "None of these microbenchmarks has a ratio between the two releases.");
    error.hidden = prediction !== null;
    decisive.hidden = prediction === null;
    result.replaceChildren();
    if (!prediction) return;
    result.append(make("p", { class: "answer" }, sentence(prediction)), ...notes(prediction));
    const effect = (part) => Math.abs(part.time - part.weight);
    const largest = [...prediction.known].sort((a, b) => effect(b) - effect(a)).slice(0, DECISIVE);
    decisive.querySelector("tbody").replaceChildren(...largest.map(decisiveRow));
  }

  function show() {
    const found = read(FIELDS);
    state = found.state;
    tell(document.getElementById("notice"), found.ignored);
    for (const name of Object.keys(FIELDS)) form.elements[name].value = state[name];
    showResult();
  }

  const setView = (changes) => {
    write(FIELDS, { ...state, ...changes });
    show();
  };
  const button = (text, press) => {
    const element = make("button", { type: "button" }, text);
    element.addEventListener("click", press);
    return element;
  };
  const area = make("textarea", { name: "weights", rows: "8", spellcheck: "false", autocomplete: "off" });
  form.prepend(
    choice("from", "From", targetChoices()), choice("to", "To", targetChoices()),
    make("label", { class: "wide" }, "Weights: a name and a share of the time per line ", area));
  form.append(
    button("All microbenchmarks", () => setView({ weights: data.rows.map((row) => `${row.name} 1`).join("\n") })),
    button("Reset", () => setView({ weights: EQUAL })));
  form.hidden = false;
  const take = (event) => {
    event.preventDefault();
    const { from, to, weights } = form.elements;
    setView({ from: numberOf(from), to: numberOf(to), weights: weights.value });
  };
  form.addEventListener("submit", take);
  form.addEventListener("change", take);
  follow(show);
})();
