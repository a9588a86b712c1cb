// The classes: add, rename, merge, delete, and what is worth a second look.
import { change, get } from "./api.js";
import { $, NONE, className, classes, complain, counted, element, per, say, tileContent } from "./common.js";

export async function open(onReview) {
  const content = await get("/api/classes");
  $("class-list").replaceChildren(...classes().filter((one) => one.number !== NONE || one.labels).map((one) => row(one, content.examples[one.number] || [])));
  $("pairs").replaceChildren(...content.pairs.map(([a, b, mass]) => element("li", `${className(a)} that may be ${className(b)}: about ${Math.round(mass)} items`)));
  if (!content.pairs.length) $("pairs").replaceChildren(element("li", "none so far"));
  $("suspects").classList.toggle("texts", content.suspects.some((item) => !item.image));
  $("suspects").replaceChildren(...content.suspects.map((item) => {
    const li = element("li"), tile = element("button", "", "tile");
    tile.append(...tileContent(item, `${className(item.label)}, around it ${className(item.vote)} ${per(item.share)}`));
    tile.addEventListener("click", () => onReview(item.item));
    li.append(tile);
    return li;
  }));
  if (!content.suspects.length) $("suspects").replaceChildren(element("li", "none so far", "none"));
}

function row(one, examples) {
  const made = element("div", "", "class-row"), left = element("div"), tiles = element("ul", "", "tiles");
  left.append(element("h2", one.name), element("span", `${counted(one.labels, "label")}, ${counted(one.guesses, "pseudo-label")}`, "note"));
  if (one.number !== NONE) left.append(tools(one));
  tiles.setAttribute("aria-label", `Examples of ${one.name}`);
  tiles.classList.toggle("texts", examples.some((item) => !item.image));
  tiles.append(...examples.map((item) => {
    const tile = element("li", "", "tile");
    tile.append(...tileContent(item, item.guess ? per(item.guess[1]) : ""));
    return tile;
  }));
  made.append(left, tiles);
  return made;
}

function tools(one) {
  const line = element("div", "", "acts"), form = element("form", "", "inline"), name = element("input"), rename = element("button", "Rename");
  name.value = one.name;
  name.maxLength = 100;
  name.setAttribute("aria-label", `New name of ${one.name}`);
  form.append(name, rename);
  form.addEventListener("submit", (event) => { event.preventDefault(); run({ do: "rename", class: one.number, name: name.value }); });
  const into = element("select");
  into.setAttribute("aria-label", `Merge ${one.name} into`);
  into.append(new Option("merge into …", ""), ...classes().filter((other) => other.number !== one.number).map((other) => new Option(other.name, other.number)));
  into.addEventListener("change", () => { if (into.value) run({ do: "merge", class: one.number, into: Number(into.value) }); });
  const gone = element("button", "Delete");
  gone.type = "button";
  gone.setAttribute("aria-label", `Delete ${one.name}`);
  gone.addEventListener("click", () => run({ do: "delete", class: one.number }));
  line.append(form, into, gone);
  return line;
}

async function run(body) {
  try {
    await change("/api/change", body);
    say("done; Z takes it back");
  } catch (error) { complain(error); }
}

export async function add(input) {
  const name = input.value.trim();
  if (!name) return;
  try {
    await change("/api/change", { do: "add", name });
    input.value = "";
    say(`class ${name} added`);
  } catch (error) { complain(error); }
}
