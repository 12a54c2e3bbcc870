// The space-time diagram: what is shown of it (filters, zoom), what is chosen, and what is told about that.
// A filled square is a send, a circle a delivery, in the sender's colour; a line between them is a message on its way.
"use strict";

const ROOM = 36;
const FIRST_SIGHT = 160;

class Explorer {
  constructor(data) {
    this.data = data;
    this.events = data.events;
    this.causality = new Causality(data.events, data.lanes, data.lines);
    this.canvas = document.getElementById("explorer-canvas");
    this.told = document.getElementById("explorer-told");
    this.count = document.getElementById("explorer-count");
    this.chosen = -1;
    this.byOrder = false;
    this.stepOf = new Map(data.steps.map((row, at) => [row, at + 1]));
    this.tip = new Tip(this.canvas);
    this.figure = new Figure(this.canvas, {
      draw: () => drawExplorer(this),
      hit: (x, y) => this.hit(x, y),
      choose: (row) => this.choose(row === null ? -1 : row),
      point: (row, x, y) => this.tip.show(row !== null && this.words(row), x, y),
      key: (event) => this.key(event),
    });
    this.makeFilters();
    this.setAxis(false);
    this.lookAtFocus();
  }

  makeFilters() {
    const {data} = this;
    this.group = document.getElementById("explorer-group");
    this.level = document.getElementById("explorer-level");
    this.message = document.getElementById("explorer-message");
    data.groups.forEach((name, number) => this.group.append(option(number, name)));
    data.levels.forEach((name, number) => this.level.append(option(number, name)));
    const processes = document.getElementById("explorer-processes");
    this.lineNames = [];
    data.lines.forEach((line, lane) => { this.lineNames[line] ||= data.processes[lane]; });
    this.boxes = this.lineNames.map((name) => {
      const label = document.createElement("label");
      const box = document.createElement("input");
      box.type = "checkbox";
      box.checked = true;
      label.append(box, ` ${name}`);
      processes.append(label);
      return box;
    });
    for (const input of [this.group, this.level, ...this.boxes]) input.addEventListener("change", () => this.filter());
    this.message.addEventListener("input", () => this.filter());
    document.getElementById("explorer-all").addEventListener("click", () => this.checkAll(true));
    document.getElementById("explorer-none").addEventListener("click", () => this.checkAll(false));
    for (const radio of document.getElementsByName("explorer-axis")) {
      radio.addEventListener("change", () => this.setAxis(radio.value === "order"));
    }
    this.filter();
  }
  checkAll(checked) {
    for (const box of this.boxes) box.checked = checked;
    this.filter();
  }

  // Which rows are shown, and which lanes.
  filter() {
    const {events, data} = this;
    const group = this.group.value === "" ? -1 : Number(this.group.value);
    const level = this.level.value === "" ? -1 : Number(this.level.value);
    const wanted = this.wantedMessages();
    this.message.setCustomValidity(wanted === null ? "A message is written name#number, as p3#7 or p3#4-9." : "");
    this.shown = new Uint8Array(events.lane.length);
    let count = 0;
    for (let row = 0; row < this.shown.length; row += 1) {
      const carries = events.sender[row] >= 0;
      const fits = this.boxes[data.lines[events.lane[row]]].checked
        && (group < 0 || events.group[row] < 0 || events.group[row] === group)
        && (level < 0 || !carries || events.level[row] === level)
        && (!wanted || (carries && wanted(row)));
      this.shown[row] = fits ? 1 : 0;
      count += this.shown[row];
    }
    this.lanes = [];
    for (let lane = 0; lane < data.lanes; lane += 1) if (this.boxes[data.lines[lane]].checked) this.lanes.push(lane);
    const lines = [...new Set(this.lanes.map((lane) => data.lines[lane]))];
    this.rank = new Map(lines.map((line, rank) => [line, rank]));
    if (this.chosen >= 0 && !this.shown[this.chosen]) this.choose(-1);
    this.count.textContent = `${count.toLocaleString("en")} of ${this.shown.length.toLocaleString("en")} rows shown`;
    this.canvas.style.height = `${Math.max(1, lines.length) * ROOM + AXIS_HEIGHT + 12}px`;
    this.figure.makeRoom(lines.map((line) => this.lineNames[line]));
    this.figure.redraw();
  }
  // A test for rows by what stands in the field: undefined if nothing does, null if it makes no sense.
  wantedMessages() {
    const text = this.message.value.trim();
    if (!text) return undefined;
    const parts = /^(.+?)(?:#(\d+)(?:\s*[-–]\s*(\d+))?)?$/.exec(text);
    const senders = new Set();
    this.data.processes.forEach((name, number) => { if (name === parts[1]) senders.add(number); });
    if (!senders.size) return null;
    const first = parts[2] ? Number(parts[2]) : 0;
    const last = parts[3] ? Number(parts[3]) : parts[2] ? first : Infinity;
    const {events, causality} = this;
    return (row) => senders.has(events.sender[row]) && events.number[row] <= last && causality.last(row) >= first;
  }

  setAxis(byOrder) {
    this.byOrder = byOrder;
    const {data, figure, causality} = this;
    const span = data.until - data.from;
    figure.spanMin = byOrder ? 8 : 1_000;
    if (byOrder) figure.setBounds(-1, causality.orderEnd + 1);
    else figure.setBounds(data.from - span * 0.01, data.until + span * 0.01);
    this.lookAtFocus();
  }
  along(row) { return this.byOrder ? this.causality.orderPlace[row] : this.events.time[row]; }
  y(lane) { return 8 + this.rank.get(this.data.lines[lane]) * ROOM + ROOM / 2; }

  // At first, some hundred rows around what matters: few enough to be read.
  lookAtFocus() {
    const {data, events, figure} = this;
    const distance = (row) => Math.abs(events.time[row] - data.focus[0]);
    const rows = [...events.lane.keys()].sort((one, other) => distance(one) - distance(other)).slice(0, FIRST_SIGHT);
    if (data.steps.length) {
      const steps = data.steps.map((row) => this.along(row));
      const reach = Math.max(Math.max(...steps) - Math.min(...steps), this.byOrder ? 10 : 1_000) * 0.35;
      figure.show(Math.min(...steps) - reach, Math.max(...steps) + reach);
    } else if (rows.length) {
      const places = rows.map((row) => this.along(row)).sort((one, other) => one - other);
      figure.show(places[0], places[places.length - 1]);
    }
  }
  jump(time) {
    const {data, figure} = this;
    if (this.byOrder || time < data.from || time > data.until) return;
    const half = (figure.range[1] - figure.range[0]) / 2;
    figure.show(time - half, time + half);
  }

  hit(x, y) {
    const {figure, events} = this;
    let [best, least] = [null, 13];
    for (let row = 0; row < this.shown.length; row += 1) {
      if (!this.shown[row] || Math.abs(this.y(events.lane[row]) - y) > 11) continue;
      const away = Math.abs(figure.x(this.along(row)) - x);
      if (away < least) [best, least] = [row, away];
    }
    return best;
  }

  choose(row) {
    this.chosen = row;
    this.isPast = new Uint8Array(this.shown.length);
    this.isFuture = new Uint8Array(this.shown.length);
    if (row >= 0) {
      for (const other of this.causality.past(row)) this.isPast[other] = 1;
      for (const other of this.causality.future(row)) this.isFuture[other] = 1;
    }
    this.tell(row);
    this.figure.redraw();
  }
  tell(row) {
    this.told.replaceChildren();
    if (row < 0) return;
    const sum = (marks) => marks.reduce((one, other) => one + other, 0);
    const [past, future] = [sum(this.isPast), sum(this.isFuture)];
    const rest = this.shown.length - past - future - 1;
    this.told.append(element("p", `${this.words(row)}.`, "deed"));
    const counts = document.createElement("p");
    counts.append(
      element("span", `${past.toLocaleString("en")} rows before it`, "sign past"), " ",
      element("span", `${future.toLocaleString("en")} after it`, "sign future"), " ",
      element("span", `${rest.toLocaleString("en")} beside it`, "sign beside"),
    );
    this.told.append(counts);
    const list = document.createElement("ul");
    for (const cause of this.causality.causes[row].slice(0, 5)) list.append(element("li", this.words(cause)));
    const effects = this.causality.effects[row];
    for (const effect of effects.slice(0, 12)) list.append(element("li", this.words(effect)));
    if (effects.length > 12) list.append(element("li", `and ${effects.length - 12} more deliveries`));
    this.told.append(list);
  }

  messageName(row) {
    const {events, data} = this;
    const [first, last] = [events.number[row], this.causality.last(row)];
    return `${data.processes[events.sender[row]]}#${first}${last > first ? `–${last}` : ""}`;
  }
  words(row) {
    const {events, data, causality} = this;
    const who = data.processes[events.lane[row]];
    const where = events.group[row] < 0 ? "" : ` in ${data.groups[events.group[row]]}`;
    const text = events.text[row] < 0 ? "" : data.texts[events.text[row]];
    const when = `at ${duration(events.time[row])}, row ${events.index[row]}`;
    const kind = events.kind[row];
    if (events.sender[row] >= 0) {
      const level = events.level[row] < 0 ? "" : ` (${data.levels[events.level[row]]}${text ? `, ${text}` : ""})`;
      const cause = kind === "deliver" ? causality.causes[row][0] : undefined;
      const span = cause === undefined ? 0 : events.time[row] - events.time[cause];
      const took = cause === undefined ? "" : `, ${duration(Math.abs(span))} ${span < 0 ? "before" : "after"} it was sent`;
      return `${who} ${kind === "send" ? "sent" : "delivered"} ${this.messageName(row)}${where}${level}${took}; ${when}`;
    }
    if (kind === "view") return `${who} installed ${text}${where}; ${when}`;
    if (kind === "transitional") return `${who} was told: ${text}${where}; ${when}`;
    const verb = {start: "joined", suspect: "suspected", crash: "crashed", stop: "stopped"}[kind] || "noted";
    return `${who} ${verb}${kind === "suspect" ? ` ${text}` : ""}${where}${text && kind !== "suspect" ? `: ${text}` : ""}; ${when}`;
  }

  // With something chosen, the arrows walk: along its log, from a delivery to its send, from a send to a delivery.
  key(event) {
    if (event.key === "Escape") {
      this.choose(-1);
      return true;
    }
    if (event.key === "Enter" && this.chosen < 0) return this.walkTo(this.nearestToMiddle());
    if (this.chosen < 0 || event.shiftKey) return false;
    const log = this.causality.logs[this.events.lane[this.chosen]];
    const place = this.causality.place[this.chosen];
    const next = {
      ArrowLeft: () => log.slice(0, place).reverse().find((row) => this.shown[row]),
      ArrowRight: () => log.slice(place + 1).find((row) => this.shown[row]),
      ArrowUp: () => this.causality.causes[this.chosen].find((row) => this.shown[row]),
      ArrowDown: () => this.causality.effects[this.chosen].find((row) => this.shown[row]),
    }[event.key];
    return next ? this.walkTo(next()) : false;
  }
  walkTo(row) {
    if (row === undefined || row < 0) return true;
    this.choose(row);
    const {figure} = this;
    const at = this.along(row);
    const margin = (figure.range[1] - figure.range[0]) * 0.1;
    if (at < figure.range[0] + margin) figure.show(at - margin, figure.range[1] - figure.range[0] + at - margin);
    if (at > figure.range[1] - margin) figure.show(figure.range[0] - figure.range[1] + at + margin, at + margin);
    return true;
  }
  nearestToMiddle() {
    const middle = (this.figure.range[0] + this.figure.range[1]) / 2;
    let best = -1;
    for (let row = 0; row < this.shown.length; row += 1) {
      if (!this.shown[row]) continue;
      if (best < 0 || Math.abs(this.along(row) - middle) < Math.abs(this.along(best) - middle)) best = row;
    }
    return best;
  }
}
