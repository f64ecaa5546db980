// Starts the page. Without scripts, the page lacks only the figures and the single anomalies.

const THEMES = ["auto", "light", "dark"];

const theme = (wanted) => {
  const now = wanted ?? THEMES[(THEMES.indexOf(document.documentElement.dataset.theme ?? "auto") + 1) % THEMES.length];
  document.documentElement.dataset.theme = now;
  byId("theme").textContent = `theme: ${now}`;
};

const copyButtons = () => {
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const source = byId(button.dataset.copy);
      getSelection().selectAllChildren(source);
      try {
        await navigator.clipboard.writeText(source.textContent);
        button.textContent = "copied";
      } catch {
        button.textContent = "selected"; // this browser has no clipboard for files
      }
    });
  }
};

const unpackOperations = async () => {
  const operations = await unpack("operations");
  operations.bins = latencyBins(operations.columns.latency);
  operations.decades = latencyDecades(operations);
  const { partition, kind, acks } = operations.columns, known = [], byTopic = new Map();
  for (let i = 0; i < kind.length; i += 1) if (kind[i] === SEND && known[partition[i]] !== acks[i]) {
    known[partition[i]] = acks[i];
    byTopic.set(operations.partitions[partition[i]][0], acks[i]);
  }
  operations.modes = unique(byTopic.values()).sort((a, b) => (b < 0 ? 9 : b) - (a < 0 ? 9 : a));
  operations.acksOf = (topic) => byTopic.get(topic);
  return operations;
};

const fillFilter = (key, choices) => {
  const select = byId(`filter-${key}`);
  for (const [value, text] of choices) {
    const option = made("option", text);
    option.value = value;
    select.append(option);
  }
  select.value = view[key];
  select.addEventListener("change", () => changeView({ [key]: select.value, page: "" }));
  whenChanged([key], () => {
    select.value = view[key];
  });
};

const fillFilters = ({ overview, operations, anomalies }) => {
  const partitions = unique([...operations.partitions.map(([t, p]) => placeName(t, p)), ...anomalies.list.filter((a) => a.topic).map((a) => placeName(a.topic, a.partition))]);
  const clients = unique([...operations.clients, ...anomalies.list.map((a) => a.client).filter((c) => c !== null)]).sort((a, b) => a - b);
  fillFilter("partition", partitions.map((p) => [p, p]));
  fillFilter("client", clients.map((c) => [c, c]));
  fillFilter("acks", operations.modes.map((a) => [a, acksName(a).replace("acks=", "")]));
  fillFilter("kind", [...unique(anomalies.list.map((a) => a.judgement)), ...unique(anomalies.list.map((a) => a.kind))].map((k) => [k, k]));
  fillFilter("fault", overview.faults.map((f) => [f.id, `${f.id} ${f.label}`]));
  const clear = byId("filter-clear");
  clear.addEventListener("click", () => changeView({ ...Object.fromEntries(FILTERS.map((key) => [key, ""])), page: "" }));
  const update = () => {
    clear.disabled = FILTERS.every((key) => !view[key]);
  };
  whenChanged(FILTERS, update);
  update();
};

const describeFigure = (operations, drawing, more) => {
  const marks = drawing.counted.modes.reduce((sum, mode) => sum + mode.drawn, 0);
  const sends = drawing.counted.modes.reduce((sum, mode) => sum + mode.sends, 0);
  const { from, to } = drawing.scale;
  byId("figure-note").textContent = `From ${from.toFixed(3)} s to ${to.toFixed(3)} s: ${count(sends)} sends in ${count(marks)} marks, one for every occupied cell of 3 by 3 pixels: no outlier is left out. ` +
    `Quantiles are exact to 2 %. A send without an answer (info) has no latency.${drawing.lanesHidden ? ` ${count(drawing.lanesHidden)} more partitions are not drawn; filter by partition to see one.` : ""}${more}`;
  const zoomed = Boolean(view.z);
  byId("zoom-whole").disabled = !zoomed;
  byId("zoom-out").disabled = !zoomed;
};

const showFigure = (context) => {
  const state = { drawing: null }, said = byId("figure-note").textContent.trim();
  const draw = () => {
    state.drawing = drawFigure(byId("chart"), context);
    describeFigure(context.operations, state.drawing, said ? ` ${said}` : "");
  };
  draw();
  whenChanged(["z", ...FILTERS], draw);
  attachReading(byId("figure"), byId("chart"), context.overview, context.operations, state);
  for (const button of document.querySelectorAll("[data-toggle]")) {
    button.addEventListener("click", () => {
      const hidden = byId("chart").classList.toggle(button.dataset.toggle);
      button.setAttribute("aria-pressed", String(!hidden));
    });
  }
};

const showOpened = (context) => {
  let evidence = null;
  const box = byId("opened");
  const draw = async ({ still }) => {
    const each = view.anomaly ? context.anomalies.list[Number(view.anomaly) - 1] : null;
    if (!each && !view.op) return box.replaceChildren();
    evidence ??= unpack("evidence");
    const whole = { ...context, evidence: await evidence };
    box.replaceChildren(each ? anomalyPart(each, whole) : operationPart(view.op, whole));
    if (still) return;
    box.scrollIntoView();
    byId("opened-title").focus({ preventScroll: true });
  };
  whenChanged(["anomaly", "op"], draw);
  whenChanged(FILTERS, () => view.anomaly && draw({ still: true }));
  return draw;
};

const showList = (anomalies) => {
  const draw = () => drawList(anomalies);
  draw();
  whenChanged(["page", "anomaly", ...FILTERS], draw);
  for (const link of document.querySelectorAll("[data-kind], [data-fault]")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      changeView({ ...Object.fromEntries(FILTERS.map((key) => [key, ""])), kind: link.dataset.kind ?? "", fault: link.dataset.fault ?? "", page: "" }, { visit: true });
      byId("anomalies").scrollIntoView();
    });
  }
};

const shortcuts = (anomalies) => {
  const first = firstError(anomalies);
  const jump = () => first && changeView({ anomaly: first.place + 1, op: "", page: "" }, { visit: true });
  for (const button of document.querySelectorAll("[data-first-error]")) {
    button.hidden = !first;
    button.addEventListener("click", () => (view.anomaly === String(first.place + 1) ? byId("opened").scrollIntoView() : jump()));
  }
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
    if (event.key === "e") jump();
    if (event.key !== "n" && event.key !== "p") return;
    const found = anomalies.list.filter(anomalies.passes), here = found.findIndex((each) => String(each.place + 1) === view.anomaly);
    const next = found[here + (event.key === "n" ? 1 : -1)];
    if (next) changeView({ anomaly: next.place + 1, op: "", page: "" }, { visit: true });
  });
  return first;
};

// A link to an anomaly or operation keeps the present zoom and filters, not those when the link was made.
const followLinks = () =>
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href*='=']");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    const wanted = new URLSearchParams(link.getAttribute("href").slice(1));
    event.preventDefault();
    changeView({ anomaly: wanted.get("anomaly") ?? "", op: wanted.get("op") ?? "" }, { visit: true });
  });

const start = async () => {
  theme("auto");
  byId("theme").addEventListener("click", () => theme());
  copyButtons();
  addEventListener("beforeprint", () => {
    for (const each of document.querySelectorAll("details")) each.open = true;
  });
  if (byId("block-overview")) {
    const [overview, operations, block] = await Promise.all([unpack("overview"), unpackOperations(), unpack("anomalies")]);
    const anomalies = listAnomalies(block);
    const context = { overview, operations, anomalies };
    readAddress();
    if (byId("figure")) {
      fillFilters(context);
      showFigure(context);
    }
    if (byId("anomaly-rows")) showList(anomalies);
    const open = showOpened(context);
    const first = shortcuts(anomalies);
    followLinks();
    addEventListener("hashchange", readAddress);
    addEventListener("popstate", readAddress);
    const asked = Boolean(view.anomaly || view.op);
    if (!asked && first) changeView({ anomaly: first.place + 1 }, { silent: true, still: true });
    else if (asked) await open({ still: false });
  }
  document.documentElement.dataset.ready = "yes";
};

start();
