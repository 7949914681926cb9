"use strict";
(() => {
  const PAGE = 50;
  const byId = (id) => document.getElementById(id);
  const root = document.documentElement;

  // Light and dark: the system's choice until the reader makes one, which is kept where the browser allows it.
  const toggle = byId("theme");
  const systemDark = matchMedia("(prefers-color-scheme: dark)");
  const remembered = () => { try { return localStorage.getItem("instruct-report-theme"); } catch { return null; } };
  function showTheme(theme) {
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : systemDark.matches;
    toggle.textContent = dark ? "Light" : "Dark";
    toggle.setAttribute("aria-label", `Switch to ${dark ? "light" : "dark"} colors`);
    toggle.setAttribute("aria-pressed", String(dark));
  }
  toggle.addEventListener("click", () => {
    const theme = toggle.getAttribute("aria-pressed") === "true" ? "light" : "dark";
    try { localStorage.setItem("instruct-report-theme", theme); } catch { /* a page from disk may not keep anything */ }
    showTheme(theme);
  });
  systemDark.addEventListener("change", () => showTheme());
  showTheme(remembered());

  byId("print").addEventListener("click", () => print());

  // What follows the verdict and the pairs starts folded; links open it, and so does printing, which shows everything.
  function unfold(id) {
    const fold = byId(id)?.querySelector(":scope > details");
    if (fold) fold.open = true;
  }
  for (const link of document.querySelectorAll("a[href^='#']"))
    link.addEventListener("click", () => unfold(link.hash.slice(1)));
  unfold(location.hash.slice(1));
  addEventListener("beforeprint", () => { for (const fold of document.querySelectorAll("details")) fold.open = true; });

  // Which comparison is shown.
  let chosen = 0;
  const choose = byId("comparison");
  function showComparison(number) {
    chosen = number;
    for (const part of document.querySelectorAll("[data-comparison]")) part.hidden = Number(part.dataset.comparison) !== number;
    for (const button of document.querySelectorAll("[data-choose]"))
      if (Number(button.dataset.choose) === number) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    if (choose) choose.value = String(number);
    if (pairs) startComparison();
  }
  if (choose) choose.addEventListener("change", () => showComparison(Number(choose.value)));
  for (const button of document.querySelectorAll("[data-choose]"))
    button.addEventListener("click", () => {
      showComparison(Number(button.dataset.choose));
      byId("verdict").scrollIntoView();
    });

  // The pairs.
  let pairs = null; // what Python packed, once it is unpacked
  let names = [];
  let found = []; // the pairs of this comparison that the filters leave, in order
  let current = null;
  let firstShown = 0;
  const fields = ["outcome", "orders", "dataset", "length", "sort"];
  const OUTCOMES = { win: "win", tie: "tie", loss: "loss", unparsed: "unparsed", failed: "failed", open: "not judged in full" };
  const ORDER = Object.keys(OUTCOMES);

  // Every text of a model goes through here: as text, never as markup.
  function element(tag, className, text, ...children) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== null && text !== undefined) made.textContent = text;
    made.append(...children);
    return made;
  }
  const stored = (number) => { const text = pairs.texts[number]; return typeof text === "string" ? [text, text.length] : text; };
  const plain = (number) => (number === null || number === undefined ? "" : stored(number)[0]);
  const all = () => pairs.comparisons[chosen].pairs;
  const difference = (pair) => (pair.l ? pair.l[0] - pair.l[1] : 0);
  const count = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;

  function startComparison() {
    const dataset = byId("dataset");
    dataset.replaceChildren(new Option("all", ""));
    for (const name of [...new Set(all().map((pair) => pair.d))].sort()) dataset.append(new Option(name, name));
    current = null;
    filter();
  }

  function matches(pair, words) {
    const outcome = byId("outcome").value, orders = byId("orders").value;
    const dataset = byId("dataset").value, length = byId("length").value;
    if (outcome && pair.o !== outcome) return false;
    if (orders && Boolean(pair.x) !== (orders === "inconsistent")) return false;
    if (dataset && pair.d !== dataset) return false;
    if (length) {
      const similar = pair.l && Math.abs(difference(pair)) <= 0.1 * Math.max(...pair.l);
      if (!pair.l || (length === "similar" ? !similar : length === "longer" ? difference(pair) <= 0 : difference(pair) >= 0)) return false;
    }
    if (!words.length) return true;
    const said = pair.v.flatMap((each) => each.w || []);
    const text = [pair.p, pair.c, pair.b, ...said].map(plain).join("\n").toLowerCase();
    return words.every((word) => text.includes(word));
  }

  const SORTS = {
    number: (a, b) => a.n - b.n,
    result: (a, b) => ORDER.indexOf(a.o) - ORDER.indexOf(b.o) || a.n - b.n,
    longer: (a, b) => difference(b) - difference(a) || a.n - b.n,
    shorter: (a, b) => difference(a) - difference(b) || a.n - b.n,
    candidate: (a, b) => (b.l ? b.l[0] : -1) - (a.l ? a.l[0] : -1) || a.n - b.n,
    baseline: (a, b) => (b.l ? b.l[1] : -1) - (a.l ? a.l[1] : -1) || a.n - b.n,
  };

  function filter(kept) {
    const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    found = all().filter((pair) => matches(pair, words)).sort(SORTS[byId("sort").value]);
    const more = pairs.comparisons[chosen].more;
    byId("count").textContent = `${found.length.toLocaleString("en")} of ${count(all().length, "pair")}` +
      (more ? `; ${count(more, "pair")} more are in this comparison and not on this page` : "");
    firstShown = 0;
    showPair(kept || found[0] || null, false);
  }

  function showList() {
    const place = Math.max(0, found.indexOf(current));
    if (place < firstShown || place >= firstShown + PAGE) firstShown = Math.floor(place / PAGE) * PAGE;
    listPage();
  }

  function listPage() {
    const list = byId("list");
    list.replaceChildren(...found.slice(firstShown, firstShown + PAGE).map((pair) => {
      const button = element("button", "");
      button.type = "button";
      if (pair === current) button.setAttribute("aria-current", "true");
      const about = element("span", "", `${pair.n}`);
      if (pair.x) about.append(element("span", "tag", "inconsistent"));
      if (pair.i) about.append(element("span", "tag", "identical"));
      const excerpt = element("span", "excerpt", plain(pair.p).slice(0, 160));
      excerpt.dir = "auto";
      button.append(element("span", `badge ${pair.o}`, OUTCOMES[pair.o]), about, excerpt);
      button.addEventListener("click", () => showPair(pair, true));
      return element("li", "", null, button);
    }));
    const last = Math.min(firstShown + PAGE, found.length);
    byId("page").textContent = found.length ? `${firstShown + 1} to ${last} of ${found.length}` : "";
    byId("earlier").disabled = firstShown === 0;
    byId("later").disabled = last >= found.length;
    const active = list.querySelector("[aria-current]");
    if (active) {
      const top = active.parentElement.offsetTop - list.offsetTop, bottom = top + active.offsetHeight;
      if (top < list.scrollTop) list.scrollTop = top;
      else if (bottom > list.scrollTop + list.clientHeight) list.scrollTop = bottom - list.clientHeight;
    }
  }

  function textBox(number) {
    const [text, whole] = stored(number);
    const box = element("div", "text", text);
    box.dir = "auto";
    if (text.length > 1200) box.tabIndex = 0; // it may scroll
    const parts = [box];
    if (whole > text.length) parts.push(element("p", "cut", `The first ${count(text.length, "character")} of ${whole.toLocaleString("en")}; the run holds the rest.`));
    if (!text.trim()) parts.push(element("p", "cut", "This text is empty."));
    return parts;
  }

  function answer(pair, side, name) {
    const number = side === "candidate" ? pair.c : pair.b;
    const won = pair.o === (side === "candidate" ? "win" : "loss");
    const length = pair.l ? pair.l[side === "candidate" ? 0 : 1] : null;
    const title = element("h3", "", name, element("small", "", (side === "candidate" ? side : "other") + (length === null ? "" : `, ${count(length, "character")}`) + (won ? ", preferred" : "")));
    const box = element("section", `box ${side}${won ? " won" : ""}`, null, title);
    box.setAttribute("aria-label", `Answer of ${name}`);
    box.append(...(number === null ? [element("p", "cut", "The run does not hold this answer.")] : textBox(number)));
    return box;
  }

  const SAID = { tie: () => "a tie", unparsed: () => "unreadable", failed: () => "no reply" };

  function verdict(each, who, identical) {
    const alone = Boolean(each.g) || (each.w && each.w.length === 2);
    const preferred = SAID[each.o] ? SAID[each.o]() : `${each.o === "win" ? who.candidate : who.baseline} preferred`;
    const order = alone ? "Rated one by one" : !each.f ? "Order not known" : `${each.f === "first" ? who.candidate : who.baseline} shown first`;
    const box = element("section", "box", null, element("h3", "", order, element("small", "", preferred)));
    box.setAttribute("aria-label", `${order}: ${preferred}`);
    const shown = each.f === "first" ? [who.candidate, who.baseline] : [who.baseline, who.candidate];
    const lines = [];
    if (each.g) lines.push(`ratings: ${shown.map((name, place) => `${name} ${each.g[place]}`).join(", ")}`);
    if (each.q !== undefined && each.f) lines.push(`preference in the order shown: ${each.q} (1 the first, 2 the second)`);
    if (each.k) lines.push(`log-probabilities: ${each.k}`);
    if (each.r) lines.push(`reason: ${each.r}`);
    for (const line of lines) box.append(element("p", "text", line));
    (each.w || []).forEach((number, place) => {
      if (alone) box.append(element("p", "text", `On ${shown[place]}'s answer:`));
      box.append(element("div", "words", null, ...textBox(number)));
    });
    if (!each.w && each.o !== "failed") box.append(element("p", "note", identical ? "The judge was not asked." : "The judge's words are not kept."));
    return box;
  }

  function showPair(pair, scroll) {
    current = pair;
    showList();
    const place = byId("pair");
    if (!pair) {
      place.replaceChildren(element("p", "note", "No pair fits these filters."));
      return;
    }
    const who = names[chosen];
    const head = element("div", "head", null, element("h3", "", `Pair ${pair.n}`), element("span", `badge ${pair.o}`, OUTCOMES[pair.o]));
    if (pair.s !== undefined) head.append(element("span", "badge", `score ${pair.s}`));
    if (pair.x) head.append(element("span", "badge", "inconsistent"));
    if (pair.i) head.append(element("span", "badge", "identical answers"));
    if (pair.t) head.append(element("span", "badge", "trimmed for the judge"));
    head.append(element("span", "badge", pair.d));
    const link = element("a", "", "link to this pair");
    link.href = address(pair);
    const step = element("span", "step");
    for (const [text, by] of [["Previous", -1], ["Next", 1]]) {
      const button = element("button", "", text);
      button.type = "button";
      button.disabled = !found[found.indexOf(pair) + by];
      button.addEventListener("click", () => { move(by); focusStep(text); });
      step.append(button);
    }
    head.append(link, step);
    const prompt = element("section", "box prompt", null, element("h3", "", "Prompt"), ...textBox(pair.p));
    prompt.setAttribute("aria-label", "Prompt");
    place.setAttribute("aria-label", `Pair ${pair.n}, ${OUTCOMES[pair.o]}`);
    place.replaceChildren(
      head, prompt,
      element("div", "two", null, answer(pair, "candidate", who.candidate), answer(pair, "baseline", who.baseline)),
      element("div", pair.v.length > 1 ? "two" : "", null, ...pair.v.map((each) => verdict(each, who, pair.i))),
    );
    if (scroll) {
      history.replaceState(null, "", address(pair));
      place.scrollIntoView({ block: "start", behavior: "auto" });
    }
  }

  const address = (pair) => `#pair-${chosen}-${pair.n}`;
  function focusStep(text) {
    const button = [...byId("pair").querySelectorAll(".step button")].find((each) => each.textContent === text);
    if (button && !button.disabled) button.focus({ preventScroll: true });
  }
  function move(by) {
    const next = found[found.indexOf(current) + by];
    if (!next) return;
    showPair(next, true);
    byId("pair").focus({ preventScroll: true });
  }

  function follow() {
    const [, comparison, number] = location.hash.match(/^#pair-(\d+)-(\d+)$/) || [];
    if (comparison === undefined || !pairs.comparisons[comparison]) return;
    const pair = pairs.comparisons[comparison].pairs.find((each) => each.n === Number(number));
    if (!pair) return;
    clear();
    if (Number(comparison) !== chosen) showComparison(Number(comparison));
    showPair(pair, true);
  }

  function clear() {
    byId("search").value = "";
    for (const id of fields) byId(id).selectedIndex = 0;
    filter(current);
  }

  function ready(data) {
    pairs = data;
    let wait = 0;
    byId("search").addEventListener("input", () => { clearTimeout(wait); wait = setTimeout(() => filter(), 120); });
    for (const id of fields) byId(id).addEventListener("change", () => filter());
    byId("clear").addEventListener("click", () => { clearTimeout(wait); clear(); });
    byId("earlier").addEventListener("click", () => { firstShown = Math.max(0, firstShown - PAGE); listPage(); });
    byId("later").addEventListener("click", () => { firstShown += PAGE; listPage(); });
    addEventListener("hashchange", follow);
    addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
      if (event.key === "Escape" && typing) event.target.blur();
      if (typing) return;
      if (event.key === "/") { event.preventDefault(); byId("search").focus(); return; }
      const inList = byId("list").contains(event.target);
      if (event.key === "j" || (inList && event.key === "ArrowDown")) { event.preventDefault(); move(1); }
      else if (event.key === "k" || (inList && event.key === "ArrowUp")) { event.preventDefault(); move(-1); }
      else return;
      if (inList) { const active = byId("list").querySelector("[aria-current]"); if (active) active.focus({ preventScroll: true }); }
    });
    startComparison();
    follow();
  }

  async function unpack() {
    const given = JSON.parse(byId("data").textContent);
    names = given.names;
    const letters = atob(given.packed);
    const bytes = new Uint8Array(letters.length);
    for (let i = 0; i < letters.length; i += 1) bytes[i] = letters.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    ready(JSON.parse(await new Response(stream).text()));
  }
  if (byId("data"))
    unpack().catch(() => { byId("count").textContent = "The pairs could not be unpacked; open the page in a browser of 2023 or later."; });
})();
