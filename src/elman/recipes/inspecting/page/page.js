"use strict";
// The numbers were recorded; nothing is computed here but where to draw them.
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const chosen = { example: 0, step: 0, layer: 0, unit: 0 };
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
  if (step.next && !rows.some((row) => row[2])) rows.push([step.next.token, step.next.probability, true]);
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

function drawMaps() {
  const rgb = (name) => css(name).split(",").map(Number);
  const [zero, warm, cold, share] = [rgb("--zero"), rgb("--warm"), rgb("--cold"), rgb("--surprise")];
  $("maps").replaceChildren(...layer().parts.filter((part) => !part.name.endsWith(" before")).map((part) => {
    const steps = example().steps.length, units = part.units;
    let most = part.signed ? 0 : 1;
    if (part.signed) for (const value of part.values) most = Math.max(most, Math.abs(value));
    const canvas = document.createElement("canvas");
    canvas.width = steps; canvas.height = units;
    canvas.setAttribute("aria-label", `${part.name} of layer ${chosen.layer + 1}`);
    const picture = canvas.getContext("2d").createImageData(steps, units);
    for (let unit = 0; unit < units; unit++)
      for (let step = 0; step < steps; step++) {
        const shown = colour(part.values[step * units + unit], most, part.signed, zero, part.signed ? warm : share, cold);
        picture.data.set([...shown, 255], 4 * (unit * steps + step));
      }
    if (chosen.unit < units) for (let step = 0; step < steps; step++) frame(picture, steps, chosen.unit, step, 0.25);
    for (let unit = 0; unit < units; unit++) frame(picture, steps, unit, chosen.step, 0.25);
    canvas.getContext("2d").putImageData(picture, 0, 0);
    canvas.addEventListener("click", (event) => {
      const box = canvas.getBoundingClientRect();
      choose({
        step: Math.min(steps - 1, Math.floor((event.clientX - box.left) / box.width * steps)),
        unit: Math.min(units - 1, Math.floor((event.clientY - box.top) / box.height * units)),
      });
    });
    const whole = document.createElement("div"), title = document.createElement("h3");
    whole.className = "map";
    title.textContent = `${part.name} (${part.signed ? `−${most.toFixed(2)} to ${most.toFixed(2)}` : "0 to 1"})`;
    whole.append(title, canvas);
    return whole;
  }));
}

function frame(picture, width, row, column, weight) {
  const place = 4 * (row * width + column), mark = [183, 121, 31];
  for (let part = 0; part < 3; part++)
    picture.data[place + part] += (mark[part] - picture.data[place + part]) * weight;
}

function drawReach() {
  const reach = data.reach, svg = $("reach");
  if (!reach) { $("reach-section").hidden = true; return; }
  $("reach-told").textContent = reach.told;
  const all = [...reach.inputs, ...reach.states].filter((value) => value > 0);
  const high = Math.ceil(Math.log10(Math.max(...all)));
  const low = Math.max(high - 12, Math.floor(Math.log10(Math.min(...all))));
  const x = (back) => 50 + back / Math.max(1, reach.inputs.length - 1) * 650;
  const y = (value) => 20 + (high - Math.max(low, Math.log10(value || 1e-300))) / Math.max(1, high - low) * 200;
  const parts = [];
  for (let power = low; power <= high; power++)
    parts.push(`<line class="axis" x1="50" x2="700" y1="${y(10 ** power)}" y2="${y(10 ** power)}"/>` +
      `<text x="44" y="${y(10 ** power) + 4}" text-anchor="end">1e${power}</text>`);
  const every = Math.max(1, Math.round(reach.inputs.length / 10));
  for (let back = 0; back < reach.inputs.length; back += every)
    parts.push(`<text x="${x(back)}" y="238" text-anchor="middle">${back}</text>`);
  const line = (values) => values.map((value, back) => `${x(back)},${y(value)}`).join(" ");
  parts.push(`<polyline class="states" points="${line(reach.states)}"/>`,
    `<polyline class="inputs" points="${line(reach.inputs)}"/>`,
    `<text x="375" y="256" text-anchor="middle">tokens back (blue: by the input, red: by the state)</text>`);
  svg.innerHTML = parts.join("");
}

function drawGates() {
  $("gates").tBodies[0].replaceChildren(...data.gates.map((cells) => {
    const row = document.createElement("tr");
    for (const text of cells) {
      const cell = document.createElement("td");
      cell.textContent = text;
      row.append(cell);
    }
    return row;
  }));
  $("carry").textContent = data.carry;
}

function choose(change) {
  const other = "example" in change && change.example !== chosen.example;
  Object.assign(chosen, change);
  if (other) { chosen.step = chosen.layer = chosen.unit = 0; fillLayers(); drawStrip(); }
  const steps = example().steps.length;
  chosen.step = (chosen.step + steps) % steps;
  const most = Math.max(...layer().parts.map((part) => part.units));
  chosen.unit = (chosen.unit + most) % most;
  $("unit").max = most;
  $("unit").value = chosen.unit + 1;
  $("layer").value = chosen.layer;
  [...$("strip").children].forEach((button, place) => button.setAttribute("aria-pressed", place === chosen.step));
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
drawReach(); drawGates();
chosen.example = -1;
choose({ example: data.examples.length - 1 });
$("example").value = chosen.example;
