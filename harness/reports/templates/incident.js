// Shows one anomaly or one operation: sentences, a diagram of what happened around it, the rows of the
// history, the replicas' logs, the leader epochs, and the nodes' logs.

const MOST_DRAWN = 240, MOST_LANES_AROUND = 14, MOST_ROWS = 40, MOST_LINES = 60;
const AROUND = { close: "close", second: "1 s", cause: "until the cause was over" };

// The text of the clauses whose gaps the evidence fills.
const filledIn = (clauses, facts) =>
  clauses
    .filter((clause) => [...clause.matchAll(/\{(\w+)\}/g)].every(([, gap]) => facts[gap] !== null && facts[gap] !== undefined && facts[gap] !== ""))
    .map((clause) => clause.replace(/\{(\w+)\}/g, (_, gap) => facts[gap]))
    .join("");

const factsOf = (each) => ({
  ...each,
  where: placeName(each.topic, each.partition),
  acks: acksName(each.acks),
  invoke: moment(each.invoke),
  complete: moment(each.complete),
  offset: each.offset === null ? null : count(each.offset),
  other_offset: each.other_offset === null ? null : count(each.other_offset),
  lasted: each.invoke === null || each.complete === null ? null : duration(each.complete - each.invoke),
});

const part = (title, ...content) => {
  const section = made("section", undefined, "part");
  section.append(made("h4", title), ...content);
  return section;
};

const note = (text) => made("p", text, "note");

const scrolled = (label, content) => {
  const box = made("div", undefined, "scroll");
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", label);
  box.append(content);
  return box;
};

const tableOf = (heads, rows, numeric = new Set()) => {
  const table = made("table", undefined, "evidence");
  const head = table.createTHead().insertRow();
  for (const each of heads) {
    const cell = made("th", each, numeric.has(each) ? "n" : "");
    cell.scope = "col";
    head.append(cell);
  }
  const body = table.createTBody();
  for (const { cells, name, title } of rows) {
    const row = body.insertRow();
    if (name) row.className = name;
    cells.forEach((text, i) => {
      const cell = made("td", undefined, numeric.has(heads[i]) ? "n" : "");
      cell.append(text ?? "");
      if (title) cell.title = title;
      row.append(cell);
    });
  }
  return table;
};

const TYPES = ["ok", "fail", "info"];

const openOperation = (name) => {
  const link = made("a", name ?? "");
  if (name) link.href = address({ op: name, anomaly: "" });
  return link;
};

// The rows of the history that concern an instance: its value, the other value, its offset.
const rowsPart = (each, evidence) => {
  const values = new Set([each.value, each.other_value].filter(Boolean));
  const ops = new Set([each.op, each.other_op].filter(Boolean));
  const found = evidence.rows.filter(([f, , , op, , , topic, partition, value, offset]) =>
    values.has(value) || (f !== "poll" && ops.has(op)) ||
    (topic === each.topic && partition === each.partition && each.offset !== null && offset === each.offset));
  const heads = ["invoked", "completed", "what", "outcome", "client", "operation", "partition", "value", "offset", "epoch", "node", "error"];
  const rows = found.slice(0, MOST_ROWS).map(([f, type, client, op, invoke, complete, topic, partition, value, offset, epoch, node, error]) => ({
    cells: [moment(invoke), moment(complete) ?? "never", f, type, client, f === "send" || f === "poll" ? openOperation(op) : op, placeName(topic, partition), value, offset === null ? "" : count(offset), epoch, node, error],
    name: values.has(value) && value === each.value ? "own" : "",
  }));
  if (!rows.length) return part("Rows of the history", note("No row has its value or offset."));
  const hidden = found.length - rows.length;
  return part("Rows of the history", scrolled("Rows of the history", tableOf(heads, rows, new Set(["invoked", "completed", "client", "operation", "value", "offset", "epoch", "node"]))),
    note(`${hidden > 0 ? `${count(hidden)} more rows are not shown. ` : ""}${evidence.left_out.rows ? `${count(evidence.left_out.rows)} later rows about any anomaly are not in this page. ` : ""}Rows of its own value are highlighted. Outcome: ok; fail: it surely did not happen; info: no answer arrived, so it may or may not have happened.`));
};

// The data around an offset at the end of the run: by the final reads, and in each replica's files.
const replicasPart = (each, evidence) => {
  if (each.offset === null || each.offset === undefined) return null;
  const here = ([topic, partition]) => topic === each.topic && partition === each.partition;
  const ends = evidence.ends.filter(here), batches = evidence.batches.filter(here);
  const from = Math.max(0, each.offset - evidence.neighbours), to = each.offset + evidence.neighbours;
  const offsets = Array.from({ length: to - from + 1 }, (_, i) => from + i);
  const reads = new Map(evidence.rows.filter(([f, , , , , , topic, partition]) => f === "final-read" && here([topic, partition])).map((row) => [row[9], row]));
  const final = { cells: ["final reads", ...offsets.map((o) => (reads.has(o) ? `${reads.get(o)[8] ?? "?"}${reads.get(o)[10] === null ? "" : ` · e${reads.get(o)[10]}`}` : "–"))], name: "own" };
  const nodes = [...new Set([...ends, ...batches].map((row) => row[2]))].sort((a, b) => a - b);
  const first = nodes[0];
  const at = (node, offset) => batches.find(([, , n, base, last]) => n === node && base <= offset && offset <= last);
  const rows = nodes.map((node) => ({
    cells: [`node ${node}`, ...offsets.map((offset) => {
      const batch = at(node, offset), reference = at(first, offset);
      if (!batch) return "–";
      const unlike = reference && reference[6] !== batch[6] ? " ≠" : "";
      return `e${batch[5]} · ${batch[6]}${unlike}`;
    })],
  }));
  if (!rows.length && !reads.size) return part("Every replica around the offset", note("The record has no final read and no replica's files around it."));
  const table = tableOf(["offset", ...offsets.map((o) => (o === each.offset ? `▼ ${count(o)}` : count(o)))], [final, ...rows]);
  table.classList.add("log");
  const said = ends.map(([, , node, start, end, high]) => `node ${node}: ${count(start)} to ${count(end)}, committed up to ${count(high)}`);
  return part("Every replica around the offset", scrolled("Log of every replica around the offset", table),
    note(`From the files after the run: leader epoch (e) and digest of the batch with the offset. ≠: other bytes than the first node. –: no batch. ${said.join("; ")}.${evidence.left_out.batches ? ` ${count(evidence.left_out.batches)} batches of later partitions are not in this page.` : ""}`));
};

const epochsPart = (each, evidence) => {
  const found = evidence.epochs.filter(([topic, partition]) => topic === each.topic && partition === each.partition);
  const cuts = evidence.cuts.filter(([topic, partition]) => topic === each.topic && partition === each.partition);
  if (!found.length) return null;
  const rows = found.map(([, , epoch, leader, since, first, end]) => {
    const holds = each.offset !== null && first !== null && first <= each.offset && each.offset < end;
    return { cells: [epoch, leader === null ? "not known" : `node ${leader}`, moment(since, 3) ?? "", first === null ? "nothing" : `${count(first)} to ${count(end)}`, holds ? `◀ has offset ${count(each.offset)} now` : ""], name: holds ? "own" : "" };
  });
  const said = cuts.map(([, , at, node, end]) => `${moment(at, 3)}: node ${node} truncated its log to ${count(end)}.`);
  return part("Leader epochs", scrolled("Leader epochs", tableOf(["epoch", "leader", "first seen", "offsets in the final log", ""], rows, new Set(["epoch", "first seen"]))), ...said.map(note));
};

const linesPart = (each, evidence, from, to) => {
  const found = evidence.lines.filter(([, at]) => at >= from - 2 && at <= to + 2);
  if (!found.length) return null;
  const name = each.topic === null ? "" : `${each.topic}-${each.partition}`;
  const named = (text) => name && text.includes(name);
  const chosen = found.length <= MOST_LINES ? found : [...found.filter(([, , text]) => named(text)), ...found.filter(([, , text]) => !named(text))].slice(0, MOST_LINES).sort((a, b) => a[1] - b[1]);
  const details = made("details");
  details.append(made("summary", `${count(chosen.length)} lines of the nodes' logs`));
  const rows = chosen.map(([node, at, text]) => ({ cells: [`${at.toFixed(3)} s`, node < 0 ? `instance ${-node}` : `node ${node}`, text], name: named(text) ? "own" : "" }));
  details.append(scrolled("Lines of the nodes' logs", tableOf(["at", "node", "line"], rows, new Set(["at"]))),
    note(`From ${Math.max(0, from - 2).toFixed(3)} s to ${(to + 2).toFixed(3)} s, by the nodes' own clocks. Lines that name the partition are highlighted.${found.length > chosen.length ? ` ${count(found.length - chosen.length)} more lines are not shown; lines that name the partition come first.` : ""}${evidence.left_out.lines ? ` ${count(evidence.left_out.lines)} later lines are not in this page.` : ""}`));
  return part("Logs of the nodes", details);
};

// Every time that the cause names, in seconds.
const momentsIn = (text) => [...text.matchAll(/(\d+\.\d+) s\b/g)].map(([, at]) => Number(at));

// The time span of a diagram, in seconds.
const spanAround = (each, around, span) => {
  const from = (each.invoke ?? 0) / 1e6, to = (each.complete ?? each.invoke ?? 0) / 1e6;
  if (around === "cause") {
    const moments = [from, to, ...momentsIn(each.of?.cause ?? "")];
    const [first, last] = [Math.min(...moments), Math.max(...moments)];
    const room = Math.max(0.05, (last - first) * 0.04);
    return [Math.max(0, first - room), Math.min(span, last + room)];
  }
  const room = around === "second" ? 0.5 : Math.max(0.025, (to - from) * 1.5);
  return [Math.max(0, from - room), Math.min(span, to + room)];
};

// Of too many operations: the anomaly's own, those that were not ok, and every n-th of the others.
const thinned = (found, operations) => {
  if (found.length <= MOST_DRAWN) return { shown: found, every: 1 };
  const ordinary = (one) => !one.own && operations.columns.type[one.i] === OK;
  const kept = found.filter((one) => !ordinary(one)).slice(0, MOST_DRAWN / 2), others = found.filter(ordinary).sort((a, b) => operations.columns.invoke[a.i] - operations.columns.invoke[b.i]);
  const every = Math.ceil(others.length / (MOST_DRAWN - kept.length));
  return { shown: [...kept, ...others.filter((_, n) => n % every === 0)], every };
};

// Operations of the partition in the span, of the nearest clients.
const operationsAround = (each, from, to, operations) => {
  const { kind, partition, invoke, latency, client, sequence, sender, writer, counter } = operations.columns;
  const place = operations.partitions.findIndex(([t, p]) => t === each.topic && p === each.partition);
  const [start, end, middle] = [from * 1e6, to * 1e6, ((each.invoke ?? 0) + (each.complete ?? each.invoke ?? 0)) / 2];
  const values = new Set([each.value, each.other_value].filter(Boolean)), ops = new Set([each.op, each.other_op].filter(Boolean));
  const found = [];
  for (let i = 0; i < kind.length; i += 1) {
    if (place >= 0 && partition[i] !== place) continue;
    const ended = latency[i] < 0 ? Infinity : invoke[i] + latency[i];
    if (invoke[i] > end || ended < start) continue;
    const own = values.has(`${sender[i]}:${sequence[i]}`) || ops.has(`${writer[i]}-${counter[i]}`);
    found.push({ i, own, far: own ? -1 : Math.abs(invoke[i] - middle), client: operations.clients[client[i]] });
  }
  found.sort((a, b) => a.far - b.far || a.i - b.i);
  const clients = unique(found.map((one) => one.client)).slice(0, MOST_LANES_AROUND);
  const { shown, every } = thinned(found.filter((one) => clients.includes(one.client)), operations);
  clients.sort((a, b) => a - b);
  return { shown, clients, every, hidden: found.length - shown.length, whose: place < 0 ? "" : " of this partition" };
};

// One operation as a bar: ok is full with round ends, fail is hollow and crossed, info is open to the right.
const operationShape = ({ i, own }, operations, scale, y, height, right) => {
  const { kind, type, invoke, latency, records, offset, error, weight } = operations.columns;
  const x = scale.x(invoke[i] / 1e6), end = latency[i] < 0 ? right : scale.x((invoke[i] + latency[i]) / 1e6);
  const width = Math.max(3, end - x), outcome = TYPES[type[i]];
  const value = operations.columns.sequence[i] < 0 ? "" : `${operations.columns.sender[i]}:${operations.columns.sequence[i]}`;
  const what = kind[i] === SEND ? `send of ${value}` : `poll of ${count(records[i])} records`;
  const said = `${operationName(operations, i)}: ${what}, ${outcome}, ${moment(invoke[i])} to ${latency[i] < 0 ? "never" : moment(invoke[i] + latency[i])}` +
    `${offset[i] < 0 ? "" : `, offset ${count(offset[i])}`}${error[i] ? `, ${operations.errors[error[i]]}` : ""}${weight[i] > 1 ? `; stands for ${count(weight[i])} similar ones` : ""}`;
  const shape = drawn("g", { class: `operation ${outcome} ${kind[i] === SEND ? "send" : "poll"}${own ? " own" : ""}` });
  if (outcome === "info") shape.append(drawn("path", { d: `M${px(x + width)} ${px(y)}H${px(x)}V${px(y + height)}H${px(x + width)}` }));
  else shape.append(drawn("rect", { x: px(x), y: px(y), width: px(width), height, rx: outcome === "ok" ? height / 2 : 0 }));
  if (outcome === "fail") shape.append(drawn("path", { d: `M${px(x + width / 2 - 3)} ${px(y + 1)}l6 ${height - 2}m-6 0l6 ${2 - height}` }));
  if (own) shape.append(drawn("text", { x: px(Math.min(right - 4, x + width + 5)), y: px(y + height - 1), ...(x + width + 5 > right - 120 ? { "text-anchor": "end", x: px(x - 5) } : {}) },
    kind[i] === SEND ? `${value}${offset[i] < 0 ? "" : ` @ ${count(offset[i])}`}` : `${count(records[i])} records`));
  const link = drawn("a", { href: address({ op: operationName(operations, i), anomaly: "" }) }, titled(shape, said));
  link.setAttribute("aria-label", said);
  return link;
};

// Operations of one lane that overlap get different rows.
const inRows = (shown, operations, scale) => {
  const { invoke, latency } = operations.columns;
  const ends = [];
  return shown.map((one) => {
    const x = scale.x(invoke[one.i] / 1e6), end = latency[one.i] < 0 ? Infinity : Math.max(x + 3, scale.x((invoke[one.i] + latency[one.i]) / 1e6));
    let row = ends.findIndex((used) => used + 1 < x);
    if (row < 0) row = ends.length < 6 ? ends.length : 5;
    ends[row] = Math.max(ends[row] ?? 0, end);
    return { ...one, row, rows: ends };
  });
};

const laneName = (y, text) => titled(drawn("text", { class: "tick y", x: LEFT - 8, y: px(y) }, shortened(text, 13)), text);

const diagram = (each, around, { overview, operations }) => {
  const [from, to] = spanAround(each, around, overview.span);
  const scale = timeScale(from, to);
  const svg = drawn("svg", { class: "chart around", role: "group", "aria-label": "Operations around it, by client" });
  const front = [];
  let y = 6;
  const faults = overview.faults.filter((f) => f.start !== null && f.start <= to && (f.end ?? to) >= from);
  for (const fault of faults) {
    const x = scale.x(fault.start), width = Math.max(2, scale.x(fault.end ?? to) - x);
    const inside = width > fault.label.length * CHARACTER + 20;
    front.push(laneName(y + 11.5, `fault ${fault.id}`), drawn("a", { href: `#fault-${fault.id}` }, titled(drawn("g", { class: `bar${fault.took_effect ? "" : " without-effect"}` },
      drawn("rect", { x: px(x), y: px(y), width: px(width), height: BAR, rx: 2 }),
      drawn("text", { class: inside ? "in" : x > WIDTH / 2 ? "before" : "after", x: px(inside ? x + 4 : x > WIDTH / 2 ? x - 4 : x + width + 4), y: px(y + 11.5) }, fault.label)), faultText(fault))));
    y += BAR + BAR_GAP;
  }
  const lane = overview.lanes.find((l) => l.topic === each.topic && l.partition === each.partition);
  if (lane) {
    y += 6;
    const shape = laneShape({ ...lane }, [], scale, y, lane.spans.reduce((most, r) => Math.max(most, r[4].length), 1));
    shape.querySelector("text.tick").replaceWith(laneName(y + 12, "leader"));
    front.push(shape);
    y += LANE + LANE_GAP;
  }
  y += 4;
  const { shown, clients, every, hidden, whose } = operationsAround(each, from, to, operations);
  for (const client of clients) {
    const own = inRows(shown.filter((one) => one.client === client).sort((a, b) => operations.columns.invoke[a.i] - operations.columns.invoke[b.i]), operations, scale);
    const rows = Math.max(1, ...own.map((one) => one.row + 1));
    front.push(drawn("path", { class: "rule", d: `M${LEFT} ${px(y - 2)}H${RIGHT}` }), laneName(y + 10, `client ${client}`));
    // The anomaly's own last, so that nothing covers its label.
    for (const one of own.sort((a, b) => a.own - b.own)) front.push(operationShape(one, operations, scale, y + one.row * 12 + 1, 9, RIGHT));
    y += rows * 12 + 6;
  }
  const ticks = timeTicks(from, to, 10);
  svg.append(
    drawn("g", { class: "grid" }, ...ticks.map(([at]) => drawn("path", { d: `M${px(scale.x(at))} 0V${px(y)}` }))), ...front,
    timeAxis(ticks, scale, y));
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${px(y + 22)}`);
  return { svg, hidden, every, whose, empty: !shown.length };
};

const KEY = [["ok", "M1 5a4 4 0 0 1 4-4h14a4 4 0 0 1 0 8h-14a4 4 0 0 1-4-4z", "ok"], ["fail", "M1 1h22v8h-22zM9 2l6 6m-6 0l6-6", "fail: surely did not happen"], ["info", "M23 1H1V9H23", "info: no answer arrived, may or may not have happened"]];
const diagramLegend = () => {
  const legend = made("p", undefined, "legend");
  for (const [css, path, text] of KEY) {
    const item = made("span");
    const sample = drawn("svg", { viewBox: "0 0 24 10", width: 24, height: 10, "aria-hidden": "true" }, drawn("g", { class: `operation send ${css}` }, drawn("path", { d: path })));
    item.append(sample, text);
    legend.append(item);
  }
  legend.append(made("span", "thin: polls"));
  return legend;
};

const diagramPart = (each, context) => {
  if (each.invoke === null && each.complete === null) return null;
  const box = made("div", undefined, "scroll");
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", "Diagram of the operations around it");
  const said = note(""), choice = made("p", undefined, "tools");
  const wide = (each.of?.cause ?? "") && momentsIn(each.of.cause).length;
  const draw = (around) => {
    const { svg, hidden, every, whose, empty } = diagram(each, around, context);
    box.replaceChildren(svg);
    said.textContent = `${empty ? `The record has no operation${whose} in this span. ` : ""}${hidden ? `${count(hidden)} more operations${whose} in this span are not drawn${every > 1 ? `; of those that were ok, one in ${every} is drawn` : ""}. ` : empty ? "" : `Every operation${whose} in this span is drawn. `}${whose ? "Other partitions are not drawn." : ""}` +
      `${context.operations.cell === null ? "" : " Operations close to each other share a bar."}`;
    for (const button of choice.children) button.setAttribute("aria-pressed", String(button.dataset.around === around));
  };
  for (const [around, text] of Object.entries(AROUND)) {
    if (around === "cause" && !wide) continue;
    const button = made("button", text);
    button.type = "button";
    button.dataset.around = around;
    button.addEventListener("click", () => draw(around));
    choice.append(button);
  }
  draw("close");
  return part("Operations around it", choice, box, diagramLegend(), said);
};

// The faults in force when an instance happened, for instances without a recorded cause.
const inForce = (each, overview) =>
  each.at === null ? [] : overview.faults.filter((f) => f.start !== null && f.took_effect && f.start * 1e6 <= each.at && (f.end ?? overview.span) * 1e6 >= each.at);

const causeOf = (each, overview) => {
  const line = made("p", undefined, "because");
  if (each.of.cause) {
    line.append("Cause on record: ");
    // Every second piece is the number of a fault.
    each.of.cause.replace(/\.$/, "").split(/\bfault (\d+)(?= \()/).forEach((piece, i) => line.append(i % 2 ? faultLink(piece) : piece));
    line.append(".");
    return line;
  }
  if (each.judgement === "informational") return null;
  const found = inForce(each, overview);
  line.append("The record names no cause. Faults in force at that time: ");
  if (!found.length) line.append("none");
  found.forEach((fault, i) => line.append(i ? ", " : "", faultLink(fault.id), ` (${fault.label})`));
  line.append(".");
  return line;
};

const goTo = (text, action) => {
  const button = made("button", text);
  button.type = "button";
  button.addEventListener("click", action);
  return button;
};

const openedTitle = (text) => {
  const title = made("h3", text);
  title.id = "opened-title";
  title.tabIndex = -1;
  return title;
};

// The article about one instance of an anomaly.
const anomalyPart = (each, context) => {
  const { anomalies, evidence, overview } = context;
  const article = made("article");
  const title = openedTitle();
  title.append(`Anomaly ${count(each.place + 1)}: ${each.kind} `, judgementMark(each.judgement));
  const small = made("small", [acksName(each.acks), placeName(each.topic, each.partition), each.of.aspect].filter(Boolean).join(" · "));
  title.append(small);
  const sentence = made("p", filledIn(anomalies.sentences[each.kind] ?? [], factsOf(each)), "sentence");
  const [from, to] = spanAround(each, "cause", overview.span);
  const tools = made("p", undefined, "tools");
  const passing_ = anomalies.list.filter(anomalies.passes), here = passing_.indexOf(each);
  const step = (by) => passing_[here + by] && changeView({ anomaly: passing_[here + by].place + 1, op: "", page: "" }, { visit: true });
  const back = goTo("‹ previous", () => step(-1)), on = goTo("next ›", () => step(1));
  back.disabled = here <= 0;
  on.disabled = here < 0 || here >= passing_.length - 1;
  tools.append(back, on, goTo("show in the figures", () => { zoomTo(from, to, overview.span); byId("time").scrollIntoView(); }));
  const more = each.of.count > 1 ? note(`One of ${count(each.of.count)} instances of this kind, partition and cause.`) : null;
  article.append(...[title, tools, sentence, causeOf(each, overview), made("p", `Rule: ${each.of.rule}`, "rule"), each.of.permission ? made("p", each.of.permission, "permission") : null, more,
    diagramPart(each, context), rowsPart(each, evidence), replicasPart(each, evidence), epochsPart(each, evidence), linesPart(each, evidence, from, to)].filter(Boolean));
  return article;
};

// The article about one operation of the history, whether it is in an anomaly or not.
const operationPart = (name, context) => {
  const { operations, anomalies, overview } = context;
  const [writer, counter] = name.split("-").map(Number), { columns } = operations;
  const found = columns.writer.findIndex((w, i) => w === writer && columns.counter[i] === counter);
  const article = made("article"), title = openedTitle(`Operation ${name}`);
  article.append(title);
  if (found < 0) {
    article.append(made("p", `This page has no send or poll with this number${operations.cell === null ? "." : ": operations close to each other share a row."}`));
    return article;
  }
  const at = (key) => columns[key][found], [topic, partition] = operations.partitions[at("partition")];
  const value = at("sequence") < 0 ? null : `${at("sender")}:${at("sequence")}`;
  const finalReads = ["the final reads did not reach the end of its partition", "the final reads have its value", "the final reads do not have its value"];
  const each = { of: { cause: "", rule: "" }, topic, partition, op: name, value, invoke: at("invoke"), complete: at("latency") < 0 ? null : at("invoke") + at("latency"), offset: at("offset") < 0 ? null : at("offset") };
  const said = [
    `Client ${operations.clients[at("client")]} ${at("kind") === SEND ? `sent ${value} (${acksName(at("acks"))})` : `polled ${count(at("records"))} records`} ${at("kind") === SEND ? "to" : "of"} ${placeName(topic, partition)} at ${moment(each.invoke)}: `,
    `${TYPES[at("type")]}${each.complete === null ? ", never completed" : ` after ${duration(at("latency"))}`}`,
    each.offset === null ? "" : `, offset ${count(each.offset)}`, at("node") < 0 ? "" : `, by node ${at("node")}`, at("error") ? `, ${operations.errors[at("error")]}` : "",
    at("kind") === SEND ? `; ${finalReads[at("final_read")]}.` : ".", at("weight") > 1 ? ` The row stands for ${count(at("weight"))} similar operations.` : ""];
  article.append(made("p", said.join(""), "sentence"));
  const grave = anomalies.list.filter((a) => a.op === name || (value && a.value === value));
  for (const one of grave.slice(0, 5)) {
    const line = made("p"), link = made("a", `anomaly ${one.place + 1}: ${one.kind}`);
    link.href = address({ anomaly: one.place + 1, op: "" });
    line.append("It is in ", link, " ", judgementMark(one.judgement));
    article.append(line);
  }
  const tools = made("p", undefined, "tools"), [from, to] = spanAround(each, "close", overview.span);
  tools.append(goTo("show in the figures", () => { zoomTo(from, to, overview.span); byId("time").scrollIntoView(); }));
  article.append(tools, diagramPart(each, context));
  return article;
};
