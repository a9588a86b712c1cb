// The map of the report, with a lasso.
import { change, get, post, settled } from "./api.js";
import { $, choiceButton, className, classes, complain, element, palette, place, say, tileContent } from "./common.js";
import { taken } from "./one.js";

const canvas = $("nodes"), pen = canvas.getContext("2d"), margin = 14;
let map = null, line = [], cross = null, drawing = false, inside = null, frame = 0;

export async function open() {
  map = await get("/api/map");
  legend();
  redraw();
}
export const redraw = () => { if (!frame) frame = requestAnimationFrame(draw); };
const by = () => document.querySelector("input[name=map-colour]:checked").value;
const colourOf = (number) => (place(number) < 0 ? "#999999" : palette[place(number) % palette.length]);

const stops = [[0, 32, 77], [64, 77, 107], [124, 123, 120], [188, 175, 111], [255, 234, 70]];
function certaintyColour(value) {
  const at = Math.min(Math.max(value, 0), 0.9999) * (stops.length - 1), low = Math.floor(at), part = at - low;
  return `rgb(${stops[low].map((v, i) => Math.round(v + part * (stops[low + 1][i] - v))).join(",")})`;
}

// Shapes beside colours, as in the report: classes differ without colour.
function shape(target, x, y, s, number) {
  // Corners, the turn of the first one, and how far in every second one lies.
  const [count, turn, inner] = [[0, 0, 1], [3, -0.25, 1], [4, 0.125, 1], [4, 0, 1], [3, 0.25, 1], [8, 0, 0.45], [8, 0.125, 0.45], [10, -0.25, 0.45]][place(number) < 0 ? 0 : place(number) % 8];
  target.beginPath();
  if (!count) target.arc(x, y, place(number) < 0 ? s * 0.6 : s, 0, 2 * Math.PI);
  for (let i = 0; i < count; i++) {
    const angle = 2 * Math.PI * (turn + i / count), r = s * (i % 2 && inner < 1 ? 1.3 * inner : 1.25);
    target.lineTo(x + r * Math.cos(angle), y + r * Math.sin(angle));
  }
  if (count) target.closePath();
}

const toScreen = (x, y) => [margin + (x / 999) * (canvas.clientWidth - 2 * margin), margin + (1 - y / 999) * (canvas.clientHeight - 2 * margin)];
const toMap = (x, y) => [((x - margin) / (canvas.clientWidth - 2 * margin)) * 999, (1 - (y - margin) / (canvas.clientHeight - 2 * margin)) * 999];

function draw() {
  frame = 0;
  if (!map || !canvas.clientWidth) return;
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(canvas.clientWidth * ratio);
  canvas.height = Math.round(canvas.clientHeight * ratio);
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  const ink = getComputedStyle(canvas).color, size = map.item.length > 2000 ? 2.6 : 3.4, colour = by();
  const one = (i, large) => {
    const [x, y] = toScreen(map.xy[2 * i], map.xy[2 * i + 1]);
    shape(pen, x, y, large ? 2.2 * size : size, map.label[i]);
    pen.fillStyle = colour === "certainty" ? certaintyColour(map.certainty[i] / 100) : colour === "changed" && !map.changed[i] ? "#99999955" : colourOf(map.label[i]);
    pen.fill();
    pen.strokeStyle = ink;
    pen.lineWidth = large ? 2 : 0.35;
    pen.stroke();
  };
  for (let i = 0; i < map.item.length; i++) if (!map.given[i]) one(i, false);
  for (let i = 0; i < map.item.length; i++) if (map.given[i]) one(i, true);
  if (line.length) {
    pen.beginPath();
    line.forEach(([x, y], i) => { const at = toScreen(x, y); if (i) pen.lineTo(...at); else pen.moveTo(...at); });
    if (!drawing && !cross) pen.closePath();
    pen.strokeStyle = ink;
    pen.lineWidth = 2;
    pen.setLineDash([6, 4]);
    pen.stroke();
    pen.setLineDash([]);
    line.forEach(([x, y]) => { const at = toScreen(x, y); pen.fillStyle = ink; pen.fillRect(at[0] - 2, at[1] - 2, 4, 4); });
  }
  if (cross) {
    const [x, y] = toScreen(...cross);
    pen.strokeStyle = ink;
    pen.lineWidth = 2;
    pen.beginPath();
    pen.moveTo(x - 12, y); pen.lineTo(x + 12, y); pen.moveTo(x, y - 12); pen.lineTo(x, y + 12);
    pen.stroke();
  }
}

function legend() {
  const item = (text, number) => {
    const li = element("li");
    if (number !== undefined) {
      const mark = element("canvas"), ratio = window.devicePixelRatio || 1;
      mark.width = mark.height = 16 * ratio;
      mark.setAttribute("aria-hidden", "true");
      const brush = mark.getContext("2d");
      brush.scale(ratio, ratio);
      shape(brush, 8, 8, 5, number);
      brush.fillStyle = colourOf(number);
      brush.fill();
      li.append(mark);
    }
    li.append(text);
    return li;
  };
  const shown = by() === "certainty" ? [item("dark: doubtful, bright: certain")] : classes().filter((one) => one.labels + one.guesses > 0).slice(0, 40).map((one) => item(one.name, one.number));
  if (by() === "changed") shown.unshift(item(`${map.changed.filter(Boolean).length} of these changed with the last solve`));
  if (map.item.length < map.total) shown.push(item(`${map.item.length.toLocaleString("en")} of ${map.total.toLocaleString("en")} items are drawn, the lasso takes all`));
  $("legend").replaceChildren(...shown);
}

function spot(event) {
  const box = canvas.getBoundingClientRect();
  return toMap(event.clientX - box.left, event.clientY - box.top);
}
canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); drawing = true; cross = null; line = [spot(event)]; redraw(); });
canvas.addEventListener("pointermove", (event) => { if (drawing && line.length < 1900) { line.push(spot(event)); redraw(); } });
canvas.addEventListener("pointerup", () => { if (drawing) { drawing = false; close(); } });
canvas.addEventListener("keydown", (event) => {
  const step = event.shiftKey ? 100 : 25, arrow = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] }[event.key];
  if (arrow) {
    cross = (cross || [500, 500]).map((v, i) => Math.min(Math.max(v + arrow[i], 0), 999));
    $("map-spoken").textContent = `${Math.round(cross[0] / 10)}, ${Math.round(cross[1] / 10)}`;
  } else if (event.key === " ") {
    cross = cross || [500, 500];
    if (inside) { inside = null; line = []; }
    line.push([...cross]);
    $("map-spoken").textContent = `corner ${line.length}`;
  } else if (event.key === "Enter" && line.length > 2 && cross) {
    cross = null;
    close();
  } else if (event.key === "Escape") clear();
  else return;
  event.preventDefault();
  event.stopPropagation();
  redraw();
});

export function clear() {
  line = []; cross = null; inside = null;
  $("lasso").hidden = true;
  redraw();
}

async function close() {
  if (line.length < 3) return clear();
  const drawn = line;
  await settled();
  if (line !== drawn) return;  // it was cleared meanwhile
  inside = await post("/api/lasso", { polygon: drawn });
  const count = inside.free.length;
  $("lasso").hidden = false;
  $("lasso-title").textContent = inside.tooMany ? "too many items: draw a smaller line" : `${inside.inside} items inside, ${count} without an answer${inside.tiles.length < inside.inside ? `, ${inside.tiles.length} are shown` : ""}`;
  $("lasso-choices").replaceChildren(...(count && !inside.tooMany ? classes().map((one) => choiceButton(one, label)) : []));
  $("lasso-tiles").classList.toggle("texts", inside.tiles.some((item) => !item.image));
  $("lasso-tiles").replaceChildren(...inside.tiles.map((item) => {
    const tile = element("li", "", "tile");
    tile.append(...tileContent(item, item.label !== null ? className(item.label) : item.guess ? className(item.guess[0]) : ""));
    return tile;
  }));
  $("lasso-title").focus({ preventScroll: false });
  say($("lasso-title").textContent);
}

// All items inside that have no answer yet get the class.
export function label(number) {
  if (!inside || !inside.free.length || inside.tooMany) return false;
  const answers = inside.free.map((item) => ({ item, kind: "class", class: number }));
  clear();
  taken(answers.map((answer) => answer.item));
  change("/api/answer", { kind: "lasso", answers }).then(() => { say(`${answers.length} items are ${className(number)}`); open(); }).catch(complain);
  canvas.focus();
  return true;
}

document.querySelectorAll("input[name=map-colour]").forEach((button) => button.addEventListener("change", () => { legend(); redraw(); }));
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
new ResizeObserver(redraw).observe(canvas);
