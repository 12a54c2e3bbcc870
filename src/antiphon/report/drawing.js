// How the space-time diagram is painted: lanes, cones of past and future, messages, marks, in this order.
"use strict";

function drawExplorer(explorer) {
  const {figure} = explorer;
  const colours = coloursNow();
  if (explorer.byOrder) writeOrderAxis(figure, colours); else figure.timeAxis(colours);
  figure.clipped(() => {
    drawLanes(explorer, colours);
    if (explorer.chosen >= 0) drawCones(explorer, colours);
    drawViews(explorer, colours);
    drawArrows(explorer, colours);
    drawMarks(explorer, colours);
  });
  drawNames(explorer, colours);
}

function writeOrderAxis({context, left, height}, colours) {
  context.fillStyle = colours.faint;
  context.textAlign = "left";
  context.fillText("order of events: causes stand left of effects, distances mean nothing", left + 8, height - AXIS_HEIGHT / 2 + 3);
}

// A lane ends where its log does.
function drawLanes(explorer, colours) {
  const {figure, causality, events} = explorer;
  const {context} = figure;
  context.strokeStyle = colours.lane;
  context.lineWidth = 1.2;
  for (const lane of explorer.lanes) {
    const log = causality.logs[lane];
    const last = log[log.length - 1];
    const first = log[0];
    const ended = last !== undefined && ["crash", "stop"].includes(events.kind[last]);
    const begun = first !== undefined && events.index[first] === 0;
    context.beginPath();
    context.moveTo(begun ? figure.x(explorer.along(first)) : figure.left, explorer.y(lane));
    context.lineTo(ended ? figure.x(explorer.along(last)) : figure.width, explorer.y(lane));
    context.stroke();
  }
}

// On each lane, a band up to the last row of the past and one from the first row of the future on.
function drawCones(explorer, colours) {
  const {figure, causality} = explorer;
  const {context} = figure;
  context.lineCap = "round";
  context.globalAlpha = 0.3;
  context.lineWidth = 14;
  const band = (colour, lane, from, until) => {
    context.strokeStyle = colour;
    context.beginPath();
    context.moveTo(Math.max(-20, figure.x(explorer.along(from))), explorer.y(lane));
    context.lineTo(Math.min(figure.width + 20, figure.x(explorer.along(until))), explorer.y(lane));
    context.stroke();
  };
  for (const lane of explorer.lanes) {
    const log = causality.logs[lane];
    const past = log.filter((row) => explorer.isPast[row]);
    const future = log.filter((row) => explorer.isFuture[row]);
    if (past.length) band(colours.past, lane, past[0], past[past.length - 1]);
    if (future.length) band(colours.future, lane, future[0], future[future.length - 1]);
  }
  context.globalAlpha = 1;
  context.lineCap = "butt";
}

// A dotted line through the rows at which neighbouring lanes install the same view.
function drawViews(explorer, colours) {
  const {figure, events} = explorer;
  const {context} = figure;
  const installed = new Map();
  for (let row = 0; row < explorer.shown.length; row += 1) {
    if (!explorer.shown[row] || events.kind[row] !== "view") continue;
    const key = `${events.group[row]}/${events.text[row]}`;
    if (!installed.has(key)) installed.set(key, []);
    installed.get(key).push(row);
  }
  context.strokeStyle = colours.faint;
  context.globalAlpha = explorer.chosen >= 0 ? 0.35 : 0.9;
  context.setLineDash([2, 4]);
  context.lineWidth = 1.2;
  for (const rows of installed.values()) {
    context.beginPath();
    for (const row of rows) context.lineTo(figure.x(explorer.along(row)), explorer.y(events.lane[row]));
    context.stroke();
  }
  context.setLineDash([]);
  context.globalAlpha = 1;
}

// How loudly a row is drawn: 2 as usual, 1 stepping back.
function loudness(explorer, row) {
  if (explorer.chosen >= 0) return row === explorer.chosen || explorer.isPast[row] || explorer.isFuture[row] ? 2 : 1;
  return 2;
}

function drawArrows(explorer, colours) {
  const {figure, events, causality} = explorer;
  const {context} = figure;
  // All lines of one colour and loudness are one path: thousands of them must not slow a drag.
  const paths = new Map();
  let count = 0;
  for (const [send, delivery] of causality.arrows) {
    if (!explorer.shown[send] || !explorer.shown[delivery] || events.lane[send] === events.lane[delivery]) continue;
    const [x1, x2] = [figure.x(explorer.along(send)), figure.x(explorer.along(delivery))];
    if (Math.max(x1, x2) < figure.left || Math.min(x1, x2) > figure.width) continue;
    const step = explorer.stepOf.has(send) && explorer.stepOf.has(delivery);
    const loud = Math.min(loudness(explorer, send), loudness(explorer, delivery)) + (step ? 1 : 0);
    const key = `${loud}/${explorer.data.colours[events.sender[send]] % 8}`;
    if (!paths.has(key)) paths.set(key, new Path2D());
    const path = paths.get(key);
    path.moveTo(x1, explorer.y(events.lane[send]));
    path.lineTo(x2, explorer.y(events.lane[delivery]));
    count += 1;
  }
  const usual = count > 1500 ? 0.22 : count > 400 ? 0.42 : 0.7;
  for (const [key, path] of [...paths].sort()) {
    const [loud, sender] = key.split("/").map(Number);
    context.globalAlpha = loud === 3 ? 1 : loud === 2 ? usual : 0.1;
    context.lineWidth = loud === 3 ? 2.6 : 1.3;
    context.strokeStyle = colours.sender(sender);
    context.stroke(path);
  }
  context.globalAlpha = 1;
}

function drawMarks(explorer, colours) {
  const {figure, events} = explorer;
  const {context} = figure;
  const ends = new Map();
  for (let row = 0; row < explorer.shown.length; row += 1) {
    if (!explorer.shown[row]) continue;
    const x = figure.x(explorer.along(row));
    if (x < figure.left - 10 || x > figure.width + 10) continue;
    const y = explorer.y(events.lane[row]);
    context.globalAlpha = loudness(explorer, row) === 2 ? 1 : 0.25;
    drawMark(context, events.kind[row], x, y, colours, events.sender[row] < 0 ? colours.faint : colours.sender(explorer.data.colours[events.sender[row]]));
    if (row === explorer.chosen || explorer.stepOf.has(row)) ring(context, x, y, row === explorer.chosen ? colours.ink : colours.alarm);
    if (explorer.stepOf.has(row)) badge(context, x, y - 13, String(explorer.stepOf.get(row)), colours);
    else letter(explorer, row, x, y, ends, colours);
    context.globalAlpha = 1;
  }
}
function drawMark(context, kind, x, y, colours, colour) {
  context.lineWidth = 1.8;
  context.strokeStyle = colour;
  context.fillStyle = kind === "send" ? colour : colours.panel;
  context.beginPath();
  if (kind === "send") {
    context.rect(x - 4.5, y - 4.5, 9, 9);
  } else if (kind === "deliver") {
    context.arc(x, y, 4, 0, 7);
  } else if (kind === "view") {
    context.fillStyle = colours.ink;
    context.strokeStyle = colours.panel;
    context.roundRect(x - 2.5, y - 10, 5, 20, 2);
  } else if (kind === "crash") {
    context.strokeStyle = colours.alarm;
    context.lineWidth = 3;
    context.moveTo(x - 5, y - 5);
    context.lineTo(x + 5, y + 5);
    context.moveTo(x + 5, y - 5);
    context.lineTo(x - 5, y + 5);
  } else if (kind === "suspect") {
    context.strokeStyle = colours.alarm;
    context.moveTo(x, y - 6);
    context.lineTo(x + 5, y + 4);
    context.lineTo(x - 5, y + 4);
    context.closePath();
  } else {
    context.rect(x - 2, y - 6, 4, 12);
  }
  context.fill();
  context.stroke();
}
function ring(context, x, y, colour) {
  context.strokeStyle = colour;
  context.lineWidth = 2.2;
  context.beginPath();
  context.arc(x, y, 9, 0, 7);
  context.stroke();
}
function badge(context, x, y, words, colours) {
  context.fillStyle = colours.alarm;
  context.beginPath();
  context.arc(x, y, 8, 0, 7);
  context.fill();
  context.fillStyle = colours.panel;
  context.textAlign = "center";
  context.font = `bold 10.5px ${FONT.slice(5)}`;
  context.fillText(words, x, y + 0.5);
  context.font = FONT;
}
// Ids of views that parted are long and say nothing: those views are told by their members.
function viewName(text) {
  const [name, members] = text.split(": ");
  return name.length > 14 && members.length < 30 ? members : name.length > 14 ? "view" : name;
}
// The name of a message or a view above its mark, where there is room for it.
function letter(explorer, row, x, y, ends, colours) {
  const {events, figure: {context, left}} = explorer;
  const kind = events.kind[row];
  if (kind !== "send" && kind !== "view" && row !== explorer.chosen) return;
  const words = kind === "view" ? viewName(explorer.data.texts[events.text[row]])
    : events.sender[row] < 0 ? kind : explorer.messageName(row);
  const half = context.measureText(words).width / 2;
  const line = explorer.data.lines[events.lane[row]];
  const middle = Math.max(x, left + half + 2);
  if (ends.has(line) && middle - half < ends.get(line) + 6) return;
  ends.set(line, middle + half);
  context.fillStyle = colours.ink;
  context.textAlign = "center";
  context.fillText(words, middle, y - 14);
}

function drawNames(explorer, colours) {
  const {figure, data} = explorer;
  const {context} = figure;
  const named = new Set();
  for (const lane of explorer.lanes) {
    if (named.has(data.lines[lane])) continue;
    named.add(data.lines[lane]);
    const y = explorer.y(lane);
    context.fillStyle = colours.sender(data.colours[lane]);
    context.beginPath();
    context.roundRect(8, y - 5, 10, 10, 3);
    context.fill();
    context.fillStyle = colours.ink;
    context.textAlign = "left";
    context.fillText(explorer.lineNames[data.lines[lane]], 24, y, figure.left - 32);
  }
}
