// Counts the operations in view in cells, buckets and quantiles. Nothing is sampled: every operation
// in view is in a cell of 3 by 3 pixels, and in a bucket of time.

const SEND = 0, POLL = 1;
const OK = 0, FAILED = 1;
const NOT_IN_FINAL_READS = 2;

const COLUMNS = 331, ROWS_PER_DECADE = 9;
const BINS_PER_DECADE = 100, BINS = 900; // of latencies from 1 µs to 1,000 s
const MOST_BUCKETS = 240;
const STEPS_S = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3600, 14400];

// The bin of each latency on a log scale, computed once; -1: no latency.
const latencyBins = (latency) => {
  const bins = new Int16Array(latency.length);
  for (let i = 0; i < bins.length; i += 1) {
    bins[i] = latency[i] < 0 ? -1 : Math.min(BINS - 1, Math.floor(Math.log10(Math.max(10, latency[i])) * BINS_PER_DECADE));
  }
  return bins;
};

// Returns a function that says whether a row passes the filters.
const passing = (operations) => {
  const { clients, partitions, columns } = operations;
  const client = view.client ? clients.indexOf(Number(view.client)) : -1;
  const partition = view.partition ? partitions.findIndex(([t, p]) => placeName(t, p) === view.partition) : -1;
  const acks = view.acks ? Number(view.acks) : null;
  if (view.client && client < 0) return () => false;
  if (view.partition && partition < 0) return () => false;
  return (i) =>
    (client < 0 || columns.client[i] === client) &&
    (partition < 0 || columns.partition[i] === partition) &&
    (acks === null || columns.acks[i] === acks);
};

// The decades of latency, in ms, that contain every send.
const latencyDecades = (operations) => {
  const { kind } = operations.columns;
  let low = BINS, high = 0;
  for (let i = 0; i < kind.length; i += 1) {
    const bin = operations.bins[i];
    if (kind[i] !== SEND || bin < 0) continue;
    if (bin < low) low = bin;
    if (bin > high) high = bin;
  }
  if (low > high) return [-1, 3];
  const bottom = Math.floor(low / BINS_PER_DECADE), top = Math.floor(high / BINS_PER_DECADE) + 1;
  return [bottom - 3, top - 3];
};

const emptyMode = (acks, buckets, rows) => ({
  acks,
  sends: 0,
  drawn: 0,
  answered: new Uint32Array(COLUMNS * rows),
  unanswered: new Uint32Array(COLUMNS * rows),
  unread: new Uint32Array(COLUMNS * rows),
  bins: new Uint32Array(buckets * BINS),
  acked: new Float64Array(buckets),
  failed: new Float64Array(buckets),
  info: new Float64Array(buckets),
});

// Cells, buckets and quantiles, by acks mode, of the sends between `from` and `to` seconds.
const countSends = (operations, from, to) => {
  const step = STEPS_S.find((s) => (to - from) / s <= MOST_BUCKETS) ?? STEPS_S.at(-1);
  const first = Math.floor(from / step), buckets = Math.floor(to / step) - first + 1;
  const [low, high] = operations.decades;
  const rows = (high - low) * ROWS_PER_DECADE, lowest = (low + 3) * BINS_PER_DECADE;
  const { kind, acks, type, invoke, latency, weight, final_read: finalRead } = operations.columns;
  const passes = passing(operations);
  const modes = new Map();
  const start = from * 1e6, end = to * 1e6, cell = (end - start) / COLUMNS, stride = step * 1e6;
  for (let i = 0; i < kind.length; i += 1) {
    if (kind[i] !== SEND) continue;
    const began = invoke[i], ended = latency[i] < 0 ? began : began + latency[i];
    if (began > end || ended < start || !passes(i)) continue;
    let mode = modes.get(acks[i]);
    if (!mode) modes.set(acks[i], (mode = emptyMode(acks[i], buckets, rows)));
    const many = weight[i];
    const outcome = type[i] === OK ? mode.acked : type[i] === FAILED ? mode.failed : mode.info;
    if (ended <= end) outcome[Math.floor(ended / stride) - first] += many;
    if (began < start) continue;
    mode.sends += many;
    const bin = operations.bins[i];
    if (bin < 0) continue;
    if (type[i] === OK) mode.bins[(Math.floor(began / stride) - first) * BINS + bin] += many;
    const row = Math.min(rows - 1, Math.floor(((bin - lowest) * ROWS_PER_DECADE) / BINS_PER_DECADE));
    const at = Math.min(COLUMNS - 1, Math.floor((began - start) / cell)) * rows + row;
    (type[i] === OK ? mode.answered : mode.unanswered)[at] += many;
    if (type[i] === OK && finalRead[i] === NOT_IN_FINAL_READS) mode.unread[at] += many;
  }
  const strength = (mode) => (mode.acks < 0 ? 9 : mode.acks);
  const found = [...modes.values()].sort((a, b) => strength(b) - strength(a));
  for (const mode of found) [mode.p50, mode.p99] = quantiles(mode.bins, buckets, [0.5, 0.99]);
  return { step, first, buckets, rows, modes: found };
};

// For each quantile, the latency in ms in every bucket; NaN without an acknowledgement.
const quantiles = (bins, buckets, wanted) => {
  const found = wanted.map(() => new Float64Array(buckets).fill(NaN));
  for (let bucket = 0; bucket < buckets; bucket += 1) {
    const from = bucket * BINS;
    let total = 0;
    for (let bin = 0; bin < BINS; bin += 1) total += bins[from + bin];
    if (!total) continue;
    let below = 0, next = 0;
    for (let bin = 0; bin < BINS && next < wanted.length; bin += 1) {
      below += bins[from + bin];
      while (next < wanted.length && below >= wanted[next] * total) {
        found[next][bucket] = 10 ** ((bin + 0.5) / BINS_PER_DECADE - 3);
        next += 1;
      }
    }
  }
  return found;
};
