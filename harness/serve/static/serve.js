// The live view of a run that goes on, and two helpers for the list. All other pages work without it.
"use strict";

const EVERY_MS = 2000;
const ATTEMPTS = 150;

function row(cells) {
  const tr = document.createElement("tr");
  for (const [kind, content] of cells) {
    const td = document.createElement(kind === "th" ? "th" : "td");
    if (kind === "th") td.scope = "row";
    if (kind === "n") td.className = "n";
    td.append(content instanceof Node ? content : document.createTextNode(String(content)));
    tr.append(td);
  }
  return tr;
}

function bars(values) {
  const box = document.createElement("span");
  box.className = "bars";
  const top = Math.max(1, ...values);
  box.setAttribute("role", "img");
  box.setAttribute("aria-label", `${values.at(-1) ?? 0} in the last second, at most ${top}`);
  for (const value of values) {
    const bar = document.createElement("i");
    bar.style.height = `${Math.round((26 * value) / top)}px`;
    box.append(bar);
  }
  const all = document.createElement("span");
  all.append(box, ` ${(values.at(-1) ?? 0).toLocaleString("en")}`);
  return all;
}

function seconds(value) {
  return value === null || value === undefined ? "–" : `${value.toFixed(1)} s`;
}

function fault(each) {
  const item = document.createElement("li");
  const over = each.healed_s !== null;
  const when = over ? `${seconds(each.started_s)} to ${seconds(each.healed_s)}` : `since ${seconds(each.started_s)}`;
  const name = document.createElement(over ? "span" : "b");
  name.textContent = `${over ? "" : "in force: "}${each.label}`;
  item.append(name, `, ${when}${each.took_effect ? `: ${each.effect ?? ""}` : ", no effect measured yet"}`);
  return item;
}

function show(snapshot) {
  const put = (id, nodes) => document.getElementById(id).replaceChildren(...nodes);
  const behind = snapshot.behind ? "; still reading earlier records" : "";
  document.getElementById("live-phase").textContent =
    `${snapshot.phase || "starting"}, ${seconds(snapshot.elapsed_s)} since the start${behind}`;
  put("live-topics", snapshot.topics.map((t) => row([
    ["th", t.name], ["", t.acks], ["n", t.ok.toLocaleString("en")], ["n", t.fail.toLocaleString("en")],
    ["n", t.info.toLocaleString("en")], ["", bars(t.per_s)],
  ])));
  put("live-faults", snapshot.faults.length ? snapshot.faults.toReversed().map(fault) : ["none yet"]);
  put("live-partitions", snapshot.partitions.map((p) => row([
    ["th", p.name], ["n", p.leader ?? "none"], ["n", p.epoch ?? "–"],
    ["", (p.isr ?? []).join(", ")], ["n", seconds(p.since_s)],
  ])));
  document.getElementById("live-errors").textContent =
    snapshot.errors.map(([name, count]) => `${count.toLocaleString("en")} ${name}`).join(", ") || "none";
  document.getElementById("live-log").textContent = snapshot.log.join("\n");
}

async function follow(section) {
  for (;;) {
    try {
      const answer = await fetch(section.dataset.live);
      if (answer.ok) {
        const snapshot = await answer.json();
        if (snapshot.state !== "running") return location.reload();
        show(snapshot);
      } else {
        document.getElementById("live-phase").textContent = `The server answers ${answer.status}.`;
      }
    } catch {
      document.getElementById("live-phase").textContent = "The server does not answer; trying again.";
    }
    await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
  }
}

function two(form) {
  const marked = () => form.querySelectorAll("input[name=run]:checked").length;
  const button = form.querySelector("button");
  const update = () => { button.disabled = marked() !== 2; };
  form.addEventListener("change", update);
  update();
}

// A run that has just ended will be judged soon: reload the page then.
async function wait(heading) {
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
    const answer = await fetch(heading.dataset.live).catch(() => null);
    if (answer?.ok && (await answer.json()).state !== "not judged") return location.reload();
  }
}

const live = document.getElementById("live");
if (live) follow(live);
const awaited = document.getElementById("awaited");
if (awaited) wait(awaited);
const compare = document.getElementById("compare");
if (compare) two(compare);
