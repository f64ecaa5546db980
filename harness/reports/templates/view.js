// The view: the time span, the filters, the open anomaly or operation. All of it is in the address, so
// that a link shows the same view again.

const KEYS = ["z", "partition", "client", "acks", "kind", "fault", "page", "anomaly", "op"];
const FILTERS = ["partition", "client", "acks", "kind", "fault"];
const view = Object.fromEntries(KEYS.map((key) => [key, ""]));
const watchers = [];

// Calls `draw` whenever one of these keys changes.
const whenChanged = (keys, draw) => watchers.push({ keys: new Set(keys), draw });

const address = (more = {}) => {
  const said = new URLSearchParams();
  for (const [key, value] of Object.entries({ ...view, ...more })) if (value) said.set(key, value);
  return `#${said.toString().replaceAll("%2F", "/")}`;
};

// visit: adds a step to the browser's history; silent: the address does not change; still: what opens
// does not scroll into view.
const changeView = (changes, { visit = false, silent = false, still = false } = {}) => {
  const changed = new Set(KEYS.filter((key) => key in changes && String(changes[key]) !== view[key]));
  for (const key of changed) view[key] = String(changes[key]);
  if (!changed.size) return;
  if (!silent) history[visit ? "pushState" : "replaceState"](null, "", address());
  for (const { keys, draw } of watchers) if ([...changed].some((key) => keys.has(key))) draw({ still });
};

// The browser handles addresses of sections (#faults); an address with "=" is a view.
const readAddress = () => {
  const said = location.hash.slice(1);
  if (!said.includes("=")) return;
  const wanted = new URLSearchParams(said);
  changeView(Object.fromEntries(KEYS.map((key) => [key, wanted.get(key) ?? ""])), { silent: true });
};

// The time span in view, in seconds: the whole run, unless zoomed.
const spanInView = (span) => {
  const [from, to] = view.z.split("..").map(Number);
  const sound = view.z && Number.isFinite(from) && Number.isFinite(to) && to > from;
  return sound ? [Math.max(0, from), Math.min(span, to)] : [0, span];
};

const SHORTEST_S = 0.002;
const zoomTo = (from, to, span) => {
  const middle = (from + to) / 2;
  const half = Math.max(SHORTEST_S, to - from) / 2;
  const start = Math.max(0, middle - half), end = Math.min(span, middle + half);
  const digits = end - start < 1 ? 5 : 3;
  const whole = start <= 0 && end >= span;
  changeView({ z: whole ? "" : `${Number(start.toFixed(digits))}..${Number(end.toFixed(digits))}` });
};
