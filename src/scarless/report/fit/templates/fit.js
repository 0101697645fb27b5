// Controls of the ranked rows: how many rows, class prior, filters, order, and download. Everything that is shown comes
// from the data in the page. Without this script, the page shows its first rows in two plain tables.
"use strict";
(() => {
  const byId = id => document.getElementById(id);
  const data = JSON.parse(byId("row-data").textContent);
  const NO_VALUE = "–";

  const rows = data.rows.map(([name, number, chance, low, high, label, reasons], i) => ({
    rank: i + 1, name, number, chance, low, high, label,
    reasons: reasons.map(([column, value, size]) => ({ column: data.columns[column], value, size })),
  }));
  for (const row of rows) {
    row.reasonText = row.reasons.map(each => `${each.column} ${each.value} (${each.size})`).join("; ");
    row.title = row.name === null ? `row ${row.number}` : row.name;
    row.chanceNow = row.chance;
    row.labelNow = row.label;
  }
  const start = { budget: data.shown, prior: data.estimate, sort: "rank", descending: false };
  const state = { ...start };

  // --- words

  const count = value => value.toLocaleString("en-US");
  const counted = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
  const fill = (words, values) => words.replace(/\{(\w+)\}/g, (_, name) => values[name]);
  const halfToEven = value => (Math.abs(value % 1) === 0.5 ? 2 * Math.round(value / 2) : Math.round(value));
  const percent = value => {
    if (value === null) return NO_VALUE;
    if (value >= 0.995 && value < 1) return ">99%";
    return value > 0 && value < 0.005 ? "<1%" : `${halfToEven(100 * value)}%`;
  };

  // --- class prior

  // Posterior q = f(1-e)/(1-fe) and propensity e of an unlabelled row, if the odds of the class are multiplied by
  // exp(ofClass) and those of a label by exp(ofLabel). The odds of q are then multiplied by `gain`.
  function shifted(q, e, [ofClass, ofLabel]) {
    const fade = Math.exp(-ofLabel), spread = e + (1 - e) * fade;
    const gain = Math.exp(ofClass) * fade / spread;
    return [q * gain / (q * gain + 1 - q), e / spread];
  }

  function choosePrior() {
    const step = data.priors[state.prior];
    const moved = step && state.prior !== data.estimate;
    for (const row of rows) {
      [row.chanceNow, row.labelNow] = moved ? shifted(row.chance, row.label, step) : [row.chance, row.label];
    }
    if (!step) return;
    byId("prior").value = state.prior;
    byId("prior").setAttribute("aria-valuetext", step[2]);
    byId("prior-share").textContent = step[2];
  }

  // --- number of rows

  function sentences(k) {
    const found = data.yield, words = data.words;
    if (!found) return null;
    if (!found.informative) return [k === 1 ? words.noEstimateOfOne : fill(words.noEstimate, { n: count(k) }), ""];
    const at = name => found[name][k - 1];
    const level = words.level, number = counted(k, "row");
    const first = fill(words.sentence, {
      rows: number, positives: counted(at("expected"), "positive"), level,
      low: count(at("low")), high: count(at("high")),
    });
    const random = count(at("random"));
    if (!found.naive) return [first, fill(words.random, { rows: number, random })];
    return [first, fill(words.naive, {
      rows: number, positives: counted(at("naive"), "positive"), level,
      low: count(at("naive_low")), high: count(at("naive_high")), random,
    })];
  }

  function shape(kind, attributes) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", kind);
    made.setAttribute("class", "budget");
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  }

  function markBudget() {
    const frame = data.frame, drawing = document.querySelector("[aria-labelledby^='yield-curve-title'] .shapes");
    if (!frame || !drawing) return;
    drawing.querySelectorAll(".budget").forEach(each => each.remove());
    const x = frame.left + (frame.right - frame.left) * Math.min(state.budget / frame.x, 1);
    const y = frame.bottom - (frame.bottom - frame.top) * data.yield.expected[state.budget - 1] / frame.y;
    drawing.append(shape("polyline", { points: `${x},${frame.top} ${x},${frame.bottom}` }));
    drawing.append(shape("circle", { cx: x, cy: y, r: 4 }));
  }

  function chooseBudget() {
    byId("budget").value = byId("budget-number").value = state.budget;
    const found = sentences(state.budget);
    if (found && byId("yield")) byId("yield").textContent = found[0];
    if (found && byId("comparison")) byId("comparison").textContent = found[1];
    markBudget();
  }

  // --- list

  const inRange = (value, name) => {
    const [low, high] = ["from", "to"].map(end => byId(`${name}-${end}`)?.value ?? "");
    if (low === "" && high === "") return true;
    return value !== null && (low === "" || 100 * value >= Number(low)) && (high === "" || 100 * value <= Number(high));
  };

  const contains = (text, part) => text.toLowerCase().includes(part.trim().toLowerCase());

  // A search looks at all rows of the page, so that an id is found also if its rank is beyond the chosen number.
  function chosenRows() {
    const find = byId("find").value.trim(), reason = byId("reason").value;
    const found = rows.filter(row =>
      (find ? contains(row.title, find) || String(row.number) === find : row.rank <= state.budget) &&
      contains(row.reasonText, reason) && inRange(row.chanceNow, "chance") && inRange(row.labelNow, "label"));
    const natural = new Intl.Collator("en", { numeric: true });
    const key = {
      rank: row => row.rank, name: row => row.title, reasons: row => row.reasonText,
      chance: row => row.chanceNow, label: row => row.labelNow,
    }[state.sort];
    const compare = (a, b) => {
      const [one, two] = [key(a), key(b)];
      if (one === two) return 0;
      if (one === null || two === null) return one === null ? 1 : -1;
      return typeof one === "string" ? natural.compare(one, two) : one - two;
    };
    const sign = state.descending ? -1 : 1;
    return found.sort((a, b) => sign * compare(a, b) || a.rank - b.rank);
  }

  function element(kind, text = "", className = "") {
    const made = document.createElement(kind);
    made.textContent = text;
    if (className) made.className = className;
    return made;
  }

  // The second line is the interval, or the estimate if another class prior is chosen.
  function chanceCell(now, estimate, between) {
    const cell = element("td", percent(now));
    const below = state.prior === data.estimate ? between : `estimate ${percent(estimate)}`;
    if (below) cell.append(element("small", below));
    return cell;
  }

  function reasonCell(row) {
    const cell = element("td", row.reasons.length ? "" : NO_VALUE, "words");
    for (const reason of row.reasons) {
      const part = element("span", "", "reason"), column = element("b");
      column.append(element("bdi", reason.column));
      part.append(column, " ", element("bdi", reason.value), ` (${reason.size})`);
      cell.append(part, " ");
    }
    return cell;
  }

  function tableRow(row) {
    const line = element("tr"), head = element("th", "", "id");
    head.scope = "row";
    head.append(element("bdi", row.title));
    if (row.name !== null) head.append(element("small", `row ${row.number}`));
    const between = row.low === null ? "" : `${percent(row.low)} to ${percent(row.high)}`;
    line.append(element("td", String(row.rank), "rank"), head, chanceCell(row.chanceNow, row.chance, between));
    line.append(reasonCell(row), chanceCell(row.labelNow, row.label, ""));
    return line;
  }

  function showList() {
    const listed = chosenRows();
    byId("list").replaceChildren(...listed.map(tableRow));
    const found = byId("find").value.trim()
      ? `${counted(listed.length, "row")} found among the ${count(rows.length)} rows that rank highest.`
      : `${counted(listed.length, "row")} listed, of the ${count(state.budget)} that rank highest. ` +
        `There are ${counted(data.unlabelled, "row")} without a label.`;
    // A printed page has no sliders, so this line says if the probabilities are not the estimates.
    const given = state.prior === data.estimate ? ""
      : ` The probabilities are those at a share of positives of ${data.priors[state.prior][2]}, not the estimates.`;
    byId("listed").textContent = found + given;
    for (const button of document.querySelectorAll("[data-sort]")) {
      const head = button.closest("th");
      head.removeAttribute("aria-sort");
      if (button.dataset.sort === state.sort) {
        head.setAttribute("aria-sort", state.descending ? "descending" : "ascending");
      }
    }
  }

  // --- download

  // As in the other files of scarless: a text that a spreadsheet would run as a formula gets an apostrophe in front.
  const FORMULA = /^[\t\r]|^[\s\p{Z}\p{C}]*[=+\-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b]/u;
  const NUMBER = /^ *[+-]?([0-9]+[.,]?[0-9]*|[.,][0-9]+)([eE][+-]?[0-9]+)?$/;

  function csvCell(value) {
    if (value === null) return "";
    if (typeof value === "number") return String(value);
    const safe = FORMULA.test(value) && !NUMBER.test(value) ? `'${value}` : value;
    return `"${safe.replaceAll('"', '""')}"`;
  }

  function csv() {
    const moved = state.prior !== data.estimate;
    const label = "probability of a label, if positive";
    const head = ["rank", "row", "id", data.measure, "low", "high", label, "main reasons"];
    if (moved) {
      const given = `at a share of positives of ${data.priors[state.prior][2]}`;
      head.push(`${data.measure}, ${given}`, `${label}, ${given}`);
    }
    const lines = chosenRows().map(row => {
      const cells = [row.rank, row.number, row.name, row.chance, row.low, row.high, row.label, row.reasonText];
      return moved ? [...cells, row.chanceNow, row.labelNow] : cells;
    });
    return [head, ...lines].map(line => line.map(csvCell).join(",") + "\n").join("");
  }

  function download() {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csv()], { type: "text/csv;charset=utf-8" }));
    link.download = "rows-to-check.csv";
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  // --- events

  function show() {
    choosePrior();
    chooseBudget();
    showList();
  }

  function setBudget(value) {
    const number = Math.round(Number(value));
    if (!Number.isFinite(number) || number < 1) return; // while a number is being typed
    state.budget = Math.min(number, rows.length);
    chooseBudget();
    showList();
  }

  byId("budget").addEventListener("input", event => setBudget(event.target.value));
  byId("budget-number").addEventListener("change", event => {
    setBudget(event.target.value);
    event.target.value = state.budget;
  });
  for (const id of ["find", "reason", "chance-from", "chance-to", "label-from", "label-to"]) {
    byId(id)?.addEventListener("input", showList);
  }
  for (const button of document.querySelectorAll("[data-sort]")) {
    button.addEventListener("click", () => {
      const again = state.sort === button.dataset.sort;
      state.descending = again ? !state.descending : ["chance", "label"].includes(button.dataset.sort);
      state.sort = button.dataset.sort;
      showList();
    });
  }
  function setPrior(place) {
    state.prior = place;
    choosePrior();
    showList();
  }
  byId("prior")?.addEventListener("input", event => setPrior(Number(event.target.value)));
  byId("prior-back")?.addEventListener("click", () => setPrior(data.estimate));
  byId("download").addEventListener("click", download);
  byId("reset").addEventListener("click", () => {
    document.querySelectorAll("#tools .filters input").forEach(input => { input.value = ""; });
    Object.assign(state, start);
    show();
  });

  byId("first-rows").hidden = true;
  byId("tools").hidden = false;
  show();
})();
