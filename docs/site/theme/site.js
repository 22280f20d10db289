"use strict";
// The menu, and a search over search-index.js (made by pages.py): both work from a folder, without a server.

const wide = matchMedia("(min-width: 56rem)");
const menu = document.getElementById("menu");
const adapt = () => { menu.open = wide.matches; };
wide.addEventListener("change", adapt);
adapt();

const input = document.getElementById("search");
const found = document.getElementById("found");
const most = 12;

/// Sections that contain all words; those with a word in their heading come first.
function search(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [];
  const hits = [];
  for (const [url, title, body] of window.conchIndex || []) {
    const head = title.toLowerCase();
    const all = `${head} ${body.toLowerCase()}`;
    if (!words.every((word) => all.includes(word))) continue;
    hits.push([words.filter((word) => head.includes(word)).length, url, title, body]);
  }
  return hits.sort((a, b) => b[0] - a[0]).slice(0, most);
}

function excerpt(body, word) {
  const at = Math.max(body.toLowerCase().indexOf(word) - 40, 0);
  return `${at > 0 ? "…" : ""}${body.slice(at, at + 120)}${at + 120 < body.length ? "…" : ""}`;
}

input.addEventListener("input", () => {
  const hits = search(input.value);
  found.hidden = input.value.trim() === "";
  found.replaceChildren(...hits.map(([, url, title, body]) => {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = `${document.body.dataset.root}/${url}`;
    link.textContent = title;
    const words = document.createElement("p");
    words.textContent = excerpt(body, input.value.toLowerCase().split(/\s+/)[0]);
    item.append(link, words);
    return item;
  }));
  if (!found.hidden && hits.length === 0) {
    const item = document.createElement("li");
    item.textContent = "Nothing found.";
    found.append(item);
  }
});
