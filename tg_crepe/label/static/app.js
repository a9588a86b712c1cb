// The page: which view is open, which key does what, what is new.
import { Refused, get, post, unsaved, watchSaving } from "./api.js";
import * as classesView from "./classes.js";
import { $, classOfKey, classes, complain, counted, per, shared } from "./common.js";
import * as grid from "./grid.js";
import * as map from "./map.js";
import * as one from "./one.js";
import * as progress from "./progress.js";

const views = { one: null, grid, map, classes: { open: () => classesView.open(lookAgain) }, progress };
const tabs = [...document.querySelectorAll("[role=tab]")];
let view = "one", loading = null, again = false;

async function refresh() {
  if (loading) { again = true; return loading; }
  loading = (async () => {
    do { again = false; shared.state = await get("/api/state"); } while (again);
  })().catch(trouble).finally(() => { loading = null; });
  await loading;
  if (!shared.state) return;
  const state = shared.state;
  document.title = `${counted(state.labels, "label")} – ${state.name}`;
  $("name").textContent = `${state.name}, ${state.items.toLocaleString("en")} items`;
  $("fact-labels").textContent = state.labels.toLocaleString("en");
  $("fact-labels-word").textContent = state.labels === 1 ? "label" : "labels";
  $("fact-certain").textContent = state.certain === null ? "–" : per(state.certain);
  $("fact-error").textContent = state.error ? per(state.error[0], state.error[0] < 0.1 ? 1 : 0) : "–";
  $("fact-range").textContent = state.error ? `wrong, to expect (${per(state.error[1])} to ${per(state.error[2])})` : "wrong, to expect";
  $("act-undo").disabled = !state.canUndo;
  if (shared.item) one.describe();
  else one.show(null);
  status();
  if (view === "progress") progress.open();
}

function status(error = null) {
  const line = $("status"), count = unsaved(), state = shared.state;
  line.classList.toggle("bad", !!error || (!count && !!shared.refused));
  if (error instanceof Refused) line.textContent = error.message;
  else if (error) line.textContent = `not saved: ${count} (the server does not answer, trying again)`;
  else if (count) line.textContent = `saving ${count} …`;
  else if (shared.refused) line.textContent = shared.refused;
  else if (state && state.problem) line.textContent = `solve failed: ${state.problem}`;
  else if (state) line.textContent = state.behind > 0 && classes().filter((c) => c.labels).length > 1 ? `saved · solving, ${state.behind} to come in` : "saved";
}
function trouble(error) { if (error instanceof Refused || error instanceof TypeError) status(error); else throw error; }
watchSaving((error) => status(error));

function openView(name, focus) {
  view = name;
  for (const button of tabs) {
    const chosen = button.id === `tab-${name}`;
    button.setAttribute("aria-selected", String(chosen));
    button.tabIndex = chosen ? 0 : -1;
    if (chosen && focus) button.focus();
  }
  for (const panel of document.querySelectorAll("[role=tabpanel]")) panel.hidden = panel.id !== `view-${name}`;
  if (views[name]) Promise.resolve(views[name].open()).catch(trouble);
}
tabs.forEach((button, i) => {
  button.addEventListener("click", () => openView(button.id.slice(4), false));
  button.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    openView(tabs[(i + step + tabs.length) % tabs.length].id.slice(4), true);
  });
});

async function lookAgain(item) {
  openView("one", false);
  await one.review(item);
  $("item").focus();
}

function undo() { one.undo().catch(complain); }
const keys = {
  s: () => view === "one" && one.skip(), u: () => view === "one" && one.unsure(), z: undo,
  "?": () => $("keys").showModal(), "+": () => { openView("one", false); $("new-name").focus(); },
};
for (const button of tabs) keys[button.dataset.key] = () => { openView(button.id.slice(4), true); };

document.addEventListener("keydown", (event) => {
  const target = event.target;
  if (event.ctrlKey || event.metaKey || event.altKey || $("keys").open) return;
  if (target.matches("input:not([type=radio]), select, textarea")) {
    if (event.key === "Escape") target.blur();
    return;
  }
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const chosen = event.key.length === 1 ? classOfKey(key) : null;
  if (chosen !== null) {
    if (event.repeat) return;
    if (view === "one") one.answer(chosen);
    else if (view === "grid") grid.giveClass(chosen);
    else if (view === "map") map.label(chosen);
  } else if (key in keys) keys[key]();
  else if (key === "Enter" && view === "one" && !target.closest("button, a")) one.accept();
  else if (key === "Enter" && view === "grid" && !target.closest("[role=tab]") && !event.repeat) grid.confirm();
  else if (view === "grid" && key.startsWith("Arrow") && !target.closest("[role=tab], fieldset")) grid.move(key);
  else if (key === "Escape" && view === "map") map.clear();
  else return;
  event.preventDefault();
});

$("act-skip").addEventListener("click", one.skip);
$("act-unsure").addEventListener("click", one.unsure);
$("act-undo").addEventListener("click", undo);
$("keys-button").addEventListener("click", () => $("keys").showModal());
$("grid-class").addEventListener("change", grid.load);
$("grid-confirm").addEventListener("click", grid.confirm);
document.querySelectorAll("input[name=grid-order]").forEach((button) => button.addEventListener("change", grid.load));
for (const [form, input] of [["new-class", "new-name"], ["new-class-2", "new-name-2"]]) {
  $(form).addEventListener("submit", async (event) => {
    event.preventDefault();
    if (form === "new-class") $("item").focus();  // at once: the next key is an answer, not a letter of the name
    const name = $(input).value;
    await classesView.add($(input));
    // It was refused and nobody has sent another since: a late focus would turn the next answer into a letter.
    if (form === "new-class" && name && $(input).value === name) $(input).focus();
    await refresh();
  });
}
$("sort").addEventListener("click", async () => {
  try {
    const { folder, links } = await post("/api/sort", { request: crypto.randomUUID() });
    $("sort-note").textContent = `${links} links in ${folder}`;
  } catch (error) { $("sort-note").textContent = error.message; }
});

for (const kind of ["keydown", "pointerdown"]) document.addEventListener(kind, () => { shared.refused = ""; }, true);

// An answer that the server has not confirmed is not given up without a word.
window.addEventListener("beforeunload", (event) => { if (unsaved()) event.preventDefault(); });

const events = new EventSource("/api/events");
events.addEventListener("message", (event) => {
  const news = JSON.parse(event.data).type;
  refresh().then(() => { if (news === "solved" && view === "map") map.open(); if (["saved", "solved"].includes(news) && view === "classes") views.classes.open(); }).catch(trouble);
  if (news === "solved") one.renew().catch(trouble);
  if (news === "queue" || news === "hello") one.refill().catch(trouble);
});
refresh().then(() => one.fill());
