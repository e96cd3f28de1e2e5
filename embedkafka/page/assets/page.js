"use strict";
const given = JSON.parse(document.getElementById("data").textContent);
const wanted = new URLSearchParams(location.hash.slice(1));
const token = wanted.get("token") || "";
const TABS = [...(given.tests ? ["tests"] : []), "overview", "topics", "groups", "requests"];
const view = { data: given.live ? null : given, tab: TABS[0], cluster: 0, topic: null, search: "",
  records: [], error: "", schema: "" };

// -- small pieces

const $ = (id) => document.getElementById(id);

// Everything from a cluster becomes text nodes, never markup.
function el(name, attributes, ...children) {
  const made = name.startsWith("svg:")
    ? document.createElementNS("http://www.w3.org/2000/svg", name.slice(4))
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

function panel(title, ...children) {
  return el("section", { class: "panel" }, title ? el("h2", {}, title) : null, ...children);
}

function table(heads, rows, empty) {
  if (!rows.length) return el("p", { class: "empty" }, empty);
  const numeric = heads.map((head) => head.startsWith("#"));
  return el("div", { class: "scroll" }, el("table", {},
    el("thead", {}, el("tr", {}, heads.map((head, at) =>
      el("th", { scope: "col", class: numeric[at] ? "n" : null }, head.replace("#", ""))))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell, at) =>
      cell instanceof Element && cell.tagName === "TD" ? cell
        : el("td", { class: numeric[at] ? "n" : null }, cell === null ? "–" : cell)))))));
}

const clock = (ms) => new Date(ms).toISOString().slice(11, 23);
const cluster = () => view.data.clusters[view.cluster] || view.data.clusters[0];
// Two that have one name are told apart by when they began.
const nameOf = (one) => (view.data.clusters.some((each) => each !== one && each.label === one.label)
  ? `${one.label} from ${clock(one.timeline.started)}` : one.label);
const state = () => cluster().state;
const cut = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);

// -- tests of a run, those that failed first

const failed = () => given.tests.filter((test) => test.outcome === "failed");
// A cluster that several tests share may come and go: each time is a document, under one label.
const usedBy = (test, each) => test.clusters.includes(each.label) && each.timeline.started <= test.to && each.timeline.ended >= test.from;
const seconds = (test) => `${((test.to - test.from) / 1000).toFixed(2)} s`;

function tests() {
  const others = given.tests.filter((test) => test.outcome !== "failed");
  return [...failed().map(failure),
    panel(`${failed().length ? "Other tests" : "Tests"} with Kafka (${others.length})`, table(["test", "outcome", "#time", "clusters"], others.map((test) => [
      el("td", { class: "mono wrap" }, test.id), el("span", { class: `chip ${test.outcome === "passed" ? "good" : ""}` }, test.outcome), seconds(test),
      el("td", { class: "wrap" }, links(test))]), "There were no others."))];
}

function failure(test, at) {
  return el("section", { class: "panel failure", id: `failed-${at + 1}` },
    el("div", { class: "row" }, el("span", { class: "chip bad" }, "failed"),
      el("a", { class: "mono", href: `#failed-${at + 1}` }, test.id), el("span", { class: "muted" }, `${seconds(test)} from ${clock(test.from)}`)),
    el("pre", { class: "message" }, test.message),
    test.troubles.length ? el("ul", { class: "plain bad-text" }, test.troubles.map((line) => el("li", {}, line))) : null,
    test.sections.map(([name, text], part) => el("details", { id: `part-${at}-${part}`, open: at === 0 && name.startsWith("Kafka") ? "" : null },
      el("summary", {}, name), el("pre", {}, text))),
    given.clusters.filter((each) => usedBy(test, each)).map((each) => el("div", {},
      el("h2", {}, nameOf(each)), timeline(within(each.timeline, test)))),
    el("div", { class: "row" }, links(test)));
}

function links(test) {
  return el("span", {}, test.clusters.map((label) => {
    const at = given.clusters.findIndex((each) => each.label === label && usedBy(test, each));
    return at < 0 ? label : el("button", { type: "button", onclick: () => { view.cluster = at; view.topic = null;
      view.named = (given.clusters[at].state.topics || []).find((topic) => topic.owner === test.id)?.name; show("topics"); } }, `topics in ${label}`);
  }));
}

// The time of one test, with a little around it.
function within(data, test) {
  const around = Math.max(100, (test.to - test.from) / 10);
  const started = test.from - around, ended = test.to + around;
  const meets = (from, to) => from <= ended && to >= started;
  const then = (all) => all.filter((each) => meets(each.at, each.at));
  return { started, ended, spans: data.spans.filter((each) => meets(each.from, each.to)), events: then(data.events),
    changes: then(data.changes), throughput: data.throughput.filter(([at]) => meets(at, at)) };
}

// -- overview

function overview() {
  const s = state();
  const troubles = s.troubles || [];
  return [
    panel(given.live ? "Wrong now" : "Wrong at the end", troubles.length
      ? el("dl", { class: "trouble" }, troubles.flatMap((each) => [el("dt", {}, each.kind), el("dd", {}, each.what)]))
      : el("p", { class: "empty" }, given.live ? "Nothing is." : "Nothing was."),
    (s.held || []).length ? el("ul", { class: "plain muted" }, s.held.map((line) => el("li", {}, line))) : null),
    panel("Timeline", timeline(cluster().timeline)),
    panel("Brokers", el("div", { class: "brokers" }, (s.brokers || []).map((each) => broker(each, s.can_act))),
      s.can_act ? actions() : null),
    (s.errors || []).length ? panel("Answers with errors", el("ul", { class: "plain mono" }, s.errors.map((line) => el("li", {}, line)))) : null,
  ];
}

function broker(each, canAct) {
  const act = (action, label, enabled) => el("button", {
    type: "button", disabled: enabled ? null : "", "aria-label": `${label} broker ${each.id}`,
    onclick: () => send({ action, broker: each.id }) }, label);
  const up = each.state === "running", paused = each.state === "paused";
  return el("div", { class: "broker" },
    el("div", { class: "row" }, el("strong", {}, `broker ${each.id}`),
      el("span", { class: `chip ${up ? "good" : paused ? "warn" : "bad"}` }, each.state),
      each.controller ? el("span", { class: "chip" }, "controller") : null),
    el("div", { class: "row mono muted" }, each.address || "no address"),
    canAct && given.live ? el("div", { class: "row" },
      up || paused ? act("kill", "Kill", true) : act("start", "Start", true),
      paused ? act("resume", "Resume", true) : act("pause", "Pause", up),
      act("partition", "Cut off", up)) : null);
}

function actions() {
  if (!given.live) return null;
  const jump = (seconds, label) => el("button", { type: "button", onclick: () => send({ action: "advance", seconds }) }, label);
  return el("div", { class: "row", style: "margin-top:12px" },
    el("button", { type: "button", onclick: () => send({ action: "heal" }) }, "Heal the network"),
    el("span", { class: "muted" }, "Clock:"), jump(60, "+1 minute"), jump(3600, "+1 hour"), jump(8 * 86400, "+8 days"),
    state().clock ? el("span", { class: "chip warn" }, state().clock) : null);
}

const LANES = ["test", "batch", "transaction", "fault"];
const NAMES = { test: "tests", batch: "Spark batches", transaction: "transactions", fault: "faults" };

function timeline(data) {
  const width = Math.max(320, Math.min(1600, document.documentElement.clientWidth - 74));
  const left = 104, right = 8, row = 20;
  const from = data.started, to = Math.max(data.ended, from + 1000);
  const x = (ms) => left + Math.max(0, Math.min(1, (ms - from) / (to - from))) * (width - left - right);
  const lanes = [...new Set(data.spans.map((span) => span.lane))]
    .sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
  const parts = [];
  let y = 8;
  for (const lane of lanes) {
    parts.push(el("svg:text", { x: 0, y: y + 12 }, NAMES[lane] || lane));
    for (const span of data.spans.filter((each) => each.lane === lane)) {
      const begin = x(span.from), end = Math.max(x(span.to), begin + 2);
      const name = span.text.split("::").at(-1), room = Math.floor((end - begin - 8) / 6.5);
      parts.push(el("svg:rect", { x: begin, y, width: end - begin, height: 14, rx: 3, class: `s-${span.status}`, "fill-opacity": 0.82 },
        el("svg:title", {}, `${span.text} (${span.status}), ${((span.to - span.from) / 1000).toFixed(2)} s from ${clock(span.from)}`)),
      room >= Math.min(8, name.length) ? el("svg:text", { x: begin + 5, y: y + 11, class: "name" }, cut(name, room)) : "");
    }
    y += row;
  }
  for (const [name, events] of [["state changes", data.changes], ["events", data.events]]) {
    parts.push(el("svg:text", { x: 0, y: y + 12 }, name));
    parts.push(el("svg:line", { class: "axis", x1: left, x2: width - right, y1: y + 8, y2: y + 8 }));
    for (const event of events) {
      parts.push(el("svg:circle", { cx: x(event.at), cy: y + 8, r: 4, class: `e-${event.lane}` },
        el("svg:title", {}, `${clock(event.at)} ${event.text}`)));
    }
    y += row;
  }
  y += 4;
  const most = Math.max(1, ...data.throughput.map((point) => point[1]));
  const height = 54, base = y + height;
  const points = data.throughput.map(([at, rate]) => `${x(at).toFixed(1)},${(base - rate / most * height).toFixed(1)}`);
  parts.push(el("svg:text", { x: 0, y: y + 12 }, "records/s"), el("svg:text", { x: 0, y: y + 28 }, `max ${Math.round(most)}`));
  if (points.length) {
    parts.push(el("svg:polygon", { class: "area", points: `${x(data.throughput[0][0])},${base} ${points.join(" ")} ${x(data.throughput.at(-1)[0])},${base}` }),
      el("svg:polyline", { class: "curve", points: points.join(" ") }));
  }
  parts.push(el("svg:line", { class: "axis", x1: left, x2: width - right, y1: base, y2: base }));
  for (let at = 0; at <= 4; at++) {
    const ms = from + (to - from) * at / 4;
    const anchor = at === 0 ? "start" : at === 4 ? "end" : "middle";
    if (width > 560 || at % 2 === 0) parts.push(el("svg:text", { x: x(ms), y: base + 16, "text-anchor": anchor }, clock(ms).slice(0, 10)));
  }
  const legend = [["--good", "passed, running"], ["--bad", "failed, killed, election"], ["--warn", "fault, paused, in-sync replicas"],
    ["--violet", "transaction, rebalance"], ["--accent", "controller, Spark batch, records/s"]];
  return el("div", {}, el("div", { class: "scroll" },
    el("svg:svg", { viewBox: `0 0 ${width} ${base + 22}`, role: "img", "aria-label": "Timeline of the run" }, parts)),
  el("div", { class: "legend" }, legend.map(([color, text]) => el("span", {}, el("i", { style: `background:var(${color})` }), text))),
  data.lag && happened(lanes.filter((lane) => NAMES[lane]).map((lane) => NAMES[lane]).join(", "), data.spans.filter((each) => NAMES[each.lane])
    .map((each) => ({ at: each.from, text: `${each.text} (${each.status})` }))),
  data.lag && happened("events", data.events), data.lag && happened("state changes", data.changes),
  data.lag && happened("controller events", data.spans.filter((each) => each.lane === "controller").map((each) => (
    { at: each.from, text: `${each.text}, took ${(each.to - each.from).toFixed(1)} ms` }))));
}

function happened(name, events) {
  return events.length ? el("details", { id: `all-${name.replace(/\W+/g, "-")}`, style: "margin-top:8px" }, el("summary", {}, `${name} (${events.length})`),
    table(["time", "what"], events.slice(-200).reverse().map((event) => [clock(event.at), el("td", { class: "wrap" }, event.text)]), "")) : null;
}

const rank = (lane) => (LANES.includes(lane) ? LANES.indexOf(lane) : lane.startsWith("broker") ? 1.5 : lane.startsWith("controller") ? 1.7 : 5);

// -- topics

const keyOf = (topic) => `${topic.owner || ""} ${topic.name}`;

function topics() {
  const all = (state().topics || []);
  if (!all.length) return [panel("Topics", el("p", { class: "empty" }, "There are none."))];
  let topic = all.find((each) => keyOf(each) === view.topic) || all.find((each) => each.name === view.named);
  if (topic) view.topic = keyOf(topic);
  if (!topic) { topic = all[0]; view.topic = keyOf(topic); }
  let owner = null;
  const list = all.flatMap((each) => {
    const head = each.owner && each.owner !== owner ? [el("div", { class: "owner" }, each.owner)] : [];
    owner = each.owner;
    const count = each.partitions.length;
    const bad = each.partitions.some((one) => one.leader === null);
    return [...head, el("button", { type: "button", "data-topic": keyOf(each), "aria-current": String(each === topic),
      class: bad ? "bad-text" : null, onclick: () => choose(keyOf(each)) }, each.name, el("small", {}, `${count} part.`))];
  });
  const rows = topic.partitions.map((each) => [each.partition, each.leader === null ? el("td", { class: "bad-text" }, "none") : each.leader,
    each.epoch < 0 ? null : each.epoch, each.replicas.join(","), each.isr.length < each.replicas.length
      ? el("td", { class: "bad-text" }, each.isr.join(",") || "none") : each.isr.join(","), each.start, each.stable, each.high, each.end]);
  return [el("div", { class: "split" },
    panel("Topics", el("div", { class: "topics" }, list)),
    el("div", { style: "display:grid;gap:16px;min-width:0" },
      panel(topic.name, table(["partition", "leader", "epoch", "replicas", "in sync", "#start", "#stable", "#high", "#end"], rows, "")),
      recordsPanel(topic)))];
}

function recordsPanel(topic) {
  const all = given.live ? view.records : topic.records || [];
  const search = view.search.toLowerCase();
  const text = (record) => `${record.key ?? ""} ${record.value.text ?? ""} ${record.headers.map((pair) => pair.join("=")).join(" ")}`;
  const found = search ? all.filter((record) => text(record).toLowerCase().includes(search)) : all;
  const rows = found.slice(-200).reverse().map((record) => [
    el("td", { class: "mono" }, `${record.partition}:${record.offset}`), el("td", { class: "mono" }, clock(record.time)),
    el("td", { class: "mono wrap", style: "min-width:4em" }, record.key ?? "–"), value(record)]);
  return panel(`Records (${found.length === all.length ? all.length : `${found.length} of ${all.length}`})`,
    el("div", { class: "row", style: "margin-bottom:10px" },
      el("input", { type: "search", id: "search", placeholder: "Search keys, values and headers  ( / )", "aria-label": "Search records",
        value: view.search, oninput: (event) => { view.search = event.target.value; render(); } })),
    given.live ? el("details", { id: "avro", open: view.schema ? "" : null, style: "margin-bottom:10px" }, el("summary", {}, "Decode Avro"),
      el("textarea", { id: "schema", "aria-label": "Avro schema", placeholder: "Paste an Avro schema", oninput: (event) => { view.schema = event.target.value; } }, view.schema)) : null,
    view.error && given.live ? el("p", { class: "bad-text" }, view.error) : null,
    table(["at", "time", "key", "value"], rows, given.live ? "No records yet." : "No records were kept."));
}

function value(record) {
  const { text, format } = record.value;
  const shown = text === null ? [el("span", { class: "muted" }, "tombstone")]
    : format === "json" || format === "decoded" ? colored(text) : [text];
  const headers = record.headers.length ? el("div", { class: "muted" }, record.headers.map((pair) => `${pair[0]}=${pair[1]}`).join("  ")) : null;
  return el("td", { class: "mono wrap" }, shown, format === "text" || text === null ? null : el("span", { class: "format" }, format), headers);
}

function colored(text) {
  const parts = [];
  const pattern = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d[\d.eE+-]*)|\b(true|false|null)\b/g;
  let at = 0;
  for (const match of text.matchAll(pattern)) {
    if (match.index > at) parts.push(text.slice(at, match.index));
    const kind = match[1] ? (match[2] ? "j-key" : "j-string") : match[3] ? "j-number" : "j-word";
    parts.push(el("span", { class: kind }, match[1] || match[0]), match[2] || "");
    at = match.index + match[0].length;
  }
  parts.push(text.slice(at));
  return parts;
}

function choose(key) {
  view.topic = key; view.records = []; view.error = "";
  render();
  if (given.live) loadRecords();
}

// -- groups and requests

function groups() {
  const all = state().groups || [];
  const lag = cluster().timeline.lag || {};
  const names = new Set(all.map((each) => each.group));
  const gone = Object.keys(lag).filter((name) => !names.has(name)).map((group) => ({ group, state: "gone", lag: 0, members: [], offsets: [] }));
  const shown = [...all, ...gone];
  if (!shown.length) return [panel("Groups", el("p", { class: "empty" }, "There are none."))];
  return shown.map((each) => panel(null,
    el("div", { class: "row", style: "margin-bottom:8px" }, el("strong", {}, each.group),
      el("span", { class: `chip ${each.state === "Stable" ? "good" : each.state === "Empty" ? "" : "warn"}` }, each.state),
      each.lag ? el("span", { class: "chip bad" }, `lag ${each.lag}`)
        : each.offsets.length ? el("span", { class: "chip good" }, "no lag") : el("span", { class: "chip" }, "nothing committed")),
    curve(lag[each.group]),
    each.members.length ? table(["client", "host", "partitions", "#last heard"], each.members.map((member) =>
      [member.client || "–", member.host, el("td", { class: "wrap" }, member.partitions || "none"), member.heard]), "") : null,
    each.offsets.length ? table(["partition", "#committed", "#lag"], each.offsets.map((one) => [el("td", { class: "wrap" }, one.partition), one.committed,
      one.lag ? el("td", { class: "n bad-text" }, one.lag) : one.lag]), "") : null));
}

function curve(points) {
  if (!points || points.length < 2) return null;
  const width = 600, height = 60, from = points[0][0], to = points.at(-1)[0];
  const most = Math.max(1, ...points.map((point) => point[1]));
  const path = points.map(([at, lag]) => `${((at - from) / Math.max(1, to - from) * width).toFixed(1)},${(height - lag / most * (height - 14)).toFixed(1)}`);
  return el("svg:svg", { viewBox: `0 0 ${width} ${height + 2}`, role: "img", "aria-label": "Lag over time", style: "max-width:600px;margin-bottom:8px" },
    el("svg:polygon", { class: "area", points: `0,${height} ${path.join(" ")} ${width},${height}` }),
    el("svg:polyline", { class: "curve", points: path.join(" ") }), el("svg:text", { x: 0, y: 10 }, `lag, max ${most}`));
}

function requests() {
  const s = state();
  const lines = (all, empty) => (all.length ? el("ul", { class: "plain mono", style: "white-space:pre-wrap" }, all.map((line) => el("li", {}, line)))
    : el("p", { class: "empty" }, empty));
  return [panel("Answers with errors", lines(s.errors || [], s.can_act === false ? "Only embedded clusters know." : "There were none.")),
    panel("Last requests, the newest first", lines(s.requests || [], s.can_act === false ? "Only embedded clusters know." : "There were none."))];
}

// -- all of it

const VIEWS = { tests, overview, topics, groups, requests };

function render() {
  if (!view.data) return;
  const active = document.activeElement;
  const focus = active && active.id ? [active.id, active.selectionStart] : null;
  const scrolled = document.querySelector(".topics")?.scrollTop || 0;
  const opened = [...document.querySelectorAll("main details[open]")].map((each) => each.id);
  $("main").replaceChildren(...VIEWS[view.tab]().filter(Boolean));
  document.querySelectorAll("main details").forEach((each) => { if (opened.includes(each.id)) each.open = true; });
  if (document.querySelector(".topics")) document.querySelector(".topics").scrollTop = scrolled;
  if (focus && $(focus[0])) {
    $(focus[0]).focus({ preventScroll: true });
    if (focus[1] !== null && $(focus[0]).setSelectionRange) $(focus[0]).setSelectionRange(focus[1], focus[1]);
  }
  for (const tab of TABS) $(`tab-${tab}`).setAttribute("aria-selected", String(tab === view.tab));
  const several = view.data.clusters.length > 1 && view.tab !== "tests";
  $("where").textContent = view.data.bootstrap || (several ? nameOf(cluster()) : view.data.title) || "";
  const troubles = (state().troubles || []).length;
  const bad = given.tests ? failed().length : troubles;
  $("health").textContent = given.tests ? (bad ? `${bad} failed` : "all passed") : bad ? `${bad} wrong` : "all is well";
  $("health").className = `chip ${bad ? "bad" : "good"}`;
  const choice = $("cluster");
  choice.hidden = !several;
  choice.value = view.cluster;
  if (choice.options.length !== view.data.clusters.length) {
    choice.replaceChildren(...view.data.clusters.map((each, at) => el("option", { value: at }, cut(nameOf(each), 60))));
  }
}

function show(tab) {
  view.tab = tab;
  render();
  if (tab === "topics" && given.live) loadRecords();
}

async function ask(path, body) {
  const answer = await fetch(path, { method: body ? "POST" : "GET", body: body ? JSON.stringify(body) : undefined,
    headers: { "X-Embedkafka-Token": token } });
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error || answer.statusText);
  return found;
}

function complain(error) {
  $("toast").textContent = error.message;
  $("toast").hidden = false;
  clearTimeout(complain.timer);
  complain.timer = setTimeout(() => { $("toast").hidden = true; }, 6000);
}

async function send(action) {
  try { await ask("/api/act", action); await load(); } catch (error) { complain(error); }
}

async function load() {
  view.data = await ask("/api/state");
  $("live").hidden = false; $("live").className = "chip good"; $("live").textContent = "live";
  render();
}

async function loadRecords() {
  if (view.tab !== "topics" || !view.data) return;
  const topic = (state().topics || []).find((each) => keyOf(each) === view.topic);
  if (!topic) return;
  const asked = new URLSearchParams({ topic: topic.name, schema: view.schema.trim() });
  try {
    const found = await ask(`/api/records?${asked}`);
    if (keyOf(topic) !== view.topic) return;
    view.records = found.records; view.error = found.error || "";
  } catch (error) { view.error = error.message; }
  render();
}

async function follow() {
  try { await load(); await loadRecords(); } catch (error) {
    $("live").hidden = false; $("live").className = "chip bad"; $("live").textContent = "not connected";
    if (!view.data) $("main").replaceChildren(panel("Not connected", el("p", {}, error.message), el("p", { class: "muted" }, "Open the address that `open_ui` or `embedkafka ui` printed, with its token.")));
  }
  setTimeout(follow, 1000);
}

function theme(name, chosen) {
  document.documentElement.dataset.theme = name;
  if (chosen) try { localStorage.setItem("embedkafka-theme", name); } catch { /* a page from a file may not */ }
}

function step(by) {
  const keys = [...document.querySelectorAll("[data-topic]")].map((each) => each.dataset.topic);
  const at = keys.indexOf(view.topic);
  const next = keys[Math.max(0, Math.min(keys.length - 1, at + by))];
  if (next !== undefined) { choose(next); document.querySelector('[aria-current="true"]')?.scrollIntoView({ block: "nearest" }); }
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) { if (event.key === "Escape") event.target.blur(); return; }
  if (TABS[event.key - 1]) show(TABS[event.key - 1]);
  else if (event.key === "j" || event.key === "k") { if (view.tab === "topics") step(event.key === "j" ? 1 : -1); }
  else if (event.key === "/") { event.preventDefault(); if (view.tab !== "topics") show("topics"); $("search")?.focus(); }
  else if (event.key === "t") $("theme").click();
  else if (event.key === "?") $("keys").showModal();
});
$("tab-tests").hidden = !given.tests;
$("last-key").textContent = TABS.length;
for (const [at, tab] of TABS.entries()) {
  $(`tab-${tab}`).addEventListener("click", () => show(tab));
  $(`tab-${tab}`).querySelector("kbd").textContent = at + 1;
}
$("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark", true));
$("help").addEventListener("click", () => $("keys").showModal());
$("cluster").addEventListener("change", (event) => { view.cluster = Number(event.target.value); view.topic = null; render(); });
addEventListener("resize", () => render());

let kept = null;
try { kept = localStorage.getItem("embedkafka-theme"); } catch { /* as above */ }
theme(kept || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
if (TABS.includes(wanted.get("view"))) view.tab = wanted.get("view");
view.named = wanted.get("topic");
if (given.live) follow(); else render();
if (given.tests) $(`failed-${failed().findIndex((test) => test.id === wanted.get("test")) + 1}`)?.scrollIntoView();
