// What all views share: the state, the keys of the classes, small pictures of items.
export const shared = { state: null, item: null, refused: "" };
export const $ = (id) => document.getElementById(id);
// Those of tg_crepe.viz.PALETTE, as on the page of the report.
export const palette = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#F0E442", "#882255", "#999933", "#332288", "#661100"];
export const NONE = 0;

const KEYS = "123456789abdefhijklqrtvwxy"; // the letters of the other commands are left out

export function classes() { return shared.state ? shared.state.classes : []; }
export function className(number) {
  const found = classes().find((one) => one.number === number);
  return found ? found.name : "?";
}
export function place(number) { return classes().findIndex((one) => one.number === number); }
const digit = (one) => /^[0-9]$/.test(one.name);
// A class that is called 7 has the key 7; the others share the keys that are left, in their order.
export function keyOf(number) {
  if (number === NONE) return "n";
  const named = classes().filter((one) => one.number !== NONE), mine = named.find((one) => one.number === number);
  if (!mine || digit(mine)) return mine ? mine.name : "";
  const left = [...KEYS].filter((key) => !named.some((one) => one.name === key));
  return left[named.filter((one) => !digit(one)).indexOf(mine)] || "";
}
export function classOfKey(key) {
  const found = classes().find((one) => keyOf(one.number) === key.toLowerCase());
  return found ? found.number : null;
}
export const counted = (number, word) => `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;
export const per = (share, digits = 0) => `${(100 * share).toFixed(digits)} %`;

export function element(name, text = "", className = "") {
  const made = document.createElement(name);
  if (text) made.textContent = text;
  if (className) made.className = className;
  return made;
}

export function picture(item, size) {
  const image = element("img");
  image.alt = item.id;
  image.decoding = "async";
  image.addEventListener("load", () => image.classList.toggle("coarse", Math.max(image.naturalWidth, image.naturalHeight) <= 64));
  image.addEventListener("error", () => image.replaceWith(element("p", `${item.id} cannot be shown`, "empty")));
  image.src = `/api/image/${item.item}/${size}`;
  return image;
}

export function tileContent(item, words) {
  const parts = [];
  if (item.image) parts.push(picture(item, "small"));
  const text = element("span", "", "words");
  if (words) text.append(element("b", words), " ");
  text.append(item.text || (item.image ? "" : item.id));
  parts.push(text);
  return parts;
}

export function choiceButton(one, choose) {
  const button = element("button", one.name);
  const key = keyOf(one.number);
  if (key) button.append(" ", element("kbd", key.toUpperCase()));
  button.type = "button";
  button.addEventListener("click", () => choose(one.number));
  return button;
}

export function say(text) { $("spoken").textContent = text; }

// Something was refused: that is to be seen, not only heard, until something else is done.
export function complain(error) {
  say(error.message);
  shared.refused = error.message;
  $("status").textContent = error.message;
  $("status").classList.add("bad");
}
