// The list of the anomalies of verdict.json, filtered, one page at a time.

const PAGE = 20;

const operationName = (operations, i) => `${operations.columns.writer[i]}-${operations.columns.counter[i]}`;

// Turns the block's columns into one object per instance, once.
const listAnomalies = (block) => {
  const { groups, instances } = block;
  const list = instances.group.map((group, i) => {
    const each = { place: i };
    for (const [name, values] of Object.entries(instances)) each[name] = values[i];
    const of = groups[group];
    each.of = of;
    each.kind = of.kind;
    each.judgement = of.judgement;
    each.topic = of.topic;
    each.partition = of.partition;
    each.acks = of.acks;
    each.faults = of.faults.length || each.fault === null ? of.faults : [each.fault];
    each.at = each.invoke;
    return each;
  });
  const passes = (each) =>
    (!view.partition || placeName(each.topic, each.partition) === view.partition) &&
    (!view.client || String(each.client) === view.client) &&
    (!view.acks || String(each.acks) === view.acks) &&
    (!view.fault || each.faults.some((id) => String(id) === view.fault)) &&
    (!view.kind || each.kind === view.kind || each.judgement === view.kind);
  return { ...block, list, passes };
};

// The first and gravest anomaly that is forbidden or unknown.
const firstError = (anomalies) => anomalies.list.find((each) => each.judgement === "forbidden" || each.judgement === "unknown");

const WHERE = [
  ["judgement", (each) => judgementMark(each.judgement)],
  ["anomaly", (each) => each.kind],
  ["partition", (each) => placeName(each.topic, each.partition)],
  ["acks", (each) => acksName(each.acks).replace("acks=", "")],
  ["client", (each) => each.client ?? ""],
  ["value", (each) => each.value ?? ""],
  ["offset", (each) => (each.offset === null ? "" : count(each.offset))],
  ["at", (each) => moment(each.at, 3) ?? ""],
  ["lasted", (each) => (LASTING.has(each.kind) && each.complete !== null ? duration(each.complete - each.invoke) : "")],
];
const LASTING = new Set(["unavailable", "recovery", "stuck", "stale-read"]);
const NUMERIC = new Set(["acks", "client", "value", "offset", "at", "lasted"]);

const faultLink = (id) => {
  const link = made("a", `fault ${id}`);
  link.href = `#fault-${id}`;
  return link;
};

const listRow = (each) => {
  const row = made("tr");
  row.id = `anomaly-${each.place + 1}`;
  const number = made("th", undefined, "n");
  number.scope = "row";
  const link = made("a", count(each.place + 1));
  link.href = address({ anomaly: each.place + 1, op: "" });
  link.setAttribute("aria-label", `anomaly ${each.place + 1}, ${each.kind}, ${each.judgement}`);
  number.append(link);
  row.append(number);
  for (const [name, said] of WHERE) {
    const cell = made("td", undefined, NUMERIC.has(name) ? "n" : "");
    cell.append(said(each));
    row.append(cell);
  }
  const fault = made("td");
  each.faults.forEach((id, i) => fault.append(i ? ", " : "", faultLink(id)));
  row.append(fault);
  if (String(each.place + 1) === view.anomaly) row.setAttribute("aria-current", "true");
  return row;
};

// A sentence about what the list does not show: filtered out, or only counted in verdict.json.
const listNote = (anomalies, found) => {
  const shown = new Set(found.map((each) => each.group));
  const counted = anomalies.groups.reduce((sum, group, i) => sum + (shown.has(i) ? group.count : 0), 0);
  const said = [`${count(found.length)} of ${count(anomalies.list.length)} recorded instances pass the filters`];
  if (counted > found.length) said.push(`these groups have ${count(counted)} instances in all; the verdict keeps the first of each group (20 if forbidden or unknown, else 5)`);
  if (anomalies.left_out) said.push(`${count(anomalies.left_out)} more instances of verdict.json are not in this page`);
  return `${said.join("; ")}.`;
};

const drawList = (anomalies) => {
  const found = anomalies.list.filter(anomalies.passes);
  const pages = Math.max(1, Math.ceil(found.length / PAGE));
  const opened = found.findIndex((each) => String(each.place + 1) === view.anomaly);
  const wanted = view.page ? Number(view.page) - 1 : opened >= 0 ? Math.floor(opened / PAGE) : 0;
  const page = Math.min(pages - 1, Math.max(0, Number.isInteger(wanted) ? wanted : 0));
  byId("anomaly-rows").replaceChildren(...found.slice(page * PAGE, (page + 1) * PAGE).map(listRow));
  byId("anomaly-note").textContent = listNote(anomalies, found);
  const from = found.length ? page * PAGE + 1 : 0;
  byId("page-said").textContent = `${count(from)} to ${count(Math.min(found.length, (page + 1) * PAGE))} of ${count(found.length)}`;
  byId("page-back").disabled = page === 0;
  byId("page-on").disabled = page >= pages - 1;
  byId("page-back").onclick = () => changeView({ page: page });
  byId("page-on").onclick = () => changeView({ page: page + 2 });
  return found;
};
