// Reads values under the pointer or at the cursor; zooms by dragging and by keys.

const DRAG_PX = 4;

const attachReading = (figure, chart, overview, operations, state) => {
  const tip = byId("tip");
  let bucket = null, dragFrom = null;

  const ms = (value) => (Number.isNaN(value) ? "–" : value >= 1000 ? `${(value / 1000).toPrecision(3)} s` : `${Number(value.toPrecision(3))} ms`);
  const unit = (event) => {
    const box = chart.getBoundingClientRect();
    return [((event.clientX - box.left) / box.width) * WIDTH, ((event.clientY - box.top) / box.width) * WIDTH];
  };

  const modesTable = () => {
    const { counted } = state.drawing;
    const table = made("table");
    const head = table.insertRow();
    for (const text of ["", "p50", "p99", "ack/s", "failed", "info"]) head.append(made("th", text));
    for (const mode of counted.modes) {
      const row = table.insertRow();
      row.className = acksCss(mode.acks);
      for (const text of [acksName(mode.acks), ms(mode.p50[bucket]), ms(mode.p99[bucket]), count(Math.round(mode.acked[bucket] / counted.step)), count(mode.failed[bucket]), count(mode.info[bucket])]) row.append(made("td", text));
    }
    return table;
  };

  const lanesText = (at) => {
    const lines = made("p", undefined, "lanes");
    for (const lane of state.drawing.lanes) {
      const span = lane.spans.findLast(([start]) => start <= at);
      if (!span) continue;
      if (lines.childNodes.length) lines.append(made("br"));
      lines.append(`${placeName(lane.topic, lane.partition)}: ${span[2] === null ? "no leader" : `leader ${span[2]}`}, epoch ${span[3]}, ISR ${span[4].join(",") || "?"}`);
    }
    return lines;
  };

  const clocksText = (at) => {
    const apart = overview.clocks.map((clock) => [clock.node, clock.ahead[clock.at.findLastIndex((t) => t <= at)] ?? 0]).filter(([, ms]) => ms);
    return apart.map(([node, ms]) => `clock of node ${node} ${clockLabel(Math.abs(ms))} ${ms > 0 ? "ahead" : "behind"}`).join(", ");
  };

  const fill = (from, to) => {
    const digits = Math.max(0, Math.ceil(-Math.log10(to - from)) + 1);
    tip.replaceChildren(made("b", `${from.toFixed(digits)} to ${to.toFixed(digits)} s`));
    if (state.drawing.counted.modes.length) tip.append(modesTable());
    for (const fault of overview.faults) {
      if (fault.start !== null && fault.start < to && (fault.end ?? overview.span) > from) tip.append(made("p", `▮ ${fault.id} ${fault.label}`));
    }
    if (state.drawing.lanes.length && state.drawing.lanes.length <= 12) tip.append(lanesText(to));
    if (clocksText(to)) tip.append(made("p", clocksText(to), "lanes"));
  };

  const hide = () => {
    bucket = null;
    tip.hidden = true;
    byId("cursor")?.setAttribute("visibility", "hidden");
  };

  const show = (wanted, top) => {
    const { counted, scale } = state.drawing;
    bucket = Math.min(counted.buckets - 1, Math.max(0, wanted));
    const from = (counted.first + bucket) * counted.step, to = from + counted.step;
    fill(from, to);
    const x = scale.x((from + to) / 2);
    byId("cursor").setAttribute("transform", `translate(${px(x)} 0)`);
    byId("cursor").setAttribute("visibility", "visible");
    tip.hidden = false;
    const shown = (x / WIDTH) * chart.clientWidth, space = figure.scrollLeft + figure.clientWidth;
    const right = shown + 14 + tip.offsetWidth <= space;
    tip.style.left = `${right ? shown + 14 : Math.max(figure.scrollLeft, shown - 14 - tip.offsetWidth)}px`;
    tip.style.top = `${Math.max(0, Math.min(top, figure.clientHeight - tip.offsetHeight - 4))}px`;
  };

  const select = (a, b) => {
    const box = byId("selection");
    box.setAttribute("x", px(Math.min(a, b)));
    box.setAttribute("width", px(Math.abs(b - a)));
    box.setAttribute("visibility", "visible");
  };
  const inside = (x) => Math.min(RIGHT, Math.max(LEFT, x));

  // The operation nearest to a point in a latency panel, within a few pixels; -1 without one.
  const operationAt = (x, y) => {
    const { scale, panels } = state.drawing;
    const panel = panels.find((p) => y >= p.top && y <= p.bottom);
    if (!panel) return -1;
    const { kind, acks, invoke, latency } = operations.columns;
    const passes = passing(operations);
    let best = -1, nearest = 64;
    for (let i = 0; i < kind.length; i += 1) {
      if (kind[i] !== SEND || acks[i] !== panel.acks || latency[i] < 0) continue;
      const dx = scale.x(invoke[i] / 1e6) - x;
      if (dx > 8 || dx < -8 || !passes(i)) continue;
      const decade = Math.log10(Math.max(10, latency[i])) - 3 - panel.low;
      const dy = panel.bottom - ((panel.bottom - panel.top) * decade) / (panel.high - panel.low) - y;
      if (dx * dx + dy * dy < nearest) [best, nearest] = [i, dx * dx + dy * dy];
    }
    return best;
  };

  figure.addEventListener("pointerdown", (event) => {
    const [x] = unit(event);
    if (event.button || x < LEFT || x > RIGHT || event.pointerType === "touch") return;
    dragFrom = x;
  });
  figure.addEventListener("pointermove", (event) => {
    const [x] = unit(event);
    if (dragFrom !== null && Math.abs(x - dragFrom) >= DRAG_PX) {
      figure.setPointerCapture(event.pointerId);
      select(inside(dragFrom), inside(x));
      return hide();
    }
    if (x < LEFT || x > RIGHT) return hide();
    const { scale, counted } = state.drawing;
    show(Math.floor(scale.at(x) / counted.step) - counted.first, event.clientY - chart.getBoundingClientRect().top + 16);
  });
  figure.addEventListener("pointerup", (event) => {
    if (dragFrom === null) return;
    const [x, y] = unit(event), from = dragFrom, { scale } = state.drawing;
    dragFrom = null;
    byId("selection").setAttribute("visibility", "hidden");
    if (Math.abs(x - from) >= DRAG_PX) return zoomTo(scale.at(inside(Math.min(x, from))), scale.at(inside(Math.max(x, from))), overview.span);
    const found = event.target.closest("a") ? -1 : operationAt(x, y);
    if (found >= 0) changeView({ op: operationName(operations, found), anomaly: "" }, { visit: true });
  });
  figure.addEventListener("pointercancel", () => (dragFrom = null));
  figure.addEventListener("pointerleave", hide);
  figure.addEventListener("blur", hide);

  const zoomBy = (factor) => {
    const { scale, counted } = state.drawing;
    const middle = bucket === null ? (scale.from + scale.to) / 2 : (counted.first + bucket + 0.5) * counted.step;
    const half = ((scale.to - scale.from) * factor) / 2;
    zoomTo(middle - half, middle + half, overview.span);
  };
  const pan = (share) => {
    const { scale } = state.drawing;
    const wide = scale.to - scale.from;
    const from = Math.min(overview.span - wide, Math.max(0, scale.from + share * wide));
    zoomTo(from, from + wide, overview.span);
  };

  figure.addEventListener("keydown", (event) => {
    if (event.target !== figure || event.ctrlKey || event.metaKey || event.altKey) return;
    const far = event.shiftKey ? 10 : 1, at = bucket ?? -1;
    const moves = { ArrowLeft: at - far, ArrowRight: at + far, Home: 0, End: state.drawing.counted.buckets - 1 };
    const acts = { "+": () => zoomBy(0.5), "-": () => zoomBy(2), 0: () => changeView({ z: "" }), PageUp: () => pan(-0.5), PageDown: () => pan(0.5), Escape: hide };
    if (event.key in acts) acts[event.key]();
    else if (event.key in moves) {
      show(moves[event.key], 40);
      byId("spoken").textContent = tip.innerText;
    } else return;
    event.preventDefault();
  });
  byId("zoom-in").addEventListener("click", () => zoomBy(0.5));
  byId("zoom-out").addEventListener("click", () => zoomBy(2));
  byId("zoom-whole").addEventListener("click", () => changeView({ z: "" }));
};
