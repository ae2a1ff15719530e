"use strict";
// The data of the page, and how its numbers are shown. Every answer is the program's own: nothing here computes an
// interval or a verdict. A ratio is a count of steps of 1 / 20000; an odd count stands for everything between its
// even neighbours, so that rounding it gives what rounding the ratio itself gives.
const regtrack = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const NONE = "–";
  const ONE = 20000;
  const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const DIGITS = new Map([...ALPHABET].map((letter, digit) => [letter, digit]));
  // In the order of `Standing` in `src/site/answers.rs`.
  const OPEN = { verdict: "open", sign: "·", label: "cannot tell" };
  const SAME = { verdict: "same", sign: "=", label: "no change" };
  const STANDINGS = [
    OPEN,
    { ...OPEN, bounded: true },
    { ...OPEN, wanted: true },
    { ...OPEN, flagged: true },
    SAME,
    { ...SAME, bounded: true },
    { verdict: "faster", sign: "▲", label: "faster", confirmed: true },
    { verdict: "faster", sign: "△", label: "faster, not confirmed" },
    { verdict: "slower", sign: "▼", label: "slower", confirmed: true },
    { verdict: "slower", sign: "▽", label: "slower, not confirmed" },
  ];

  function unpack(text) {
    let at = 0;
    const number = () => {
      for (let value = 0, scale = 1; ; scale *= 32) {
        const digit = DIGITS.get(text[at++]);
        value += (digit % 32) * scale;
        if (digit < 32) return value;
      }
    };
    // How far down, and how much farther up; the lowest bit of that is its sign.
    const reach = (ratio) => {
      const [down, farther] = [number(), number()];
      const up = down + (farther % 2 ? -1 : 1) * Math.floor(farther / 2);
      return { low: ratio - down, high: ratio + up };
    };
    const answer = () => {
      if (text[at] === ".") return (at++, null);
      const code = number();
      const ratio = number();
      const interval = code >= 16 ? reach(ratio) : null;
      const standing = STANDINGS[code % 16];
      return { ratio, interval, standing, more: standing.wanted ? number() : 0 };
    };
    return data.rows.map(() => data.targets.map(answer));
  }

  const unpacked = [];
  /** The answers relative to a base, by row and target; null where there is none. */
  const relativeTo = (base) => (unpacked[base] ??= unpack(data.answers[base]));

  const separate = (whole) => String(whole).replace(/\B(?=(\d{3})+$)/g, ",");
  const decimals = (count, digits) => {
    const scale = 10 ** digits;
    return `${separate(Math.floor(count / scale))}.${String(count % scale).padStart(digits, "0")}`;
  };
  const hundredths = (steps) => Math.floor((steps + 100) / 200);
  const thousandths = (steps) => Math.floor((steps + 10) / 20);
  const ratioText = (answer) => (answer ? decimals(hundredths(answer.ratio), 2) : NONE);
  const ends = (answer) => [answer.interval.low, answer.interval.high].map((end) => decimals(thousandths(end), 3));
  const intervalText = (answer) => (answer?.interval ? `[${ends(answer).join(", ")}]` : NONE);

  const SLOWER = [98, 95, 90, 80, 67];
  const FASTER = [102, 105, 111, 125, 149];
  /** The colour of a ratio in hundredths. */
  function shade(count) {
    const slower = SLOWER.filter((limit) => count < limit).length;
    const faster = FASTER.filter((limit) => count > limit).length;
    return slower ? `s${slower}` : faster ? `f${faster}` : "n";
  }

  // Percent with one decimal, of steps; a bound is never rounded down.
  const percent = (permille) => `${decimals(permille, 1)} %`;
  const change = (answer) => {
    const size = percent(Math.floor((Math.abs(answer.ratio - ONE) + 10) / 20));
    return `${answer.ratio > ONE ? "faster" : "slower"} by ${size}`;
  };
  const bound = ({ interval }) => percent(Math.ceil(Math.max(Math.abs(interval.low - ONE), Math.abs(interval.high - ONE)) / 20));

  /** The answer in words, as `RelativeQps::words` has it. */
  function words(answer) {
    const { verdict, confirmed, flagged, wanted, bounded } = answer.standing;
    if (verdict === "faster" || verdict === "slower") return confirmed ? change(answer) : `${change(answer)}, not confirmed`;
    if (verdict === "same") return bounded ? `no change larger than ${bound(answer)}` : "no change";
    if (flagged) return `perhaps ${change(answer)}; fresh launches have to confirm it`;
    if (wanted) {
      const noun = answer.more === 1 ? "launch" : "launches";
      return `cannot tell yet; about ${answer.more} more ${noun} would settle ${data.settles * 100} %`;
    }
    return bounded ? `cannot tell; no change larger than ${bound(answer)}` : "cannot tell yet";
  }

  /** Summary of ratios in hundredths, in whole numbers, so that every tie is one: as in `src/analysis/summary.rs`. */
  function summarise(ratios) {
    const sorted = [...ratios].sort((a, b) => a - b);
    const count = sorted.length;
    if (count === 0) return null;
    const sum = sorted.reduce((total, ratio) => total + ratio, 0);
    const middle = sorted[(count - 1) >> 1] + sorted[count >> 1];
    return {
      count: String(count),
      min: decimals(sorted[0], 2),
      max: decimals(sorted[count - 1], 2),
      avg: decimals(Math.floor((2 * sum + count) / (2 * count)), 2),
      median: Math.floor((middle + 1) / 2),
      stdev: count > 1 ? decimals(deviation(sorted, sum), 2) : NONE,
    };
  }

  // The sample standard deviation s of n values, rounded half up: the largest k with (k − ½)² ≤ s².
  function deviation(ratios, sum) {
    const count = ratios.length;
    const spread = count * ratios.reduce((total, ratio) => total + ratio * ratio, 0) - sum * sum;
    const below = (k) => (2 * k - 1) ** 2 * count * (count - 1) <= 4 * spread;
    let k = Math.floor(Math.sqrt(spread / (count * (count - 1))));
    while (below(k + 1)) k += 1;
    while (k > 0 && !below(k)) k -= 1;
    return k;
  }

  /** Summary of a target's ratios over the rows of a group. */
  const summaryOf = (group, base, target) => {
    const answers = group.rows.map((row) => relativeTo(base)[row][target]).filter(Boolean);
    return summarise(answers.map((answer) => hundredths(answer.ratio)));
  };

  const gaps = new Map(data.gaps.map((gap) => [`${gap.row} ${gap.target}`, gap]));
  const gapAt = (row, target) => gaps.get(`${row} ${target}`);

  /** An element with attributes and children. */
  function make(name, attributes, ...children) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  }
  const link = ({ href, name, label }) => make("a", { href }, name ?? label);
  const ratioCell = (count) =>
    count === null ? make("td", { class: "num r" }, NONE) : make("td", { class: `num r ${shade(count)}` }, decimals(count, 2));

  /** Everything about a group's summary as cells, or null without a ratio. */
  function summaryCells(group, base, target) {
    const summary = summaryOf(group, base, target);
    if (!summary) return null;
    const cell = (text) => make("td", { class: "num" }, text);
    const { count, min, max, avg, median, stdev } = summary;
    return [count, min, max, avg].map(cell).concat(ratioCell(median), cell(stdev));
  }

  return {
    data, NONE, ONE, relativeTo, hundredths, ratioText, ends, intervalText, shade, words, decimals, summaryOf, gapAt, make, link,
    ratioCell, summaryCells,
  };
})();
