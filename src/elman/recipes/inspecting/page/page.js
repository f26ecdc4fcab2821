"use strict";
// The numbers were recorded; nothing is computed here but where to draw them.
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const chosen = { example: 0, step: 0, layer: 0, unit: 0 };
const part = { width: 0, from: 0 }; // of the text, as the maps show it
const FEW = 160, USUAL = 120, NAMED = 60;
let timer = null;

/* Arrays are base64 of little-endian float32, [steps, units]. */
function floats(text) {
  const bytes = Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
  return new Float32Array(bytes.buffer);
}
for (const example of data.examples)
  for (const layer of example.layers)
    for (const part of layer.parts) part.values = floats(part.values);

const example = () => data.examples[chosen.example];
const layer = () => example().layers[chosen.layer];
const at = (name, step, unit) => {
  const part = layer().parts.find((one) => one.name === name);
  return unit < part.units ? part.values[step * part.units + unit] : NaN;
};
const number = (value) => (Number.isNaN(value) ? "–" : value.toFixed(4).replace("-", "−"));
const seen = (token) => token.replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/^ +$/, (all) => "␣".repeat(all.length));
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function drawStrip() {
  const most = Math.max(1, ...example().steps.map((one) => one.bits ?? 0));
  $("scale-most").textContent = `${most.toFixed(1)} bits`;
  $("strip").replaceChildren(...example().steps.map((step, place) => {
    const button = document.createElement("button");
    const bits = place ? example().steps[place - 1].bits : null;
    button.textContent = seen(step.token);
    button.style.background = `rgba(var(--surprise), ${bits === null || bits === undefined ? 0 : 0.75 * bits / most})`;
    const told = bits === null || bits === undefined ? "not predicted" : `${bits.toFixed(2)} bits`;
    button.title = told;
    button.setAttribute("aria-label", `token ${place + 1}, ${step.token}, ${told}`);
    button.addEventListener("click", () => choose({ step: place }));
    return button;
  }));
}

function drawArithmetic() {
  const lines = [];
  for (const line of layer().lines) {
    const filled = line.filled.replace(/\{([^}]+)\}/g, (_, name) => {
      const [part, when] = name.split("|");
      return number(at(when === "before" ? `${part} before` : part, chosen.step, chosen.unit));
    });
    const row = document.createElement("tr");
    row.dataset.name = line.name;
    for (const text of [line.equation, filled, number(at(line.name, chosen.step, chosen.unit))]) {
      const cell = document.createElement("td");
      cell.textContent = text;
      row.append(cell);
    }
    lines.push(row);
  }
  $("arithmetic").tBodies[0].replaceChildren(...lines);
}

function drawChoices() {
  const step = example().steps[chosen.step];
  const rows = (step.top ?? []).map((choice) => [choice.token, choice.probability, choice.real]);
  if (step.next && !rows.some((row) => row[2])) rows.push([step.next.quoted, step.next.probability, true]);
  $("choices").hidden = rows.length === 0;
  $("choices").tBodies[0].replaceChildren(...rows.map(([token, probability, real]) => {
    const row = document.createElement("tr");
    row.className = real ? "real" : "";
    const bar = document.createElement("div");
    bar.className = "bar";
    bar.style.width = `${100 * probability}%`;
    for (const content of [token, probability.toFixed(4), bar]) {
      const cell = document.createElement("td");
      cell.append(content);
      row.append(cell);
    }
    return row;
  }));
  const after = step.next
    ? `; next “${seen(step.next.token)}”, rank ${step.next.rank}, ${step.bits.toFixed(2)} bits` : "";
  $("where").textContent = `step ${chosen.step + 1} of ${example().steps.length}: reads ` +
    `“${seen(step.token)}”, layer ${chosen.layer + 1}, unit ${chosen.unit + 1}${after}`;
}

function colour(value, most, signed, zero, warm, cold) {
  const share = Math.max(-1, Math.min(1, value / (most || 1)));
  const end = share < 0 ? cold : warm;
  const weight = signed ? Math.abs(share) : Math.max(0, share);
  return zero.map((from, place) => Math.round(from + (end[place] - from) * weight));
}

/* The part of the text that the maps show: all of a short one, else a window that holds the step. */
function fillPart() {
  const steps = example().steps.length;
  const widths = [40, USUAL, 400].filter((width) => width < steps);
  $("width").replaceChildren(...widths.map((width) => new Option(width, width)), new Option(`all ${steps}`, steps));
  part.width = steps <= FEW ? steps : USUAL;
  part.from = 0;
  $("width").value = part.width;
  $("part").hidden = steps <= 40;
}

function showFrom(from) {
  part.from = Math.max(0, Math.min(example().steps.length - part.width, Math.round(from)));
}

function follow() {
  if (chosen.step >= part.from + part.width) showFrom(chosen.step - part.width / 4);
  else if (chosen.step < part.from) showFrom(chosen.step - 3 * part.width / 4);
}

function drawMaps() {
  const steps = example().steps.length;
  $("from").max = steps - part.width;
  $("from").value = part.from;
  $("from").disabled = part.width === steps;
  $("part-told").textContent = `tokens ${part.from + 1} to ${part.from + part.width} of ${steps}`;
  const colours = Object.fromEntries(["zero", "warm", "cold", "surprise"].map((name) => [name, css(`--${name}`).split(",").map(Number)]));
  const shown = layer().parts.filter((one) => !one.name.endsWith(" before"));
  $("maps").replaceChildren(...shown.map((one) => mapOf(one, colours)));
}

function mapOf(one, colours) {
  const { units, values } = one, { from, width } = part;
  let most = one.signed ? 0 : 1;
  if (one.signed) for (const value of values) most = Math.max(most, Math.abs(value));
  const canvas = document.createElement("canvas");
  canvas.width = width; canvas.height = units;
  canvas.style.height = `${Math.max(110, Math.min(2 * units, 256))}px`;
  canvas.setAttribute("aria-label", `${one.name} of layer ${chosen.layer + 1}`);
  const picture = canvas.getContext("2d").createImageData(width, units);
  for (let unit = 0; unit < units; unit++)
    for (let column = 0; column < width; column++) {
      const warm = one.signed ? colours.warm : colours.surprise;
      const shade = colour(values[(from + column) * units + unit], most, one.signed, colours.zero, warm, colours.cold);
      picture.data.set([...shade, 255], 4 * (unit * width + column));
    }
  // Where there is one row or one column, a frame would change the colour of all there is.
  if (units > 1 && chosen.unit < units) for (let column = 0; column < width; column++) frame(picture, width, chosen.unit, column, 0.25);
  const here = chosen.step - from;
  if (width > 1 && here >= 0 && here < width) for (let unit = 0; unit < units; unit++) frame(picture, width, unit, here, 0.25);
  canvas.getContext("2d").putImageData(picture, 0, 0);
  const cell = (event) => {
    const box = canvas.getBoundingClientRect();
    const place = (share, count) => Math.max(0, Math.min(count - 1, Math.floor(share * count)));
    return {
      step: from + place((event.clientX - box.left) / box.width, width),
      unit: place((event.clientY - box.top) / box.height, units),
    };
  };
  canvas.addEventListener("click", (event) => choose(cell(event)));
  canvas.addEventListener("mousemove", (event) => {
    const { step, unit } = cell(event);
    canvas.title = `unit ${unit + 1}, token ${step + 1} “${seen(example().steps[step].token)}”: ${number(values[step * units + unit])}`;
  });
  const whole = document.createElement("div"), title = document.createElement("h3");
  whole.className = "map";
  title.append(one.name, keyOf(one.signed, most));
  whole.append(title, canvas);
  if (width <= NAMED) whole.append(namesOf());
  return whole;
}

function keyOf(signed, most) {
  const key = document.createElement("span"), bar = document.createElement("i");
  key.className = "key";
  bar.className = signed ? "signed" : "share";
  if (signed) key.append(`blue: −${most.toFixed(2)}`, bar, `${most.toFixed(2)}: red`);
  else key.append("pale: 0", bar, "1: purple");
  return key;
}

function namesOf() {
  const row = document.createElement("div"), tokens = example().steps.slice(part.from, part.from + part.width);
  const names = tokens.map((step) => /^\[ .* \]$/.test(step.token) ? step.token.replace(/ /g, "") : seen(step.token));
  row.className = names.some((name) => name.length > 3) ? "tokens words" : "tokens";
  row.append(...names.map((_, column) => {
    const place = document.createElement("span"), name = document.createElement("b");
    place.className = part.from + column === chosen.step ? "here" : "";
    name.style.fontWeight = "inherit";
    name.textContent = names[column];
    place.append(name);
    return place;
  }));
  return row;
}

function frame(picture, width, row, column, weight) {
  const place = 4 * (row * width + column), mark = [183, 121, 31];
  for (let part = 0; part < 3; part++)
    picture.data[place + part] += (mark[part] - picture.data[place + part]) * weight;
}

const BOX = { left: 50, right: 700, top: 14, bottom: 214 };

/* A curve ends where the axis ends, and where a value is 0 and the axis has no place for it. */
function chartOf(panel) {
  const xs = panel.curves[0].xs, all = panel.curves.flatMap((curve) => curve.ys).filter((value) => value > 0);
  const high = panel.decades ? Math.ceil(Math.log10(Math.max(...all))) : 1;
  const least = panel.decades ? Math.floor(Math.log10(Math.min(...all))) : 0;
  const low = panel.decades ? Math.min(high - 1, Math.max(high - panel.decades, least)) : 0;
  const along = (x) => panel.log_x ? Math.log1p(x) : x;
  const x = (back) => BOX.left + along(back) / Math.max(along(xs[xs.length - 1]), 1e-9) * (BOX.right - BOX.left);
  const y = (value) => BOX.top + (high - (panel.decades ? Math.log10(value) : value)) / (high - low) * (BOX.bottom - BOX.top);
  const parts = [`<clipPath id="clip-${panel.name}"><rect x="${BOX.left}" y="${BOX.top - 2}" width="${BOX.right - BOX.left + 2}" height="${BOX.bottom - BOX.top + 3}"/></clipPath>`];
  const every = panel.decades ? Math.ceil((high - low) / 9) : 0.25;
  for (let mark = high; mark >= low; mark -= every) {
    const place = y(panel.decades ? 10 ** mark : mark);
    parts.push(`<line class="axis" x1="${BOX.left}" x2="${BOX.right}" y1="${place}" y2="${place}"/>` +
      `<text x="${BOX.left - 6}" y="${place + 4}" text-anchor="end">${panel.decades ? `1e${mark}` : mark}</text>`);
  }
  if (panel.rule) parts.push(`<line class="rule" x1="${BOX.left}" x2="${BOX.right}" y1="${y(panel.rule)}" y2="${y(panel.rule)}"/>`);
  let last = -Infinity;
  for (const back of panel.log_x || xs.length <= 12 ? xs : xs.filter((_, place) => place % Math.ceil(xs.length / 10) === 0)) {
    if (x(back) - last < 30) continue;
    last = x(back);
    parts.push(`<text x="${last}" y="${BOX.bottom + 18}" text-anchor="middle">${back}</text>`);
  }
  parts.push(`<text x="${(BOX.left + BOX.right) / 2}" y="${BOX.bottom + 36}" text-anchor="middle">${panel.x}</text>`);
  panel.curves.forEach((curve, which) => {
    let begun = false;
    const way = curve.ys.map((value, place) => {
      if (panel.decades && !(value > 0)) { begun = false; return ""; }
      const step = `${begun ? "L" : "M"}${x(curve.xs[place]).toFixed(1)},${y(value).toFixed(1)}`;
      begun = true;
      return step;
    }).join("");
    parts.push(`<path class="curve ${which ? "second" : "first"}" clip-path="url(#clip-${panel.name})" d="${way}"/>`);
  });
  const cut = panel.decades && (least < low || panel.curves.some((curve) => curve.ys.some((value) => !(value > 0))));
  return { drawn: parts.join(""), told: cut ? ` Curves end where they fall below 1e${low}.` : "" };
}

function drawCharts() {
  $("charts").replaceChildren(...data.charts.map((panel) => {
    const whole = document.createElement("section"), title = document.createElement("h2"), told = document.createElement("p");
    const legend = document.createElement("p"), svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const chart = chartOf(panel);
    whole.className = "chart";
    whole.id = `chart-${panel.name}`;
    title.textContent = panel.title;
    told.className = "hint";
    told.textContent = panel.told + chart.told;
    svg.setAttribute("viewBox", "0 0 720 256");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", panel.title);
    svg.innerHTML = chart.drawn;
    legend.className = "legend";
    legend.append(...panel.curves.map((curve, which) => {
      const entry = document.createElement("span");
      entry.innerHTML = `<svg viewBox="0 0 26 8"><path class="curve ${which ? "second" : "first"}" d="M0,4H26"/></svg>`;
      entry.append(curve.name);
      return entry;
    }));
    whole.append(title, told, svg, legend);
    return whole;
  }));
}

function drawGates() {
  $("gates").tBodies[0].replaceChildren(...data.gates.rows.map((cells) => {
    const row = document.createElement("tr");
    for (const text of cells) {
      const cell = document.createElement("td");
      cell.textContent = text;
      row.append(cell);
    }
    return row;
  }));
  $("gates-told").textContent = data.gates.told;
  $("carry").textContent = data.gates.carry;
}

function choose(change) {
  const other = "example" in change && change.example !== chosen.example;
  Object.assign(chosen, change);
  if (other) { chosen.step = chosen.layer = chosen.unit = 0; fillLayers(); fillPart(); drawStrip(); }
  const steps = example().steps.length;
  chosen.step = (chosen.step + steps) % steps;
  const most = Math.max(...layer().parts.map((part) => part.units));
  chosen.unit = (chosen.unit + most) % most;
  $("unit").max = most;
  $("unit").value = chosen.unit + 1;
  $("layer").value = chosen.layer;
  [...$("strip").children].forEach((button, place) => button.setAttribute("aria-pressed", place === chosen.step));
  follow();
  drawArithmetic(); drawChoices(); drawMaps();
}

function fillLayers() {
  $("layer").replaceChildren(...example().layers.map((one, place) => new Option(`${place + 1} (${one.cell})`, place)));
}

function play() {
  if (timer) { clearInterval(timer); timer = null; } else {
    timer = setInterval(() => {
      if (chosen.step + 1 >= example().steps.length) return play();
      choose({ step: chosen.step + 1 });
    }, 700);
  }
  $("play").textContent = timer ? "⏸ pause" : "▶ play";
}

$("title").textContent = data.title;
$("facts").textContent = data.facts;
$("example").replaceChildren(...data.examples.map((one, place) => new Option(one.name, place)));
$("example").addEventListener("change", (event) => choose({ example: Number(event.target.value) }));
$("layer").addEventListener("change", (event) => choose({ layer: Number(event.target.value) }));
$("unit").addEventListener("change", (event) => choose({ unit: Math.max(0, Number(event.target.value) - 1) }));
$("width").addEventListener("change", (event) => {
  part.width = Number(event.target.value);
  showFrom(chosen.step - part.width / 2);
  drawMaps();
});
$("from").addEventListener("input", (event) => { showFrom(Number(event.target.value)); drawMaps(); });
$("back").addEventListener("click", () => choose({ step: chosen.step - 1 }));
$("forward").addEventListener("click", () => choose({ step: chosen.step + 1 }));
$("play").addEventListener("click", play);
document.addEventListener("keydown", (event) => {
  if (["INPUT", "SELECT"].includes(event.target.tagName)) return;
  const moves = { ArrowLeft: { step: chosen.step - 1 }, ArrowRight: { step: chosen.step + 1 },
    ArrowUp: { unit: chosen.unit - 1 }, ArrowDown: { unit: chosen.unit + 1 } };
  if (event.key === " " && event.target.tagName !== "BUTTON") { event.preventDefault(); play(); }
  else if (moves[event.key]) { event.preventDefault(); choose(moves[event.key]); }
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawMaps);
drawCharts(); drawGates();
chosen.example = -1;
choose({ example: data.examples.length - 1 });
$("example").value = chosen.example;
