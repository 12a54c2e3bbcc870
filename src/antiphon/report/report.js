// Puts the page together. In the pictures of counterexamples a click lights up everything that stands for a message.
"use strict";

const held = document.getElementById("data");
const data = held ? JSON.parse(held.textContent) : null;

function wire(figure, name) {
  document.getElementById(`${name}-closer`).addEventListener("click", () => figure.zoom(0.6));
  document.getElementById(`${name}-farther`).addEventListener("click", () => figure.zoom(1 / 0.6));
  document.getElementById(`${name}-whole`).addEventListener("click", () => figure.whole());
}

const explorer = data && document.getElementById("explorer-canvas") ? new Explorer(data.explorer) : null;
const timeline = data && document.getElementById("timeline-canvas")
  ? new Timeline(data.timeline, data.duration, [data.explorer.from, data.explorer.until], (time) => explorer && explorer.jump(time))
  : null;
const latency = data && document.getElementById("latency-chart") ? new Latency(data.latency) : null;
if (explorer) wire(explorer.figure, "explorer");
if (timeline) wire(timeline.figure, "timeline");

function overlaps(one, other) {
  return one.dataset.stream === other.dataset.stream
    && Number(one.dataset.first) <= Number(other.dataset.last)
    && Number(other.dataset.first) <= Number(one.dataset.last);
}
function select(picture, chosen) {
  const marks = [...picture.querySelectorAll("[data-stream]")];
  const lit = chosen ? marks.filter((mark) => overlaps(mark, chosen)) : [];
  for (const mark of marks) mark.classList.toggle("lit", lit.includes(mark));
  picture.classList.toggle("chosen", lit.length > 0);
  const list = document.createElement("ul");
  for (const mark of lit.filter((one) => one.classList.contains("mark"))) {
    const item = document.createElement("li");
    item.textContent = mark.querySelector("title").textContent;
    list.append(item);
  }
  picture.closest("figure")?.querySelector(".selection")?.replaceChildren(...(lit.length ? [list] : []));
}
document.addEventListener("click", (event) => {
  const picture = event.target.closest("svg.spacetime");
  if (picture) select(picture, event.target.closest("[data-stream]"));
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") for (const picture of document.querySelectorAll("svg.spacetime.chosen")) select(picture, null);
});

// The processes' names stay in sight while a wide picture scrolls beneath them.
for (const canvas of document.querySelectorAll(".canvas")) {
  const names = canvas.querySelector(".names");
  canvas.addEventListener("scroll", () => names.setAttribute("transform", `translate(${canvas.scrollLeft} 0)`));
}
