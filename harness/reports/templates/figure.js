// All figures on one time axis: faults, anomalies, latency, throughput and errors, leaders, high
// watermarks and consumer lag, wall clocks. Dragging over them zooms.

const WIDTH = 1080, LEFT = 78, RIGHT = 1072;
const TITLE = 18, SECTION = 46, PANEL_GAP = 16;
const CHARACTER = 6.3;
const LATENCY = 128, DECADE = 26, RATE = 56, ERRORS = 22, PROGRESS = 84, CLOCKS = 70;
const LANE = 16, LANE_GAP = 5, BAR = 15, BAR_GAP = 4;
const MARK_ROW = 15;
const MOST_LANES = 30, MOST_BAR_ROWS = 8, CROWDED_FAULTS = 40;
const PATTERNS = { kill: "hatch", pause: "dots", partition: "stripes" };
const TICKS_S = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];

const niceCeiling = (value) => {
  if (value <= 1) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((f) => f * power).find((n) => n >= value);
};

const latencyLabel = (ms) => (ms < 0.1 ? `${Number((ms * 1000).toPrecision(3))} µs` : ms < 1000 ? `${ms} ms` : `${ms / 1000} s`);

const timeLabel = (at, step) => {
  if (step < 1) return `${at.toFixed(Math.ceil(-Math.log10(step)))} s`;
  if (at < 600 || at % 60) return `${Math.round(at)} s`;
  const hours = Math.floor(at / 3600), minutes = (at % 3600) / 60;
  return [hours ? `${hours} h` : "", minutes || !hours ? `${minutes} min` : ""].filter(Boolean).join(" ");
};

const timeTicks = (from, to, most = 14) => {
  const step = TICKS_S.find((s) => (to - from) / s <= most) ?? TICKS_S.at(-1);
  const ticks = [];
  for (let n = Math.ceil(from / step); n * step <= to; n += 1) ticks.push([n * step, timeLabel(n * step, step)]);
  return ticks;
};

const rule = (y, label) => [
  drawn("path", { class: "rule", d: `M${LEFT} ${px(y)}H${RIGHT}` }),
  drawn("text", { class: "tick y", x: LEFT - 8, y: px(y + 4) }, label),
];

const heading = (y, text, note = "") => {
  const line = drawn("text", { class: "heading", x: 0, y: px(y) }, text);
  if (note) line.append(drawn("tspan", { class: "aside", dx: 8 }, note));
  return line;
};

// A scale of time, from seconds to pixels and back.
const timeScale = (from, to) => {
  const x = (at) => LEFT + ((RIGHT - LEFT) * (Math.min(to, Math.max(from, at)) - from)) / (to - from);
  return { from, to, x, at: (px_) => from + ((px_ - LEFT) / (RIGHT - LEFT)) * (to - from) };
};

const faultText = (fault) =>
  `fault ${fault.id}: ${fault.label}, ${fault.start.toFixed(3)} s, ${fault.end === null ? "never healed" : `healed ${fault.end.toFixed(3)} s`}; ` +
  (fault.took_effect ? fault.effect : "it did not take effect");

const timeAxis = (ticks, scale, y) =>
  drawn("g", { class: "axis" }, drawn("path", { d: `M${LEFT} ${px(y)}H${RIGHT}` }),
    ...ticks.map(([at, text]) => drawn("text", { class: "tick x", x: px(scale.x(at)), y: px(y + 16) }, text)));

// Bars with names, in as many rows as needed to keep the names apart. Returns the bands and the bottom.
const faultBars = (faults, scale, top) => {
  const shown = faults.filter((f) => f.start !== null && f.start <= scale.to && (f.end ?? scale.to) >= scale.from);
  const ends = [], bands = [];
  for (const fault of shown) {
    const x = scale.x(fault.start), width = Math.max(2, scale.x(fault.end ?? scale.to) - x);
    const text = (shown.length > CROWDED_FAULTS ? `${fault.id}` : `${fault.id} ${fault.label}`) + (fault.took_effect ? "" : " (no effect)");
    const long = text.length * CHARACTER + 8;
    let place = "in", at = x + 4, from = x, end = x + width;
    if (long > width && end + long <= RIGHT) [place, at, end] = ["after", end + 4, end + long];
    else if (long > width) [place, at, from] = ["before", x - 4, x - long];
    let row = ends.findIndex((used) => used + 6 <= from);
    if (row < 0) row = ends.length < MOST_BAR_ROWS ? ends.length : ends.indexOf(Math.min(...ends));
    ends[row] = end;
    bands.push({ fault, x, width, y: top + row * (BAR + BAR_GAP), text, place, at });
  }
  return { bands, bottom: top + ends.length * (BAR + BAR_GAP) };
};

const bandShape = ({ fault, x, width, y }, bottom) =>
  drawn("g", { class: `band${fault.took_effect ? "" : " without-effect"}` },
    drawn("rect", { x: px(x), y: px(y), width: px(width), height: px(bottom - y), fill: `url(#${PATTERNS[fault.fault.split(".")[0]] ?? "checks"})` }),
    drawn("path", { d: `M${px(x)} ${px(y)}V${px(bottom)}M${px(x + width)} ${px(y)}V${px(bottom)}` }));

const barShape = ({ fault, x, width, y, text, place, at }) =>
  drawn("a", { href: `#fault-${fault.id}` },
    titled(drawn("g", { class: `bar${fault.took_effect ? "" : " without-effect"}` },
      drawn("rect", { x: px(x), y: px(y), width: px(width), height: BAR, rx: 2 }),
      drawn("text", { class: place, x: px(at), y: px(y + 11.5) }, text)), faultText(fault)));

// One mark per judgement and 9 pixels: forbidden ✕, unknown ◇, permitted △.
const anomalyMarks = (list, scale, top) => {
  const cells = new Map(), rows = ["forbidden", "unknown", "permitted"].filter((j) => list.some((each) => each.judgement === j));
  const y = (judgement) => top + rows.indexOf(judgement) * MARK_ROW;
  for (const each of list) {
    if (each.judgement === "informational" || each.at === null) continue;
    const at = each.at / 1e6;
    if (at < scale.from || at > scale.to) continue;
    const key = `${each.judgement} ${Math.round(scale.x(at) / 9)}`;
    if (!cells.has(key)) cells.set(key, { first: each, x: scale.x(at), many: 0 });
    cells.get(key).many += 1;
  }
  const shapes = { forbidden: "M-4-4l8 8m0-8l-8 8", unknown: "M0-5l5 5l-5 5l-5-5z", permitted: "M0-5l5 9h-10z" };
  const marks = [...cells.values()].map(({ first, x, many }) =>
    drawn("a", { href: address({ anomaly: first.place + 1, op: "" }), class: `finding ${first.judgement}`, transform: `translate(${px(x)} ${px(y(first.judgement))})` },
      titled(drawn("g", {}, drawn("rect", { x: -5, y: -8, width: 10, height: 16 }), drawn("path", { d: shapes[first.judgement] ?? "M0-4v8" })),
        `${first.judgement}: ${first.kind} in ${placeName(first.topic, first.partition)}, ${moment(first.at, 3)}${many > 1 ? `, and ${many - 1} more here` : ""}`)));
  return { marks, bottom: y(rows.at(-1)) + MARK_ROW / 2 };
};

const stroke = (points) => {
  let path = "", open = false;
  points.forEach(([x, y], i) => {
    const sound = Number.isFinite(y);
    if (sound) path += `${open ? "L" : "M"}${px(x)} ${px(y)}`;
    if (sound && !open && !Number.isFinite(points[i + 1]?.[1])) path += "h2";
    open = sound;
  });
  return path;
};

const cellPaths = (mode, counted, y) => {
  let sparse = "", dense = "", failures = "", unread = "", marks = 0;
  const place = (at) => [px(LEFT + (Math.floor(at / counted.rows) + 0.5) * ((RIGHT - LEFT) / COLUMNS)), px(y(((at % counted.rows) + 0.5) / ROWS_PER_DECADE))];
  for (let at = 0; at < mode.answered.length; at += 1) {
    const [a, u, m] = [mode.answered[at], mode.unanswered[at], mode.unread[at]];
    if (!a && !u) continue;
    const [cx, cy] = place(at);
    marks += 1;
    if (a >= 10) dense += `M${cx} ${cy}h0`;
    else if (a) sparse += `M${cx} ${cy}h0`;
    if (u) failures += `M${px(cx - 2.2)} ${px(cy - 2.2)}l4.4 4.4m-4.4 0l4.4-4.4`;
    if (m) unread += `M${cx} ${px(cy - 3.6)}l3.6 3.6l-3.6 3.6l-3.6-3.6z`;
  }
  return { sparse, dense, failures, unread, marks };
};

const latencyPanel = (mode, counted, decades, scale, top) => {
  const [low, high] = decades;
  const height = Math.max(LATENCY, (high - low) * DECADE), bottom = top + height;
  const y = (decade) => bottom - (height * Math.min(high - low, Math.max(0, decade))) / (high - low);
  const middle = (b) => scale.x((counted.first + b + 0.5) * counted.step);
  const quantile = (values) => stroke([...values].map((ms, b) => [middle(b), y(Math.log10(ms) - low)]));
  const cells = cellPaths(mode, counted, y);
  mode.drawn = cells.marks;
  const name = drawn("text", { class: "name", x: LEFT, y: px(top - 5) }, acksName(mode.acks));
  if (mode.acks === 0) name.append(drawn("tspan", { class: "aside", dx: 8 }, "no broker answers: time until the client had written to its socket"));
  const group = drawn("g", { class: `latency ${acksCss(mode.acks)}` });
  for (let decade = low; decade <= high; decade += 1) group.append(...rule(y(decade - low), latencyLabel(10 ** decade)));
  group.append(
    drawn("g", { class: "sends" }, drawn("path", { class: "dot sparse", d: cells.sparse }), drawn("path", { class: "dot dense", d: cells.dense }), drawn("path", { class: "cross", d: cells.failures })),
    drawn("path", { class: "p99", d: quantile(mode.p99) }), drawn("path", { class: "p50", d: quantile(mode.p50) }),
    drawn("path", { class: "unread", d: cells.unread }), name);
  return { group, bottom, panel: { acks: mode.acks, top, bottom, low, high } };
};

// Sends that waited for a leader are acknowledged in a burst. It is cut and marked, so that the rest is visible.
const usualMost = (rates) => {
  const ordered = rates.filter((n) => n > 0).sort((a, b) => a - b);
  if (!ordered.length) return 1;
  return niceCeiling(Math.min(1.6 * ordered[Math.floor((ordered.length * 9) / 10)], ordered.at(-1)));
};

const ratePanel = (mode, counted, most, errors, scale, top) => {
  const base = top + RATE, bottom = base + ERRORS;
  let acked = "", beyond = "", failed = "", info = "";
  for (let b = 0; b < counted.buckets; b += 1) {
    const left = scale.x((counted.first + b) * counted.step), right = scale.x((counted.first + b + 1) * counted.step);
    const bar = (from, to, wide = 0) => `M${px(left)} ${px(from)}V${px(to)}H${px(right + wide)}V${px(from)}z`;
    const share = mode.acked[b] / counted.step / most;
    if (share > 0) acked += bar(base, base - RATE * Math.min(1, share), 0.2);
    if (share > 1) beyond += `M${px((left + right) / 2 - 3)} ${px(top - 3)}h6l-3-5z`;
    const fail = (ERRORS * mode.failed[b]) / counted.step / errors, both = fail + (ERRORS * mode.info[b]) / counted.step / errors;
    if (fail > 0) failed += bar(base, base + fail);
    if (both > fail) info += bar(base + fail, base + both);
  }
  const group = drawn("g", { class: `rate ${acksCss(mode.acks)}` }, ...rule(top, `${count(most)} /s`), ...rule(base, "0"), ...rule(bottom, `${count(errors)} /s`),
    drawn("path", { class: "acked", d: acked }), drawn("path", { class: "beyond", d: beyond }), drawn("path", { class: "info", d: info }),
    drawn("path", { class: "failed", d: failed }), drawn("path", { class: "base", d: `M${LEFT} ${px(base)}H${RIGHT}` }),
    drawn("text", { class: "name", x: LEFT, y: px(top - 5) }, acksName(mode.acks)));
  return { group, bottom };
};

const spanText = (name, [start, end, leader, epoch, isr]) =>
  `${name}, ${start.toFixed(3)} s to ${end.toFixed(3)} s: ${leader === null ? "no leader" : `leader node ${leader}`}, epoch ${epoch}, ISR ${isr.join(", ") || "unknown"}`;

// Leaders of one partition below `y`: a bar per leader span, its height is the size of the ISR; gaps below.
const laneShape = (lane, gaps, scale, y, largest) => {
  const name = placeName(lane.topic, lane.partition);
  const group = drawn("g", { class: "lane" }, titled(drawn("text", { class: "tick y", x: LEFT - 8, y: px(y + LANE / 2 + 4) }, shortened(name)), name));
  let labelled = null, last = null;
  for (const span of lane.spans) {
    const [start, end, leader, , isr] = span;
    const changed = leader !== null && last !== null && leader !== last;
    if (leader !== null) last = leader;
    if (end < scale.from || start > scale.to) continue;
    const x = scale.x(start), width = Math.max(0.8, scale.x(end) - x), height = isr.length ? (LANE * isr.length) / largest : LANE;
    const css = leader === null ? "none" : `n${(((leader - 1) % 6) + 6) % 6}`;
    const segment = drawn("g", {}, drawn("rect", { class: css, x: px(x), y: px(y + LANE - height), width: px(width), height: px(height) }));
    if (leader !== null && leader !== labelled && width > String(leader).length * CHARACTER + 4) {
      segment.append(drawn("text", { x: px(x + 6), y: px(y + LANE / 2 + 4) }, leader));
      labelled = leader;
    }
    if (leader === null) labelled = null;
    group.append(titled(segment, spanText(name, span)));
    if (changed && start >= scale.from) group.append(drawn("path", { class: "change", d: `M${px(x - 3.5)} ${px(y - 3.5)}h7l-3.5 5.5z` }));
  }
  for (const [, , from, to] of gaps) {
    if (to < scale.from || from > scale.to) continue;
    const x = scale.x(from);
    group.append(titled(drawn("rect", { class: "gap", x: px(x), y: px(y + LANE - 1), width: px(Math.max(1.5, scale.x(to) - x)), height: 4 }),
      `${name}: nothing acknowledged for ${(to - from).toFixed(3)} s from ${from.toFixed(3)} s, although clients tried to send`));
  }
  return group;
};

const progressPanel = (partitions, field, scale, top, unit, cssOf) => {
  const within = (each) => each.at.map((at, i) => [at, each[field][i]]).filter(([at]) => at >= scale.from && at <= scale.to);
  const lines = partitions.map((each) => ({ each, points: within(each) })).filter(({ points }) => points.length);
  const values = lines.flatMap(({ points }) => points.map(([, v]) => v)).filter((v) => v !== null);
  const least = field === "high" && values.length ? values.reduce((a, b) => Math.min(a, b)) : 0;
  const most = values.length ? niceCeiling(values.reduce((a, b) => Math.max(a, b), 1)) : 1;
  const low = field === "high" && least > most / 2 ? least : 0;
  const bottom = top + PROGRESS, y = (v) => (v === null ? NaN : bottom - (PROGRESS * (v - low)) / Math.max(1, most - low));
  const group = drawn("g", { class: "progress" }, ...rule(top, `${count(most)}${unit}`), ...rule(bottom, count(low)));
  for (const { each, points } of lines) {
    group.append(titled(drawn("path", { class: `line ${cssOf(each.topic)}`, d: stroke(points.map(([at, v]) => [scale.x(at), y(v)])) }), placeName(each.topic, each.partition)));
  }
  return { group, bottom };
};

const patterns = () => {
  const pattern = (id, size, path, turned) => drawn("pattern", { id, width: size, height: size, patternUnits: "userSpaceOnUse", ...(turned ? { patternTransform: "rotate(45)" } : {}) }, path);
  return drawn("defs", {},
    pattern("hatch", 7, drawn("path", { d: "M0 0v7" }), true), pattern("stripes", 6, drawn("path", { d: "M0 0v6" })),
    pattern("dots", 7, drawn("circle", { cx: 2, cy: 2, r: 1.1 })), pattern("checks", 7, drawn("path", { d: "M0 0v7M0 0h7" })),
    pattern("unsure", 4, drawn("path", { d: "M0 0v4" }), true));
};

// The drawing grows downwards: a new section starts below the last one, with its heading.
const beginSection = (sheet, text, note) => {
  const at = sheet.y + (sheet.front.length ? SECTION : TITLE + 4);
  sheet.front.push(heading(at - 11, text, note));
  return (sheet.y = at);
};

const faultSection = (sheet, { overview }) => {
  if (!overview.faults.length) return [];
  const { bands, bottom } = faultBars(overview.faults, sheet.scale, beginSection(sheet, "Faults"));
  sheet.y = bottom;
  return bands;
};

const anomalySection = (sheet, { anomalies }) => {
  const { marks, bottom } = anomalyMarks(anomalies.list.filter(anomalies.passes), sheet.scale, sheet.y + SECTION + MARK_ROW / 2);
  if (!marks.length) return;
  beginSection(sheet, "Anomalies", "✕ forbidden  ◇ unknown  △ permitted; at the time of the send");
  sheet.front.push(...marks);
  sheet.y = bottom;
};

const sendSections = (sheet, { operations }) => {
  const { counted, scale, front } = sheet, { modes, step } = counted, panels = [];
  if (!modes.length) return panels;
  const place = ({ group, bottom }) => {
    front.push(group);
    sheet.y = bottom + PANEL_GAP;
  };
  beginSection(sheet, "Publish latency", "log scale; at the time of the send");
  for (const mode of modes) {
    const shape = latencyPanel(mode, counted, operations.decades, scale, sheet.y + TITLE);
    panels.push(shape.panel);
    place(shape);
  }
  beginSection(sheet, "Acknowledged sends per second", "downwards: failed and info per second; ▲ a burst beyond the scale");
  const most = usualMost(modes.flatMap((mode) => [...mode.acked].map((n) => n / step)));
  const errors = niceCeiling(modes.flatMap((mode) => [...mode.failed].map((n, b) => (n + mode.info[b]) / step)).reduce((a, b) => Math.max(a, b), 0));
  for (const mode of modes) place(ratePanel(mode, counted, most, errors, scale, sheet.y + TITLE));
  sheet.y -= PANEL_GAP;
  return panels;
};

const laneSection = (sheet, lanes, { overview }) => {
  if (!lanes.length) return;
  beginSection(sheet, "Leader of each partition", "number: node that leads; height: size of the ISR; ▼ leader change; ▬ nothing acknowledged for 0.5 s or more");
  const largest = overview.lanes.flatMap((lane) => lane.spans.map((span) => span[4].length)).reduce((a, b) => Math.max(a, b), 1);
  for (const lane of lanes.slice(0, MOST_LANES)) {
    const gaps = overview.gaps.filter(([topic, partition]) => topic === lane.topic && partition === lane.partition);
    sheet.front.push(laneShape(lane, gaps, sheet.scale, sheet.y, largest));
    sheet.y += LANE + LANE_GAP;
  }
  sheet.y -= LANE_GAP;
};

const progressSections = (sheet, partitions, { operations }) => {
  if (!partitions.length) return;
  const cssOf = (topic) => acksCss(operations.acksOf(topic));
  for (const [field, text, note, unit] of [["high", "High watermark", "offset of each partition, as clients saw it", ""], ["lag", "Consumer lag", "records of each partition that its readers have not read", " rec."]]) {
    const { group, bottom } = progressPanel(partitions, field, sheet.scale, beginSection(sheet, text, note), unit, cssOf);
    sheet.front.push(group);
    sheet.y = bottom;
  }
};

const clockLabel = (ms) => (Math.abs(ms) < 1000 ? `${Number(ms.toPrecision(3))} ms` : `${Number((ms / 1000).toPrecision(3))} s`);

// Steps: a clock is right at first and stays where it was set. Clocks that were never set are left out.
const clockPanel = (clocks, scale, top) => {
  const values = clocks.flatMap((clock) => clock.ahead).concat(0);
  const ceiling = (sign) => { const far = Math.max(0, ...values.map((v) => v * sign)); return far ? niceCeiling(far) : 0; };
  const [most, least] = [ceiling(1), -ceiling(-1)];
  const bottom = top + CLOCKS, y = (ms) => bottom - (CLOCKS * (ms - least)) / Math.max(1, most - least);
  const group = drawn("g", { class: "clocks" }, ...[...new Set([most, 0, least])].flatMap((ms) => rule(y(ms), clockLabel(ms))));
  for (const { node, at, ahead } of clocks) {
    let path = `M${LEFT} ${px(y(at.reduce((now, t, i) => (t <= scale.from ? ahead[i] : now), 0)))}`;
    at.forEach((t, i) => { if (t > scale.from && t <= scale.to) path += `H${px(scale.x(t))}V${px(y(ahead[i]))}`; });
    group.append(titled(drawn("path", { class: `line k${(node - 1) % 6}`, d: `${path}H${RIGHT}` }), `node ${node}`));
    const first = at.findIndex((t, i) => t >= scale.from && t <= scale.to && ahead[i]);
    if (first >= 0) group.append(drawn("text", { class: "tick", x: px(scale.x(at[first]) + 3), y: px(y(ahead[first]) + (ahead[first] > 0 ? 11 : -4)) }, node));
  }
  return { group, bottom };
};

const clockSection = (sheet, { overview }) => {
  if (!overview.clocks.length) return;
  const nodes = overview.clocks.map(({ node }) => node).join(", ");
  const { group, bottom } = clockPanel(overview.clocks, sheet.scale, beginSection(sheet, "Wall clocks", `ahead of the true time (below 0: behind), as set by faults; node${overview.clocks.length > 1 ? "s" : ""} ${nodes}`));
  sheet.front.push(group);
  sheet.y = bottom;
};

// Draws everything in view. Returns what is needed to read values under the pointer.
const drawFigure = (chart, context) => {
  const { overview, operations } = context;
  const scale = timeScale(...spanInView(overview.span));
  const sheet = { scale, counted: countSends(operations, scale.from, scale.to), y: 0, front: [] };
  const wanted = (each) =>
    (!view.partition || placeName(each.topic, each.partition) === view.partition) && (!view.acks || String(operations.acksOf(each.topic)) === view.acks);
  const lanes = overview.lanes.filter(wanted);
  const bands = faultSection(sheet, context), top = sheet.y;
  anomalySection(sheet, context);
  const panels = sendSections(sheet, context);
  laneSection(sheet, lanes, context);
  progressSections(sheet, overview.progress.filter(wanted), context);
  clockSection(sheet, context);
  const bottom = sheet.y, height = px(bottom + 26), ticks = timeTicks(scale.from, scale.to);
  chart.setAttribute("viewBox", `0 0 ${WIDTH} ${height}`);
  chart.setAttribute("height", height);
  chart.replaceChildren(
    patterns(),
    drawn("g", { class: "grid" }, ...ticks.map(([at]) => drawn("path", { d: `M${px(scale.x(at))} ${px(top)}V${px(bottom)}` }))),
    drawn("g", { class: "bands" }, ...bands.map((band) => bandShape(band, bottom))),
    ...sheet.front,
    drawn("g", { class: "faultbars" }, ...bands.map(barShape)),
    timeAxis(ticks, scale, bottom),
    drawn("rect", { class: "selection", id: "selection", y: px(top), height: px(bottom - top), visibility: "hidden" }),
    drawn("path", { class: "cursor", id: "cursor", d: `M0 ${px(top)}V${px(bottom)}`, visibility: "hidden" }));
  return { scale, counted: sheet.counted, panels, lanes, lanesHidden: Math.max(0, lanes.length - MOST_LANES) };
};
