"use strict";
// What is shown is written in the address behind the `#`, so that every view has a link and the browser's way back
// works. What the address asks for and this sweep does not have is ignored, and said.
Object.assign(regtrack, (() => {
  const { data } = regtrack;

  /** The target of a label, or of a major: its first or its last release here. */
  function findTarget(name, which = "last") {
    const exact = data.targets.findIndex((target) => target.label === name);
    if (exact >= 0) return exact;
    const isOfMajor = (target) => target.major === name;
    const found = which === "first" ? data.targets.findIndex(isOfMajor) : data.targets.findLastIndex(isOfMajor);
    return found < 0 ? null : found;
  }
  const findGroup = (name) => {
    const found = data.groups.findIndex((group) => group.name === name);
    return found < 0 ? null : found;
  };
  const labelOf = (target) => data.targets[target].label;
  const oneOf = (...values) => ({ read: (text) => (values.includes(text) ? text : null), write: (value) => value });

  /** Kinds of values: from and to the text in the address. */
  const kinds = {
    target: { read: (text) => findTarget(text), write: labelOf },
    first: { read: (text) => findTarget(text, "first"), write: labelOf },
    group: { read: findGroup, write: (group) => data.groups[group].name },
    text: { read: (text) => text, write: (text) => text },
    oneOf,
  };

  /** The values that the address has for the fields of a page, and what it has that they do not allow. */
  function read(fields) {
    const text = location.hash.slice(1);
    const state = Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, field.otherwise]));
    const ignored = [];
    // Without an equals sign it is a place on the page.
    for (const [name, value] of text.includes("=") ? new URLSearchParams(text) : []) {
      const found = Object.hasOwn(fields, name) ? fields[name].kind.read(value) : null;
      if (found === null) ignored.push(`${name}=${value}`);
      else state[name] = found;
    }
    return { state, ignored };
  }

  /** Makes the address that of a view; a value that is the usual one is left out. */
  function write(fields, state) {
    const parameters = new URLSearchParams();
    for (const [name, field] of Object.entries(fields)) {
      if (state[name] !== field.otherwise) parameters.set(name, field.kind.write(state[name]));
    }
    const text = parameters.toString();
    const page = location.href.split("#")[0];
    if (location.hash.slice(1) !== text) history.pushState(null, "", text ? `${page}#${text}` : page);
  }

  /** Says what of the address was ignored. */
  function tell(element, ignored) {
    const what = ignored.map((part) => `“${part}”`).join(", ");
    element.textContent = ignored.length > 0 ? `The address asks for ${what}, which this page does not have; it was ignored.` : "";
    element.hidden = ignored.length === 0;
  }

  /** Calls `show` now and whenever the reader goes back, forward or to another fragment. */
  function follow(show) {
    addEventListener("popstate", show);
    addEventListener("hashchange", show);
    show();
  }

  /** A labelled choice; `choices` are pairs of value and text. */
  function choice(name, label, choices) {
    const { make } = regtrack;
    const select = make("select", { name });
    select.append(...choices.map(([value, text]) => make("option", { value }, text)));
    return make("label", {}, `${label} `, select);
  }
  const targetChoices = () => data.targets.map((target, index) => [String(index), target.label]);
  const groupChoices = () => [["", "all"], ...data.groups.map((group, index) => [String(index), group.name || "without group"])];
  const numberOf = (select) => (select.value === "" ? null : Number(select.value));

  return { fragment: { kinds, read, write, tell, follow }, controls: { choice, targetChoices, groupChoices, numberOf } };
})());
for (const element of document.querySelectorAll(".script")) element.hidden = false;
