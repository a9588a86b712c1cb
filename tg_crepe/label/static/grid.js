// A page of items with the same guess: twenty answers with one key.
import { change, get, settled } from "./api.js";
import { $, className, classes, complain, element, per, say, tileContent } from "./common.js";
import { taken } from "./one.js";

let shown = { class: null, items: [] };
let marks = new Map(); // item -> null (wrong) or the class that it has

export async function open() {
  const list = $("grid-class"), before = Number(list.value);
  const possible = classes().filter((one) => one.guesses > 0);
  list.replaceChildren(...possible.map((one) => {
    const option = element("option", `${one.name} (${one.guesses})`);
    option.value = one.number;
    return option;
  }));
  if (!possible.length) return draw({ class: null, items: [] });
  list.value = possible.some((one) => one.number === before) ? before : possible[0].number;
  await load();
}

export async function load() {
  await settled();
  const order = document.querySelector("input[name=grid-order]:checked").value;
  if ($("grid-class").value) draw(await get(`/api/grid?class=${$("grid-class").value}&order=${order}`));
}

function draw(page) {
  shown = page;
  marks = new Map();
  $("grid").classList.toggle("texts", page.items.some((item) => !item.image));
  $("grid").replaceChildren(...page.items.map((item, i) => {
    const tile = element("button", "", "tile");
    tile.type = "button";
    tile.dataset.item = item.item;
    tile.tabIndex = i ? -1 : 0;
    tile.append(...tileContent(item, item.guess ? per(item.guess[1]) : ""), element("span", "", "verdict"));
    tile.addEventListener("click", () => mark(tile, item, marks.has(item.item) ? undefined : null));
    mark(tile, item, undefined);
    return tile;
  }));
  if (!page.items.length) $("grid").replaceChildren(element("p", "Nothing is taken for a class yet: answer some items first."));
  $("grid-confirm").disabled = !page.items.length;
}

function mark(tile, item, value) {
  if (value === undefined) marks.delete(item.item);
  else marks.set(item.item, value);
  const wrong = marks.has(item.item);
  tile.classList.toggle("wrong", wrong);
  tile.setAttribute("aria-pressed", String(wrong));
  const verdict = !wrong ? "" : value === null ? "wrong" : className(value);
  tile.querySelector(".verdict").textContent = verdict;
  tile.setAttribute("aria-label", `${item.text || item.id}: ${wrong ? verdict : className(shown.class)}`);
}

export function giveClass(number) {
  const tile = document.activeElement.closest ? document.activeElement.closest("#grid .tile") : null;
  if (!tile) return false;
  const item = shown.items.find((one) => one.item === Number(tile.dataset.item));
  mark(tile, item, number === shown.class ? undefined : number);
  return true;
}

export function move(key) {
  const tiles = [...$("grid").querySelectorAll(".tile")], at = tiles.indexOf(document.activeElement);
  if (!tiles.length) return;
  const columns = tiles.filter((tile) => tile.offsetTop === tiles[0].offsetTop).length;
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[key];
  const to = at < 0 ? 0 : Math.min(Math.max(at + step, 0), tiles.length - 1);
  tiles.forEach((tile, i) => { tile.tabIndex = i === to ? 0 : -1; });
  tiles[to].focus();
}

export async function confirm() {
  const answers = [];
  for (const { item } of shown.items) {
    const given = marks.has(item) ? marks.get(item) : shown.class;
    if (given !== null) answers.push({ item, kind: "class", class: given });
  }
  const page = shown;
  draw({ class: null, items: [] });
  if (!answers.length) return load();
  taken(answers.map((answer) => answer.item));
  try {
    await change("/api/answer", { kind: "page", answers });
    say(`${answers.length} items are ${className(page.class)}`);
  } catch (error) { complain(error); }
  await load();
}
