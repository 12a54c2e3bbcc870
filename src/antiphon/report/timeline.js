// Who was in which view when: a lane per process, a colour per view. The same colour at the same time means the same view.
"use strict";

const LANE = 28;
const PARTED_ID = 1e9;
const MARKS = {crash: "✕", stop: "■", left: "◂", suspect: "?", start: "▸", note: "•"};
const DEEDS = {
  crash: "crashed", stop: "stopped", left: "left", suspect: "suspects somebody", start: "starts", note: "notes",
};

class Timeline {
  constructor(data, duration, stretch, jump) {
    this.data = data;
    this.stretch = stretch;
    this.jump = jump;
    this.canvas = document.getElementById("timeline-canvas");
    this.told = document.getElementById("timeline-told");
    this.chosenView = -1;
    this.tip = new Tip(this.canvas);
    this.figure = new Figure(this.canvas, {
      draw: () => this.draw(),
      hit: (x, y) => this.hit(x, y),
      choose: (hit, event) => this.choose(hit, event),
      point: (hit, x, y) => this.tip.show(hit && this.words(hit), x, y),
      key: (event) => this.key(event),
    });
    this.chooser = document.getElementById("timeline-group");
    data.groups.forEach((group, number) => this.chooser.append(option(number, group.name)));
    this.chooser.addEventListener("change", () => this.showGroup(Number(this.chooser.value)));
    const busiest = data.groups.reduce((best, group, at) => group.pieces.length > data.groups[best].pieces.length ? at : best, 0);
    this.chooser.value = busiest;
    this.figure.setBounds(-duration * 0.01, duration * 1.01);
    this.showGroup(busiest);
  }

  showGroup(number) {
    this.group = this.data.groups[number];
    this.colourOf = new Map();
    this.merges = new Map();
    const byTime = [...this.group.pieces].sort((one, other) => one[2] - other[2]);
    for (const piece of byTime) if (!this.colourOf.has(piece[4])) this.colourOf.set(piece[4], this.colourOf.size);
    this.chosenView = -1;
    this.told.replaceChildren();
    this.canvas.style.height = `${this.group.lanes.length * LANE + AXIS_HEIGHT + 10}px`;
    this.figure.makeRoom(this.group.lanes);
    this.figure.redraw();
  }

  y(lane) { return 8 + lane * LANE + LANE / 2; }

  draw() {
    const {figure, group} = this;
    const {context} = figure;
    const colours = coloursNow();
    figure.timeAxis(colours);
    figure.clipped(() => {
      const [from, until] = this.stretch.map((at) => figure.x(at));
      context.fillStyle = colours.ink;
      context.globalAlpha = 0.055;
      context.fillRect(from, 0, Math.max(2, until - from), figure.height - AXIS_HEIGHT + 4);
      context.globalAlpha = 1;
      for (const piece of group.pieces) this.drawPiece(piece, colours);
      for (const mark of group.marks) this.drawMark(mark, colours);
    });
    context.textAlign = "left";
    context.fillStyle = colours.ink;
    group.lanes.forEach((name, lane) => context.fillText(name, 8, this.y(lane), figure.left - 16));
  }

  drawPiece([lane, , from, until, view, count, behind], colours) {
    const {figure} = this;
    const {context} = figure;
    const x = figure.x(from);
    const width = Math.max(1.5, figure.x(until) - x);
    if (x > figure.width || x + width < figure.left) return;
    const top = this.y(lane) - 9;
    context.globalAlpha = this.chosenView >= 0 && this.chosenView !== view ? 0.18 : 1;
    context.fillStyle = count > 1 ? colours.lane : colours.view(this.colourOf.get(view));
    context.beginPath();
    context.roundRect(x, top, width, 18, Math.min(4, width / 2));
    context.fill();
    if (behind !== null) this.hatch(figure.x(behind), top, x + width, colours);
    const start = Math.max(x, figure.left);
    this.writeOn(start, Math.min((behind === null ? x + width : figure.x(behind)), figure.width) - start, top + 9, view, count);
    context.globalAlpha = 1;
  }
  writeOn(x, room, y, view, count) {
    const {context} = this.figure;
    const {id, size, members} = this.data.views[view];
    const many = `${size} member${size === 1 ? "" : "s"}`;
    const long = count > 1 ? `${count} views` : `view ${id} · ${many}`;
    // Ids of views that parted are long and say nothing: there, who is together is told by name.
    const names = members.map((one) => this.data.names[one]).join(" ");
    const merged = this.mergedFrom(view);
    const parted = [merged > 1 ? `${merged} merged: ${names}` : names, names, many, String(size)];
    const choices = id >= PARTED_ID && count === 1 ? parted : [long, String(id)];
    context.fillStyle = "#101316";
    context.textAlign = "left";
    for (const words of choices) {
      if (context.measureText(words).width + 12 > room) continue;
      context.fillText(words, x + 6, y);
      return;
    }
  }
  // From how many views the members of a view come.
  mergedFrom(view) {
    if (!this.merges.has(view)) {
      const from = new Set();
      for (const [at, piece] of this.group.pieces.entries()) {
        const before = this.group.pieces[at - 1];
        if (piece[4] === view && before && before[1] === piece[1]) from.add(before[4]);
      }
      this.merges.set(view, from.size);
    }
    return this.merges.get(view);
  }
  // The others have gone on without this process.
  hatch(from, top, until, colours) {
    const {context} = this.figure;
    context.save();
    context.beginPath();
    context.rect(from, top, until - from, 18);
    context.clip();
    context.fillStyle = colours.panel;
    context.globalAlpha *= 0.55;
    context.fillRect(from, top, until - from, 18);
    context.strokeStyle = colours.ink;
    context.lineWidth = 1;
    context.beginPath();
    const first = Math.max(from, this.figure.left) - 18;
    for (let x = first - first % 6; x < Math.min(until, this.figure.width); x += 6) {
      context.moveTo(x, top + 18);
      context.lineTo(x + 18, top);
    }
    context.stroke();
    context.restore();
  }
  drawMark([lane, , at, kind], colours) {
    const {figure} = this;
    const {context} = figure;
    const x = figure.x(at);
    if (x < figure.left - 8 || x > figure.width + 8) return;
    const y = this.y(lane);
    const loud = kind === "crash";
    context.textAlign = "center";
    if (kind === "suspect" || kind === "note" || kind === "start") {
      context.fillStyle = kind === "suspect" ? colours.alarm : colours.faint;
      context.beginPath();
      context.moveTo(x - 3, y - 13);
      context.lineTo(x + 3, y - 13);
      context.lineTo(x, y - 8);
      context.fill();
      return;
    }
    context.fillStyle = colours.panel;
    context.beginPath();
    context.arc(x, y, 7.5, 0, 7);
    context.fill();
    context.strokeStyle = loud ? colours.alarm : colours.faint;
    context.stroke();
    context.fillStyle = loud ? colours.alarm : colours.faint;
    context.fillText(MARKS[kind], x, y + 0.5);
  }

  hit(x, y) {
    const {figure, group} = this;
    const lane = Math.floor((y - 8) / LANE);
    const near = group.marks.filter((mark) => mark[0] === lane && Math.abs(figure.x(mark[2]) - x) < 7);
    const mark = near.find((one) => one[3] === "crash") || near[0];
    if (mark) return {mark};
    const at = figure.at(x);
    const slack = 2 / figure.scale;
    const piece = group.pieces.find((one) => one[0] === lane && one[2] - slack <= at && at < one[3] + slack);
    return piece ? {piece} : null;
  }

  words({mark, piece}) {
    const {names, views} = this.data;
    if (mark) return `${names[mark[1]]} ${DEEDS[mark[3]]}, ${duration(mark[2])} after the run began${mark[4] ? `: ${mark[4]}` : ""}`;
    const [, process, from, until, view, count, behind] = piece;
    const {id, size, members} = views[view];
    const span = `from ${duration(from)} for ${duration(until - from)}`;
    if (count > 1) return `${names[process]} went through ${count} views, ${span}; the last was view ${id}`;
    const more = size > members.length ? ` and ${size - members.length} more` : "";
    const late = behind === null ? "" : `; the others went on without it after ${duration(behind - from)}`;
    const merged = this.mergedFrom(view);
    const met = merged > 1 ? `; ${merged} views merged into it` : "";
    return `${names[process]} in view ${id}, ${span}: ${members.map((one) => names[one]).join(", ")}${more}${met}${late}`;
  }

  choose(hit, event) {
    this.chosenView = hit && hit.piece && hit.piece[4] !== this.chosenView ? hit.piece[4] : -1;
    this.told.replaceChildren();
    if (hit) this.told.append(element("p", `${this.words(hit)}.`));
    if (hit && hit.piece && this.chosenView >= 0) this.told.append(element("p", this.change(hit.piece), "quiet"));
    this.figure.redraw();
    if (event) this.jump(this.figure.at(event.offsetX));
  }
  // How a process's view differs from the one it was in before.
  change(piece) {
    const {names, views} = this.data;
    const own = this.group.pieces.filter((one) => one[1] === piece[1]);
    const before = own[own.indexOf(piece) - 1];
    const alike = this.group.pieces.filter((one) => one[4] === piece[4]).length;
    const shared = `${alike} of its ${views[piece[4]].size} members are seen to install it`;
    if (!before) return `The first view of ${names[piece[1]]}; ${shared}.`;
    const [old, now] = [views[before[4]].members, views[piece[4]].members];
    const joined = now.filter((one) => !old.includes(one)).map((one) => names[one]);
    const gone = old.filter((one) => !now.includes(one)).map((one) => names[one]);
    const parts = [joined.length ? `New: ${joined.join(", ")}` : "", gone.length ? `Gone: ${gone.join(", ")}` : ""];
    return `${parts.filter(Boolean).join(". ") || "The members are the same"}; ${shared}.`;
  }
  key(event) {
    if (event.key !== "Escape") return false;
    this.choose(null);
    return true;
  }
}
