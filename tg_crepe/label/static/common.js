// What all views share: the state, the keys of the classes, small pictures of items.
export const shared = { state: null, item: null };
export const $ = (id) => document.getElementById(id);
export const palette = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#F0E442"];
export const NONE = 0;

const KEYS = "123456789abdefhijklqrtvwxy"; // the letters of the other commands are left out

export function classes() { return shared.state ? shared.state.classes : []; }
export function className(number) {
  const found = classes().find((one) => one.number === number);
  return found ? found.name : "?";
}
export function place(number) { return classes().findIndex((one) => one.number === number); }
export function keyOf(number) { return number === NONE ? "n" : KEYS[place(number)] || ""; }
export function classOfKey(key) {
  const found = classes().find((one) => keyOf(one.number) === key.toLowerCase());
  return found ? found.number : null;
}
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
