// One item at a time. The next ones are here before they are needed, so that no answer waits for the server.
import { change, get, tab } from "./api.js";
import { $, choiceButton, className, classes, complain, element, per, picture, say, shared, tileContent } from "./common.js";

const AHEAD = 8;
let ahead = [];           // items to come, with their pictures under way
let kind = "one";
let filling = null;
let order = 0;            // it counts up when the order changes: what was asked for before is not wanted any more
const unconfirmed = [];   // items whose answer is on its way to the server
let seen = new Set();     // what was on the screen since the server was last asked for more

export async function fill() {
  filling = filling || ask().catch(() => {}).finally(() => { filling = null; });
  await filling;
  if (!shared.item) show(ahead.shift() || null);
}

// The server knows what was saved; what it cannot know is named. An answer that is on its way back knows nothing of what
// has happened since: an item that came to the screen meanwhile must not come a second time.
async function ask() {
  let asked;
  do {
    asked = order;
    if (ahead.length >= AHEAD) return;
    const here = shared.item ? [shared.item.item] : [];
    seen = new Set(here);
    const avoid = [...here, ...unconfirmed, ...ahead.map((item) => item.item)].slice(0, 150);
    const { items } = await get(`/api/next?tab=${tab}&count=${AHEAD - ahead.length}&avoid=${avoid.join(",")}`);
    if (asked !== order) continue;
    for (const item of items) if (!seen.has(item.item) && !ahead.some((other) => other.item === item.item)) ahead.push(preload(item));
  } while (asked !== order);
}

// The order has changed: what is on the screen stays, the rest is asked for anew.
export function refill() {
  order += 1;
  ahead = [];
  return fill();
}

// Items that got an answer in another view are not asked for here.
export function taken(items) {
  const gone = new Set(items);
  for (const item of items) seen.add(item);
  ahead = ahead.filter((item) => !gone.has(item.item));
  if (shared.item && kind === "one" && gone.has(shared.item.item)) next();
}

function preload(item) {
  if (item.image) item.picture = picture(item, "large");
  return item;
}

export function next() {
  kind = "one";
  show(ahead.shift() || null);
  fill();
}

export function show(item, as = "one") {
  kind = as;
  shared.item = item;
  if (item) seen.add(item.item);
  const stage = $("item");
  if (!item) {
    const nothing = shared.state && shared.state.left ? "choosing what to ask …" : "every item has an answer";
    stage.replaceChildren(element("p", nothing, "empty"));
  } else if (item.image) {
    stage.replaceChildren(item.picture || picture(item, "large"));
  } else {
    const text = element("p", item.text || item.id, "text");
    if ((item.text || "").length > 600) text.tabIndex = 0;
    stage.replaceChildren(text);
  }
  $("item-name").textContent = item ? item.id : "";
  describe();
}

export function describe() {
  const item = shared.item, guess = $("guess");
  const top = item && item.top.length ? item.top[0] : null;
  if (!item) guess.replaceChildren();
  else if (item.label !== null) guess.replaceChildren("labelled: ", element("b", className(item.label)));
  else if (top) {
    const bar = element("span", "", "bar"), part = element("i");
    part.style.width = `${100 * top[1]}%`;
    bar.append(part);
    const others = item.top.slice(1).filter((one) => one[1] >= 0.01).map((one) => `${className(one[0])} ${per(one[1])}`).join(", ");
    guess.replaceChildren("guess: ", element("b", className(top[0])), ` ${per(top[1])} `, element("kbd", "Enter"), others ? ` or ${others}` : "", bar);
  } else guess.replaceChildren(classes().length > 1 ? "no guess yet" : "add the first classes, then answer");
  $("choices").replaceChildren(...classes().map((one) => {
    const button = choiceButton(one, answer);
    if (top && top[0] === one.number && item.label === null) button.classList.add("guessed");
    return button;
  }));
  $("near").classList.toggle("texts", !!item && !item.image);
  $("near").replaceChildren(...(item ? item.near : []).map((one) => {
    const tile = element("li", "", "tile");
    tile.append(...tileContent(one, className(one.label)));
    return tile;
  }));
  $("near-title").hidden = !item || !item.near.length;
}

// There is a new guess: what is on the screen stays, what is said of it changes.
export async function renew() {
  const before = shared.item;
  if (!before) return;
  const { top, near, label } = await get(`/api/item/${before.item}`);
  if (shared.item !== before) return;
  Object.assign(before, { top, near, label });
  describe();
}

export function answer(number) { give({ kind: "class", class: number }, className(number)); }
export function accept() {
  const item = shared.item;
  if (item && item.label === null && item.top.length) answer(item.top[0][0]);
}
export function skip() { give({ kind: "skip" }, "skipped"); }
export function unsure() { give({ kind: "unsure" }, "cannot tell"); }

function give(what, words) {
  const item = shared.item, as = kind;
  if (!item) return;
  unconfirmed.push(item.item);
  change("/api/answer", { kind: as, answers: [{ item: item.item, ...what }] }).catch(complain).finally(() => {
    unconfirmed.splice(unconfirmed.indexOf(item.item), 1);
  });
  next();
  $("item").focus({ preventScroll: true });
  say(`${words}. ${shared.item ? spoken(shared.item) : "nothing left"}`);
}

function spoken(item) {
  const guess = item.top.length ? `, guess ${className(item.top[0][0])} ${per(item.top[0][1])}` : "";
  return `${item.text ? item.text.slice(0, 120) : item.id}${guess}`;
}

// One after the other: what the last one brings back is what stays on the screen.
let undoing = Promise.resolve();
export function undo() {
  undoing = undoing.then(takeBack, takeBack);
  return undoing;
}

async function takeBack() {
  const { items } = await change("/api/undo", {});
  if (items.length !== 1) return say(items.length ? `taken back: ${items.length} answers` : "taken back");
  await bringBack(items[0], "one");
  say(`taken back: ${shared.item.id}`);
}

// An item that was asked for before; what is on the screen comes after it.
async function bringBack(number, as) {
  const item = preload(await get(`/api/item/${number}`));
  const waiting = shared.item && kind === "one" ? [shared.item, ...ahead] : ahead;
  ahead = waiting.filter((other) => other.item !== number);
  show(item, as);
}

export const review = (number) => bringBack(number, "review");
