"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const { candidate, baseline, pairs } = JSON.parse(byId("data").textContent);
  const SIDES = ["left", "right"];

  // What was chosen so far, by pair: "left", "right", "tie" or nothing. Kept in the browser where it allows that.
  const place = `instruct-labels ${candidate} ${baseline} ${pairs.length} ${pairs[0].id}`;
  let chosen = pairs.map(() => null);
  let annotator = "";
  try {
    const kept = JSON.parse(localStorage.getItem(place));
    if (kept && kept.chosen.length === pairs.length) ({ chosen, annotator } = kept);
  } catch { /* starts empty */ }
  const keep = () => { try { localStorage.setItem(place, JSON.stringify({ chosen, annotator })); } catch { /* export it */ } };
  chosen = chosen.map((choice, index) => (pairs[index].identical ? "tie" : choice)); // those need no label

  let current = 0;
  const open = () => pairs.map((_, index) => index).filter((index) => chosen[index] === null);

  // Every text of a model goes in as text, never as markup.
  function show() {
    const left = open().length;
    byId("progress").textContent = `${pairs.length - left} of ${pairs.length} labeled`;
    byId("bar").value = pairs.length - left;
    const finished = left === 0 && current >= pairs.length;
    byId("pair").hidden = finished;
    byId("done").hidden = !finished;
    for (const button of document.querySelectorAll(".choice, #skip")) button.disabled = finished;
    byId("back").disabled = current === 0;
    byId("export").disabled = left === pairs.length;
    if (finished) return;
    const pair = pairs[current];
    byId("number").textContent = `${current + 1} of ${pairs.length}`;
    byId("prompt").textContent = pair.prompt;
    for (const [index, side] of SIDES.entries()) {
      byId(`answer-${side}`).textContent = pair.answers[index] || "(an empty answer)";
      byId(side).classList.toggle("chosen", chosen[current] === side);
    }
    for (const button of document.querySelectorAll(".choice"))
      button.setAttribute("aria-pressed", String(chosen[current] === button.dataset.choice));
    for (const id of ["prompt", "answer-left", "answer-right"]) byId(id).scrollTop = 0;
  }

  // The next pair without a label, first after this one, then from the beginning.
  function next() {
    const left = open();
    const after = left.find((index) => index > current);
    current = after ?? left.find((index) => index !== current) ?? (left.length ? current : pairs.length);
    show();
  }
  function choose(choice) {
    if (current >= pairs.length) return;
    chosen[current] = choice;
    keep();
    next();
  }
  function back() {
    do current -= 1; while (current > 0 && pairs[current].identical);
    current = Math.max(0, current);
    show();
  }

  function exported() {
    return pairs.map((pair, index) => {
      const choice = chosen[index];
      if (choice === null) return "";
      const other = pair.left === "candidate" ? "baseline" : "candidate";
      const label = choice === "tie" ? "tie" : choice === "left" ? pair.left : other;
      return JSON.stringify({ candidate, baseline, instruction: pair.id, label, annotator }) + "\n";
    }).join("");
  }
  function save() {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([exported()], { type: "application/x-ndjson" }));
    link.download = `labels-${candidate}-${baseline}.jsonl`.replace(/[^A-Za-z0-9._-]+/g, "-");
    link.click();
    URL.revokeObjectURL(link.href);
  }

  for (const button of document.querySelectorAll(".choice"))
    button.addEventListener("click", () => choose(button.dataset.choice));
  byId("back").addEventListener("click", back);
  byId("skip").addEventListener("click", next);
  byId("export").addEventListener("click", save);
  byId("annotator").value = annotator;
  byId("annotator").addEventListener("input", (event) => { annotator = event.target.value.trim(); keep(); });
  const KEYS = { 1: "left", ArrowLeft: "left", 2: "right", ArrowRight: "right", 0: "tie" };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "INPUT") return;
    if (event.key in KEYS) choose(KEYS[event.key]);
    else if (event.key === "Backspace") back();
    else if (event.key === "s" || event.key === "S") next();
    else return;
    event.preventDefault();
  });

  current = open()[0] ?? pairs.length;
  show();
})();
