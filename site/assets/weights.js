"use strict";
// Weights as a person writes them, or psql: one name and one number per line.
regtrack.weights = (() => {
  const { data } = regtrack;
  const NUMBER = /^\d+(\.\d+)?(e[+-]?\d+)?%?$/i;
  // Rules under heads, and the count below a table.
  const ORNAMENT = /^[-+|=\s]*$|^\(\d+ rows?\)$/i;

  /** The rows that a name stands for. */
  function rowsOf(name) {
    const exact = data.rows.findIndex((row) => row.name === name);
    if (exact >= 0) return [exact];
    const group = data.groups.find((one) => one.name === name);
    if (group) return group.rows;
    const begins = (row) => [".", "_"].some((next) => row.name.startsWith(name + next));
    return data.rows.flatMap((row, index) => (begins(row) ? [index] : []));
  }

  /** The parts of a line: everything before the last gap is the name. */
  function split(line) {
    const [, name, number] = /^["|]?\s*(.*?)["\s|,;:]+(\S+?)[|,;]?$/.exec(line) ?? [null, line, ""];
    return { name, number };
  }

  /** Shares by row that add up to 1, or what is wrong with the first line that is not understood. */
  function parse(text) {
    const lines = text.split("\n").map((line, index) => ({ line: line.trim(), at: index + 1 })).filter(({ line }) => !ORNAMENT.test(line));
    const weights = data.rows.map(() => 0);
    for (const [index, { line, at }] of lines.entries()) {
      const { name, number } = split(line);
      const rows = rowsOf(name);
      if (!NUMBER.test(number)) {
        if (index === 0 && rows.length === 0 && !/\d/.test(number)) continue; // The heads of a table.
        return { error: `Line ${at}, “${line}”: write a name and a number that is not negative, such as “writes 60”.` };
      }
      if (rows.length === 0) {
        return { error: `Line ${at}: “${name}” is neither a microbenchmark nor a group of this sweep.` };
      }
      for (const row of rows) weights[row] += parseFloat(number) / rows.length;
    }
    const sum = weights.reduce((total, weight) => total + weight, 0);
    if (!(sum > 0) || !Number.isFinite(sum)) return { error: "There is no weight above zero: write a line such as “writes 60”." };
    return { weights: weights.map((weight) => weight / sum) };
  }

  return { parse };
})();
