"use strict";
// Shows what /events sends. Uses textContent only, never HTML: a lock may have any name.

const byId = (id) => document.getElementById(id);
const setText = (id, text) => { const e = byId(id); if (e.textContent !== text) e.textContent = text; };
const number = (n) => n.toLocaleString("en");

/// Gives `list` exactly `count` children; `make` creates missing ones.
function fill(list, count, make) {
  while (list.children.length > count) list.lastElementChild.remove();
  while (list.children.length < count) list.append(make(list.children.length));
}

function time(us) {
  if (us < 1000) return `${us} µs`;
  return us < 1e6 ? `${(us / 1000).toFixed(us < 10000 ? 1 : 0)} ms` : `${(us / 1e6).toFixed(1)} s`;
}

// ---- the token -------------------------------------------------------------------------------------

let token = "";
function takeToken(text) {
  token = text.trim();
  try { sessionStorage.setItem("token", token); } catch { /* then only this page knows it */ }
}
const given = new URLSearchParams(location.hash.slice(1)).get("token");
if (given) {
  takeToken(given);
  history.replaceState(null, "", location.pathname);  // not into bookmarks and screenshots
} else {
  try { token = sessionStorage.getItem("token") || ""; } catch { /* none */ }
}

// ---- now -------------------------------------------------------------------------------------------

function waiting(s) { return s.workers.reduce((sum, w) => sum + w.waiting, 0); }

function isDown(s) { return s.servers.length > 0 && 2 * s.servers.filter((one) => one.up).length <= s.servers.length; }

/// Names at most one holder: a worker, or, if no worker holds the lock, another client that the server names.
function sentence(s) {
  const n = waiting(s);
  const queue = n === 0 ? "No worker waits." : n === 1 ? "1 worker waits." : `${n} requests wait.`;
  const w = s.workers[s.holder - 1];
  if (s.holder && w.stopped) {
    return `Worker ${s.holder} (process ${w.process}) holds the lock with token ${s.fence}, but is frozen and cannot renew it. ${queue}`;
  }
  if (s.with.runs && !isDown(s)) return `The workers pass the lock on, too fast to name each holder. The latest token is ${s.fence}. ${queue}`;
  if (s.holder) return `Worker ${s.holder} (process ${w.process}) holds the lock for ${(s.held_ms / 1000).toFixed(1)} s with token ${s.fence}. ${queue}`;
  if (isDown(s)) return `The lock's server does not answer. No worker gets the lock until it does. ${queue}`;
  if (s.seen.holder && !s.seen.holder.startsWith("worker ") && BigInt(s.seen.fence) > BigInt(s.fence)) {
    return `${named(s.seen.holder)} holds the lock with token ${s.seen.fence}. ${s.seen.waiting} in the queue.`;
  }
  return `The lock is free. ${queue}`;
}

/// Ids of clients are long; their first digits tell them apart.
const named = (holder) => /^[0-9a-f]{32}$/.test(holder) ? `Another client (${holder.slice(0, 8)}…)` : holder === "this server" ? "The demo's HTTP server" : holder;

/// Labels and notes, as `conch status` shows them.
function names(s) {
  if (!s.seen.holder_name) return "";
  const queue = s.seen.waiter_names.join(", ");
  const more = s.seen.waiting - s.seen.waiter_names.length;
  return `At the server: ${s.seen.holder_name} holds it` + (queue ? `; in the queue: ${queue}` + (more > 0 ? ` and ${number(more)} more.` : ".") : ".");
}

function showServers(s) {
  fill(byId("servers"), s.servers.length, () => document.createElement("li"));
  s.servers.forEach((one, i) => {
    const li = byId("servers").children[i];
    li.className = one.up ? "up" : "down";
    const text = `${one.url}: ${one.up ? "up" : "down"}`;
    if (li.textContent !== text) li.textContent = text;
  });
}

function showNow(s) {
  setText("lock", s.lock);
  setText("kept_by", s.kept_by);
  setText("sentence", sentence(s));
  setText("names", names(s));
  byId("sentence").classList.toggle("bad", isDown(s));
  setText("trouble", s.seen.trouble ? `The client reports: ${s.seen.trouble}` : "");
  setText("passed", number(s.passed));
  setText("refused", number(s.refused));
  if (s.kill_command) setText("kill-command", s.kill_command);
  showServers(s);
  fill(byId("workers"), s.workers.length, () => document.createElement("li"));
  s.workers.forEach((w, i) => {
    const li = byId("workers").children[i];
    li.className = w.state === "ended" ? "gone" : w.stopped ? "stopped" : w.holds ? "holds" : "";
    const text = `Worker ${w.number} ${w.does}. Process ${w.process}, ${number(w.grants)} grants${w.waiting ? `, ${w.waiting} waiting` : ""}`;
    if (li.textContent !== text) li.textContent = text;
  });
  const recent = s.recent.slice(-6).reverse();
  fill(byId("fences"), recent.length, () => document.createElement("li"));
  recent.forEach(([worker, fence, waited], i) => {
    byId("fences").children[i].textContent = worker === 0 ? `${fence}  HTTP server` : `${fence}  worker ${worker}, waited ${time(waited)}`;
  });
}

// ---- the chart -------------------------------------------------------------------------------------

function draw(id, values, top) {
  const step = 600 / 59;
  const first = 60 - values.length;
  byId(id).setAttribute("points", values.map((v, i) => `${((first + i) * step).toFixed(1)},${(195 - (v / top) * 185).toFixed(1)}`).join(" "));
}

for (const y of [10, 102.5, 195]) {
  const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
  for (const [name, value] of [["x1", 0], ["x2", 600], ["y1", y], ["y2", y]]) line.setAttribute(name, value);
  byId("grid").append(line);
}

function showChart(s) {
  const column = (i) => s.series.map((one) => one[i]);
  const topGrants = Math.max(1, ...column(0));
  const topWait = Math.max(1, ...column(2));
  draw("line-grants", column(0), topGrants);
  draw("line-p50", column(1), topWait);
  draw("line-p99", column(2), topWait);
  setText("top-grants", number(topGrants));
  setText("top-wait", time(topWait));
  const busy = s.series.filter((one) => one[0] > 0).length;
  const [grants, p50, p99] = s.series.at(-1) || [0, 0, 0];
  setText("chart-words", `Hand-overs in ${busy} of the last 60 seconds. In the last second: ${number(grants)}` +
    (grants ? `; median wait ${time(p50)}, 99th percentile ${time(p99)}.` : "."));
}

// ---- counts and the sale ---------------------------------------------------------------------------

function showCount(id, c) {
  const began = c.target > 0;
  setText(`${id}-value`, began ? number(c.value) : "–");
  setText(`${id}-confirmed`, number(c.confirmed));
  byId(`${id}-bar`).value = c.confirmed;
  const words = !began ? "Not run yet."
    : c.runs ? (c.lost > 0 && id === "without" ? `${number(c.lost)} increments lost so far. ${c.example}` : "Running.")
      : !c.ended ? "The counter could not be read."
        : c.lost === 0 ? `${number(c.confirmed)} increments, and the counter is ${number(c.value)}: none lost.`
          : `${number(c.confirmed)} increments, but the counter is ${number(c.value)}: ${number(c.lost)} lost. ${c.example}`;
  setText(`${id}-words`, words);
  byId(`${id}-words`).className = `words ${!began || c.runs ? "" : c.lost === 0 ? "good" : "bad"}`;
}

function showSale(sale) {
  fill(byId("segments"), sale.segments.length, (i) => {
    const li = document.createElement("li");
    const label = document.createElement("label");
    const bar = document.createElement("progress");
    bar.id = `segment-${i}`;
    label.htmlFor = bar.id;
    li.append(label, bar);
    return li;
  });
  sale.segments.forEach(([stock, sold], i) => {
    const [label, bar] = byId("segments").children[i].children;
    const text = `${i + 1}: ${sold} of ${stock}`;
    if (label.textContent !== text) label.textContent = text;
    bar.max = stock;
    bar.value = sold;
  });
  const unavailable = sale.unavailable && `Not available: ${sale.unavailable}.`;
  setText("sale-words", unavailable ? unavailable : !sale.items ? "Not run yet." : sale.runs ? `${number(sale.sold)} of ${number(sale.items)} sold.` : sale.verdict);
}

// ---- the log, which screen readers read out --------------------------------------------------------

let lastShown = 0;
function showLog(log) {
  const last = log.length ? log[log.length - 1][0] : 0;
  if (last < lastShown) {  // the demo was restarted
    lastShown = 0;
    byId("log").replaceChildren();
  }
  for (const [id, words] of log) {
    if (id <= lastShown) continue;
    const entry = document.createElement("p");
    entry.textContent = words;
    byId("log").prepend(entry);
    lastShown = id;
  }
  while (byId("log").children.length > 40) byId("log").lastElementChild.remove();
}

// ---- buttons ---------------------------------------------------------------------------------------

function showButtons(s) {
  const may = token !== "" && s.workers.length > 0;
  byId("key").hidden = token !== "" || s.workers.length === 0;
  // Not `disabled`, which would take the focus from the button that was just pressed. If it is pressed anyway, the server answers why it cannot.
  const enable = (id, yes) => byId(id).setAttribute("aria-disabled", String(!(may && yes)));
  enable("count-with", !s.with.runs && s.stopped === 0);
  enable("count-without", !s.without.runs);
  enable("round", true);
  byId("round").setAttribute("aria-pressed", String(s.round));
  enable("stop", s.stopped === 0 && !s.with.runs);
  enable("sale", !s.sale.runs && !s.sale.unavailable);
}

async function press(path) {
  setText("answer", "");
  try {
    const answer = await fetch(path, { method: "POST", headers: { "X-Conch-Token": token } });
    const body = await answer.json();
    if (answer.status === 403) takeToken("");
    if (!answer.ok) setText("answer", `Not done: ${body.error}.`);
  } catch {
    setText("answer", "Not done: no connection to the demo.");
  }
  if (latest) showButtons(latest);
}

byId("count-with").addEventListener("click", () => press("/page/count?lock=on"));
byId("count-without").addEventListener("click", () => press("/page/count?lock=off"));
byId("round").addEventListener("click", () => press(`/page/round?go=${latest && latest.round ? "off" : "on"}`));
byId("stop").addEventListener("click", () => press("/page/stop"));
byId("sale").addEventListener("click", () => press("/page/sale"));
byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  takeToken(byId("token").value);
  byId("token").value = "";
  if (latest) showButtons(latest);
  byId("count-with").focus();
});

// ---- the stream ------------------------------------------------------------------------------------

let latest = null;
let frameRequested = false;
let away = false;

/// Runs at most once per frame.
function show() {
  frameRequested = false;
  showNow(latest);
  showChart(latest);
  showCount("with", latest.with);
  showCount("without", latest.without);
  showSale(latest.sale);
  showButtons(latest);
  showLog(latest.log);
}

function listen() {
  const source = new EventSource("/events");
  source.onopen = () => {
    setText("stream", "Live.");
    document.body.classList.remove("stale");
    away = false;
  };
  source.onmessage = (event) => {
    latest = JSON.parse(event.data);
    if (!frameRequested) requestAnimationFrame(show);
    frameRequested = true;
  };
  source.onerror = () => {
    if (!away) setText("stream", `No connection to the demo since ${new Date().toLocaleTimeString("en-GB")}. What you see is old. Reconnecting…`);
    document.body.classList.add("stale");
    away = true;
    if (source.readyState === EventSource.CLOSED) {  // refused; after other errors the browser reconnects by itself
      source.close();
      setTimeout(listen, 1000);
    }
  };
}
listen();
