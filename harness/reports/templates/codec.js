// Reads the compressed blocks of the page (packing.py), and writes numbers as text.

const byId = (id) => document.getElementById(id);

const made = (tag, text, name) => {
  const element = document.createElement(tag);
  if (text !== undefined && text !== null) element.textContent = text;
  if (name) element.className = name;
  return element;
};

const drawn = (tag, attributes = {}, ...children) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};

const titled = (element, text) => {
  element.append(drawn("title", {}, text));
  return element;
};

const bytesOf = (text) =>
  Uint8Array.fromBase64 ? Uint8Array.fromBase64(text) : Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

const column = (bytes, from, { length, base, width, steady }) => {
  const numbers = width > 1 || steady ? new Float64Array(length) : new Int32Array(length);
  let scale = 1;
  for (let plane = 0; plane < width; plane += 1, scale *= 256) {
    const start = from + plane * length;
    for (let i = 0; i < length; i += 1) numbers[i] += bytes[start + i] * scale;
  }
  let sum = 0;
  for (let i = 0; i < length; i += 1) {
    if (steady) numbers[i] = sum += numbers[i] + base;
    else numbers[i] += base;
  }
  return numbers;
};

// The head of a block, with its columns by name under `columns`.
const unpack = async (name) => {
  const element = byId(`block-${name}`);
  const stream = new Blob([bytesOf(element.textContent)]).stream().pipeThrough(new DecompressionStream("gzip"));
  element.remove();
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const size = new DataView(bytes.buffer).getUint32(0, true);
  const { head, columns } = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + size)));
  let from = 4 + size;
  head.columns = {};
  for (const each of columns) {
    head.columns[each.name] = column(bytes, from, each);
    from += each.length * each.width;
  }
  return head;
};

const px = (value) => String(Math.round(value * 10) / 10);
const count = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en"));
const moment = (micros, digits = 6) => (micros === null || micros === undefined ? null : `${(micros / 1e6).toFixed(digits)} s`);
const acksName = (acks) => (acks === null || acks === undefined ? "" : `acks=${acks < 0 ? "all" : acks}`);
const acksCss = (acks) => ({ "-1": "aall", 0: "a0", 1: "a1" })[acks] ?? "aother";
const placeName = (topic, partition) => (topic === null || topic === undefined ? "" : partition === null || partition === undefined ? topic : `${topic}/${partition}`);
const unique = (values) => [...new Set(values)];
const shortened = (name, most = 12) => (name.length <= most ? name : `…${name.slice(1 - most)}`);

const duration = (micros) => {
  if (micros < 1000) return `${micros.toPrecision(3)} µs`;
  return micros < 1e6 ? `${(micros / 1e3).toPrecision(3)} ms` : `${(micros / 1e6).toFixed(3)} s`;
};

const MARKS = { forbidden: "✕", permitted: "!", informational: "i", unknown: "?" };
const judgementMark = (judgement) => {
  const mark = made("span", undefined, `mark ${judgement}`);
  const sign = made("span", MARKS[judgement] ?? "·");
  sign.setAttribute("aria-hidden", "true");
  mark.append(sign, ` ${judgement}`);
  return mark;
};
