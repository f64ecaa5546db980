"use strict";
// Everything is readable without this: it only adds values under the pointer, toggles and a copy.
(() => {
  const byId = (id) => document.getElementById(id);

  for (const button of document.querySelectorAll("[data-toggle]")) {
    button.addEventListener("click", () => {
      const hidden = byId("chart").classList.toggle(button.dataset.toggle);
      button.setAttribute("aria-pressed", String(!hidden));
    });
  }

  for (const button of document.querySelectorAll("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const source = byId(button.dataset.copy);
      getSelection().selectAllChildren(source);
      try {
        await navigator.clipboard.writeText(source.textContent);
        button.textContent = "copied";
      } catch {
        button.textContent = "selected"; // no clipboard for files in this browser
      }
    });
  }

  addEventListener("beforeprint", () => {
    for (const each of document.querySelectorAll("details")) each.open = true;
  });

  const made = (tag, text, name) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (name) element.className = name;
    return element;
  };

  const figure = byId("figure");
  if (figure) {
    const values = JSON.parse(byId("values").textContent);
    const chart = byId("chart"), cursor = byId("cursor"), tip = byId("tip");
    const last = Math.max(0, Math.ceil(values.span / values.step) - 1);
    const digits = values.step < 1 ? 2 : 0;
    let bucket = -1;

    const ms = (value) => (value === null ? "–" : value >= 1000 ? `${(value / 1000).toPrecision(3)} s` : `${value} ms`);
    const rate = (count) => Math.round(count / values.step).toLocaleString("en");

    // The reign in force at a moment: reigns are in the order of their starts.
    const reignAt = (lane, at) => lane.reigns.filter((reign) => reign[0] <= at).pop();

    const fill = (from) => {
      const to = Math.min(values.span, from + values.step);
      tip.replaceChildren(made("b", `${from.toFixed(digits)} to ${to.toFixed(digits)} s`));
      if (values.acks.length) {
        const table = made("table");
        const head = table.insertRow();
        for (const text of ["", "p50", "p99", "ack/s", "failed", "indet."]) head.append(made("th", text));
        for (const each of values.acks) {
          const row = table.insertRow();
          row.className = each.css;
          for (const text of [each.name, ms(each.p50[bucket]), ms(each.p99[bucket]), rate(each.acked[bucket]), each.failed[bucket], each.info[bucket]]) {
            row.append(made("td", text));
          }
        }
        tip.append(table);
      }
      for (const [label, start, end] of values.faults) {
        if (start < to && end > from) tip.append(made("p", `▮ ${label}`));
      }
      if (values.lanes.length && values.lanes.length <= 12) {
        const lanes = made("p", undefined, "lanes");
        for (const lane of values.lanes) {
          const reign = reignAt(lane, to);
          if (!reign) continue;
          if (lanes.childNodes.length) lanes.append(made("br"));
          lanes.append(`${lane.name}: ${reign[1] === null ? "no leader" : `leader ${reign[1]}`}, epoch ${reign[2]}, ISR ${reign[3] || "?"}`);
        }
        tip.append(lanes);
      }
    };

    const hide = () => {
      bucket = -1;
      tip.hidden = true;
      cursor.setAttribute("visibility", "hidden");
    };

    const show = (wanted, top) => {
      bucket = Math.min(last, Math.max(0, wanted));
      const from = bucket * values.step;
      fill(from);
      const middle = Math.min(values.span, from + values.step / 2);
      const x = values.left + ((values.right - values.left) * middle) / values.span;
      cursor.setAttribute("transform", `translate(${x} 0)`);
      cursor.setAttribute("visibility", "visible");
      tip.hidden = false;
      const shown = (x / values.width) * chart.clientWidth;
      const space = figure.scrollLeft + figure.clientWidth;
      const right = shown + 14 + tip.offsetWidth <= space;
      tip.style.left = `${right ? shown + 14 : Math.max(figure.scrollLeft, shown - 14 - tip.offsetWidth)}px`;
      tip.style.top = `${Math.max(0, Math.min(top, figure.clientHeight - tip.offsetHeight - 4))}px`;
    };

    figure.addEventListener("pointermove", (event) => {
      const box = chart.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * values.width;
      if (x < values.left || x > values.right) return hide();
      const at = ((x - values.left) / (values.right - values.left)) * values.span;
      show(Math.floor(at / values.step), event.clientY - box.top + 16);
    });
    figure.addEventListener("pointerleave", hide);
    figure.addEventListener("blur", hide);
    figure.addEventListener("keydown", (event) => {
      const far = event.shiftKey ? 10 : 1;
      const wanted = { ArrowLeft: bucket - far, ArrowRight: bucket + far, Home: 0, End: last }[event.key];
      if (event.key === "Escape") return hide();
      if (wanted === undefined || event.target !== figure) return;
      event.preventDefault();
      show(wanted, 40);
      byId("spoken").textContent = tip.innerText;
    });
  }

  document.documentElement.dataset.ready = "yes";
})();
