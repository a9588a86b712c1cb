// How far it is, and whether to go on.
import { $, element, per, shared } from "./common.js";

const SVG = "http://www.w3.org/2000/svg";
function draw(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
}

export function open() {
  const state = shared.state;
  $("sort-line").hidden = state.kind !== "images";
  $("verdict").textContent = verdict(state);
  curve(state.curve);
}

function verdict(state) {
  if (!state.error) return "Not enough answers to say anything: at least two classes need labels.";
  const [value, low, high] = state.error;
  let text = `About ${per(value, 1)} of the other labels should be wrong (${per(low, 1)} to ${per(high, 1)}).`;
  if (state.tests) text += ` ${state.tests} of your answers were a test first: the model had a guess and had not seen them.`;
  if (state.tenMore !== null) {
    const gain = value - state.tenMore;
    text += gain < 0.003 || gain < 0.02 * value ? " Ten more answers would hardly change that." : ` Ten more answers would probably bring it to ${per(state.tenMore, 1)}.`;
  }
  return text;
}

function curve(points) {
  const width = 640, height = 260, left = 48, bottom = 34, top = 12, right = 12;
  if (points.length < 2) { $("curve").replaceChildren(element("p", "The curve begins with the second solve.", "note")); $("curve-words").textContent = ""; return; }
  const last = points[points.length - 1][0], most = Math.min(1, Math.max(...points.map((p) => p[3])));
  const x = (n) => left + ((width - left - right) * n) / last, y = (e) => top + (height - top - bottom) * (1 - Math.min(e, most) / most);
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Expected error over the number of labels" });
  for (const part of [0, 0.5, 1]) {
    svg.append(draw("line", { class: "axis", x1: left, x2: width - right, y1: y(part * most), y2: y(part * most) }));
    svg.append(draw("text", { x: left - 6, y: y(part * most) + 4, "text-anchor": "end" }, per(part * most)));
  }
  svg.append(draw("text", { x: left, y: height - 10 }, "0"), draw("text", { x: width - right, y: height - 10, "text-anchor": "end" }, `${last} labels`));
  const up = points.map((p) => `${x(p[0])},${y(p[2])}`), down = points.map((p) => `${x(p[0])},${y(p[3])}`).reverse();
  svg.append(draw("polygon", { class: "band", points: [...up, ...down].join(" ") }));
  svg.append(draw("polyline", { class: "line", points: points.map((p) => `${x(p[0])},${y(p[1])}`).join(" ") }));
  $("curve").replaceChildren(svg);
  $("curve-words").textContent = `Wrong labels to expect among the items without an answer, from ${per(points[0][1])} at ${points[0][0]} labels to ${per(points[points.length - 1][1], 1)} at ${last}; the band should hold the truth nine times of ten.`;
}
