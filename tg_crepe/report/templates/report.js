"use strict";
(() => {
  const { map, palette } = JSON.parse(document.getElementById("data").textContent);
  const canvas = document.getElementById("nodes"), pen = canvas.getContext("2d");
  const tip = document.getElementById("tip"), spoken = document.getElementById("spoken");
  const slider = document.getElementById("moment"), layout = document.getElementById("layout");
  const count = map.ids.length, grey = "#999999", margin = 14;
  let chosen = -1, frame = 0, places = [];

  const moment = () => (slider ? Number(slider.value) : map.moments.length - 1);
  const byCertainty = () => document.querySelector("input[name=colour]:checked").value === "certainty";
  const colourOf = (label) => (label < 0 ? grey : palette[label % palette.length]);

  // The scale "cividis", by five of its colours: its lightness grows evenly, also for the colour-blind.
  const stops = [[0, 32, 77], [64, 77, 107], [124, 123, 120], [188, 175, 111], [255, 234, 70]];
  function certaintyColour(value) {
    const at = Math.min(Math.max(value, 0), 0.9999) * (stops.length - 1), low = Math.floor(at), part = at - low;
    return `rgb(${stops[low].map((v, i) => Math.round(v + part * (stops[low + 1][i] - v))).join(",")})`;
  }

  // The same eight shapes as the figures, so that classes differ without colour.
  function polygon(target, x, y, corners) {
    corners.forEach(([dx, dy], i) => (i ? target.lineTo(x + dx, y + dy) : target.moveTo(x + dx, y + dy)));
    target.closePath();
  }
  function shape(target, x, y, size, label) {
    const s = size, t = size * 0.38;
    target.beginPath();
    switch (label < 0 ? 0 : label % 8) {
      case 1: polygon(target, x, y, [[0, -s], [s, s * 0.8], [-s, s * 0.8]]); break;
      case 2: target.rect(x - s * 0.85, y - s * 0.85, s * 1.7, s * 1.7); break;
      case 3: polygon(target, x, y, [[0, -s * 1.15], [s * 1.15, 0], [0, s * 1.15], [-s * 1.15, 0]]); break;
      case 4: polygon(target, x, y, [[0, s], [s, -s * 0.8], [-s, -s * 0.8]]); break;
      case 5: polygon(target, x, y, [[-t, -s], [t, -s], [t, -t], [s, -t], [s, t], [t, t], [t, s], [-t, s], [-t, t], [-s, t], [-s, -t], [-t, -t]]); break;
      case 6: polygon(target, x, y, [[-s, -s * 0.6], [-s * 0.6, -s], [0, -t], [s * 0.6, -s], [s, -s * 0.6], [t, 0], [s, s * 0.6], [s * 0.6, s], [0, t], [-s * 0.6, s], [-s, s * 0.6], [-t, 0]]); break;
      case 7: polygon(target, x, y, Array.from({ length: 10 }, (_, i) => {
        const r = i % 2 ? s * 0.5 : s * 1.2, a = (i * Math.PI) / 5 - Math.PI / 2;
        return [r * Math.cos(a), r * Math.sin(a)];
      })); break;
      default: target.arc(x, y, label < 0 ? s * 0.6 : s, 0, 2 * Math.PI);
    }
  }

  function place() {
    const xy = map.layouts[layout ? Number(layout.value) : 0].xy;
    const flat = xy[Math.min(moment(), xy.length - 1)];
    const width = canvas.clientWidth - 2 * margin, height = canvas.clientHeight - 2 * margin;
    places = Array.from({ length: count }, (_, i) => [margin + (flat[2 * i] / 999) * width, margin + (1 - flat[2 * i + 1] / 999) * height]);
  }

  function draw() {
    frame = 0;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(canvas.clientWidth * ratio);
    canvas.height = Math.round(canvas.clientHeight * ratio);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    place();
    const labels = map.labels[moment()], certain = byCertainty();
    const ink = getComputedStyle(canvas).color, size = count > 2000 ? 2.6 : 3.4;
    const one = (i, large) => {
      shape(pen, places[i][0], places[i][1], large ? 2.2 * size : size, labels[i]);
      pen.fillStyle = certain ? certaintyColour(map.certainty[i] / 100) : colourOf(labels[i]);
      pen.fill();
      pen.strokeStyle = ink; // a hairline: yellow on white and dark blue on black would hardly be seen
      pen.lineWidth = large ? 2 : 0.35;
      pen.stroke();
    };
    for (let i = 0; i < count; i++) if (!map.labelled[i]) one(i, false);
    for (let i = 0; i < count; i++) if (map.labelled[i]) one(i, true);
    if (chosen >= 0) {
      pen.beginPath();
      pen.arc(places[chosen][0], places[chosen][1], 11, 0, 2 * Math.PI);
      pen.strokeStyle = ink;
      pen.lineWidth = 3;
      pen.stroke();
      showTip();
    }
  }
  const redraw = () => { if (!frame) frame = requestAnimationFrame(draw); };

  function describe(i) {
    const lines = [map.ids[i], ...(map.text && map.text[i] ? [map.text[i]] : []), `${map.labelled[i] ? "given label" : "pseudo-label"}: ${map.guess[i]}`];
    if (!map.labelled[i]) lines.push(`certainty ${(map.certainty[i] / 100).toFixed(2)}`);
    if (map.truth && map.truth[i] !== null && !map.right[i]) lines.push(`wrong, the truth is ${map.truth[i]}`);
    return lines;
  }

  function showTip() {
    const picture = tip.querySelector(".thumb"), thumb = map.thumb[chosen];
    if (picture) {
      picture.hidden = thumb < 0;
      picture.style.setProperty("--c", thumb % map.columns);
      picture.style.setProperty("--r", Math.floor(thumb / map.columns));
    }
    tip.querySelector(".words").textContent = describe(chosen).join("\n");
    tip.hidden = false;
    const [x, y] = places[chosen];
    tip.style.left = `${Math.max(0, x + 16 + tip.offsetWidth > canvas.clientWidth ? x - 16 - tip.offsetWidth : x + 16)}px`;
    tip.style.top = `${Math.max(0, Math.min(y - 10, canvas.clientHeight - tip.offsetHeight))}px`;
  }

  function choose(i, speak) {
    if (i === chosen) return;
    chosen = i;
    tip.hidden = i < 0;
    if (speak && i >= 0) spoken.textContent = describe(i).join(", ");
    redraw();
  }

  function nearest(x, y, within) {
    let best = -1, least = within * within;
    places.forEach(([px, py], i) => {
      const d = (px - x) ** 2 + (py - y) ** 2;
      if (d < least) { least = d; best = i; }
    });
    return best;
  }

  // The next node in a direction: near, and not far off to the side.
  function neighbour(dx, dy) {
    const [x, y] = places[chosen];
    let best = chosen, least = Infinity;
    places.forEach(([px, py], i) => {
      const along = (px - x) * dx + (py - y) * dy, aside = Math.abs((px - x) * dy - (py - y) * dx);
      if (i !== chosen && along > 0.5 && along + 2 * aside < least) { least = along + 2 * aside; best = i; }
    });
    return best;
  }

  const point = (event) => {
    const box = canvas.getBoundingClientRect();
    choose(nearest(event.clientX - box.left, event.clientY - box.top, event.pointerType === "touch" ? 28 : 16), false);
  };
  canvas.addEventListener("pointermove", point);
  canvas.addEventListener("pointerdown", point);
  canvas.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") choose(-1, false); });
  canvas.addEventListener("focus", () => { if (chosen < 0 && canvas.matches(":focus-visible")) choose(nearest(canvas.clientWidth / 2, canvas.clientHeight / 2, 1e6), true); });
  canvas.addEventListener("blur", () => choose(-1, false));
  const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return choose(-1, false);
    if (!(event.key in arrows) || !count) return;
    event.preventDefault();
    choose(chosen < 0 ? nearest(canvas.clientWidth / 2, canvas.clientHeight / 2, 1e6) : neighbour(...arrows[event.key]), true);
  });

  function item(text, mark) {
    const li = document.createElement("li");
    if (mark) li.append(mark);
    li.append(text);
    return li;
  }
  function swatch(label, ring) {
    const mark = document.createElement("canvas"), ratio = window.devicePixelRatio || 1;
    mark.width = mark.height = 16 * ratio;
    mark.setAttribute("aria-hidden", "true");
    const brush = mark.getContext("2d");
    brush.scale(ratio, ratio);
    shape(brush, 8, 8, 5.5, label);
    brush.fillStyle = colourOf(label);
    if (!ring) brush.fill();
    brush.strokeStyle = getComputedStyle(canvas).color;
    brush.lineWidth = 2;
    if (ring) brush.stroke();
    return mark;
  }
  function legend() {
    const list = document.getElementById("legend"), present = [...new Set(map.labels.flat())].sort((a, b) => a - b);
    if (byCertainty()) {
      const bar = document.createElement("span");
      bar.className = "bar";
      bar.style.background = `linear-gradient(to right, ${stops.map((s) => `rgb(${s.join(",")})`).join(",")})`;
      list.replaceChildren(item("0"), item(" 1", bar), item("certainty"));
      return;
    }
    const shown = present.slice(0, 40).map((label) => item(label < 0 ? "no label" : map.classes[label], swatch(label, false)));
    if (present.length > 40) shown.push(item(`and ${present.length - 40} more`));
    if (map.labelled.some(Boolean)) shown.push(item("given label", swatch(0, true)));
    list.replaceChildren(...shown);
  }

  if (slider) {
    const name = () => {
      document.getElementById("moment-name").textContent = map.moments[moment()];
      slider.setAttribute("aria-valuetext", map.moments[moment()]);
    };
    slider.addEventListener("input", () => { name(); redraw(); });
    name();
  }
  if (layout) layout.addEventListener("change", redraw);
  document.querySelectorAll("input[name=colour]").forEach((button) => button.addEventListener("change", () => { legend(); redraw(); }));
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { legend(); redraw(); });
  new ResizeObserver(redraw).observe(canvas);
  legend();
  draw();
})();
