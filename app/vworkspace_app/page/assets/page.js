"use strict";
// The page is whole without this script. With it: changes as they happen, times as ages, filters without a button,
// light or dark, and keys. Text never becomes markup here: what is put in comes from the server, escaped.

const main = document.getElementById("main");
const live = document.getElementById("live");
const root = new URL(main.dataset.root || "./", location.href);

// --- times ------------------------------------------------------------------------------------------------------

function age(seconds) {
  const minutes = Math.floor(seconds / 60), hours = Math.floor(seconds / 3600), days = Math.floor(seconds / 86400);
  if (seconds < 120) return `${Math.max(0, Math.floor(seconds))} s`;
  if (hours < 3) return `${minutes} min`;
  return days < 2 ? `${hours} h` : `${days} d`;
}

function tellAges(within) {
  for (const time of within.querySelectorAll("time[datetime]")) {
    const at = Date.parse(time.getAttribute("datetime"));
    if (Number.isNaN(at)) continue;
    const seconds = (Date.now() - at) / 1000;
    const text = seconds < 0 ? `in ${age(-seconds)}` : `${age(seconds)} ago`;
    if (time.textContent !== text) time.textContent = text;
    if (!time.title) time.title = new Date(at).toLocaleString();
  }
}

// --- parts --------------------------------------------------------------------------------------------------------

const waiting = new Map(); // parts that came while somebody typed in them

function isInUse(part) {
  const active = document.activeElement;
  return active && part.contains(active) && active.matches("input, select");
}

function put(id, html) {
  const part = document.getElementById(id);
  if (!part) return;
  if (isInUse(part)) { waiting.set(id, html); return; }
  const active = document.activeElement;
  const focused = active && part.contains(active) ? active : null;
  const key = focused && (focused.getAttribute("href") || focused.getAttribute("name"));
  const same = (within) => [...within.querySelectorAll("[href], [name]")]
    .filter((one) => one.getAttribute("href") === key || one.getAttribute("name") === key);
  const place = key ? same(part).indexOf(focused) : 0;
  const scrolled = [...part.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
  const holder = document.createElement("template");
  holder.innerHTML = html.trim();
  const fresh = holder.content.firstElementChild;
  part.replaceWith(fresh);
  tellAges(fresh);
  if (fresh.matches("tr")) fresh.classList.add("fresh");
  [...fresh.querySelectorAll(".scroll")].forEach((one, at) => { one.scrollLeft = scrolled[at] || 0; });
  if (key) {
    const again = same(fresh)[place] || same(fresh)[0];
    if (again) again.focus({ preventScroll: true });
  } else if (focused && focused.matches(".scroll")) {
    const again = fresh.querySelector(".scroll");
    if (again) again.focus({ preventScroll: true });
  }
}

document.addEventListener("focusout", () => setTimeout(() => {
  for (const [id, html] of [...waiting]) {
    const part = document.getElementById(id);
    if (part && !isInUse(part)) { waiting.delete(id); put(id, html); }
  }
}));

// --- news ---------------------------------------------------------------------------------------------------------

const FIRST_PAUSE = 1000, LONGEST_PAUSE = 30000, SILENCE = 45000;
let source = null, pause = FIRST_PAUSE, heard = Date.now(), again = null;

function say(state, text) {
  if (live.dataset.state === state && live.textContent === text) return;
  live.dataset.state = state;
  live.textContent = text;
  document.documentElement.classList.toggle("stale", state === "lost");
}

function tab(title, icon) {
  document.title = title;
  document.getElementById("icon").href = icon;
}

function clock(at) { return new Date(at).toLocaleTimeString(); }

function follow() {
  if (!main.dataset.view) return;
  const address = new URL("events", root);
  address.searchParams.set("view", main.dataset.view);
  address.searchParams.set("have", main.dataset.have);
  clearTimeout(again);
  again = null;
  if (source) source.close();
  source = new EventSource(address);
  const alive = () => { heard = Date.now(); pause = FIRST_PAUSE; say("live", "live"); };
  source.addEventListener("beat", alive);
  source.addEventListener("parts", (event) => {
    const news = JSON.parse(event.data);
    for (const [id, html] of Object.entries(news.parts)) put(id, html);
    main.dataset.have = news.have;
    tab(news.title, news.icon);
    alive();
  });
  source.addEventListener("gone", () => { source.close(); source = null; say("lost", "this object is gone"); });
  source.addEventListener("silent", () => say("lost", `the operator is silent since ${clock(heard)}`));
  source.onerror = lost;
}

function lost() {
  if (source) source.close();
  source = null;
  say("lost", `disconnected: as of ${clock(heard)}`);
  if (again !== null) return;
  again = setTimeout(follow, pause * (0.75 + Math.random() / 2));
  pause = Math.min(2 * pause, LONGEST_PAUSE);
}

setInterval(() => {
  tellAges(document);
  if (source && Date.now() - heard > SILENCE) lost();
}, 1000);
addEventListener("online", () => { pause = FIRST_PAUSE; if (!source) follow(); });
addEventListener("pageshow", (event) => { if (event.persisted) follow(); });
addEventListener("pagehide", () => { clearTimeout(again); again = null; if (source) source.close(); source = null; });

// --- filters ------------------------------------------------------------------------------------------------------

function submitTidily(form) {
  const address = new URL(form.getAttribute("action") || "./", location.href);
  for (const [name, value] of new FormData(form)) if (value) address.searchParams.set(name, value);
  location.assign(address);
}

document.addEventListener("change", (event) => {
  const form = event.target.closest("form.filters");
  if (form && event.target.matches("select")) submitTidily(form);
});
document.addEventListener("submit", (event) => {
  if (!event.target.matches("form.filters")) return;
  event.preventDefault();
  submitTidily(event.target);
});

// --- reasons ------------------------------------------------------------------------------------------------------

function explain(event) { // below a drawing stands the reason of what has the pointer or the focus, else of what fails
  const of = event.target.closest && event.target.closest("[data-tip]");
  const tip = of && of.closest("section").querySelector(".tip");
  if (!tip) return;
  if (tip.dataset.first === undefined) tip.dataset.first = tip.textContent;
  const leaves = event.type === "pointerout" || event.type === "focusout";
  const focused = event.type === "pointerout" && document.activeElement.closest("[data-tip]");
  const told = !leaves ? of : focused && focused.closest("section") === of.closest("section") ? focused : null;
  tip.textContent = told ? told.dataset.tip : tip.dataset.first;
}
for (const type of ["pointerover", "pointerout", "focusin", "focusout"]) document.addEventListener(type, explain);

// --- commands -----------------------------------------------------------------------------------------------------

function copied(text) { // the clipboard's own interface exists only on https and localhost
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = Object.assign(document.createElement("textarea"), { value: text });
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done ? Promise.resolve() : Promise.reject(new Error("refused"));
}

document.addEventListener("click", async (event) => {
  const copy = event.target.closest("button.copy");
  if (!copy) return;
  const label = (text) => { copy.textContent = text; };
  await copied(copy.parentElement.querySelector("code").textContent).then(() => label("Copied"), () => label("Select it"));
  copy.focus();
  setTimeout(label, 2000, "Copy");
});

// --- the slider of a trace ----------------------------------------------------------------------------------------

let asked = 0;
document.addEventListener("input", async (event) => {
  if (!event.target.matches("form.slider input[type=range]")) return;
  const number = ++asked;
  const address = new URL(location.href);
  address.searchParams.set("at", event.target.value);
  const answer = await fetch(address);
  if (!answer.ok || number !== asked) return;
  const found = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of found.querySelectorAll("main > [id]")) if (part.id !== "slider") put(part.id, part.outerHTML);
  const now = found.getElementById("main").dataset;
  Object.assign(main.dataset, { view: now.view, have: now.have });
  tab(found.title, found.getElementById("icon").getAttribute("href"));
  history.replaceState(null, "", address);
});

// --- keys ---------------------------------------------------------------------------------------------------------

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const links = [...document.querySelectorAll("table.rows tbody a")];
  const at = links.indexOf(document.activeElement);
  if (event.key === "/") {
    const search = document.querySelector("input[type=search]");
    if (search) { event.preventDefault(); search.focus(); }
  } else if (event.key === "j" && links.length) links[Math.min(at + 1, links.length - 1)].focus();
  else if (event.key === "k" && links.length) links[Math.max(at - 1, 0)].focus();
});

// --- light and dark -----------------------------------------------------------------------------------------------

const button = document.getElementById("theme");
const dark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
const label = () => { button.textContent = isDark() ? "Light" : "Dark"; button.title = `Switch to ${button.textContent.toLowerCase()}`; };
button.hidden = false;
button.addEventListener("click", () => {
  const chosen = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = chosen;
  try { localStorage.setItem("vworkspace-theme", chosen); } catch { /* this page only */ }
  label();
});
dark.addEventListener("change", label);
label();

document.documentElement.classList.add("scripted");
tellAges(document);
follow();
