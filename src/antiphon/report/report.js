// Clicking a message lights up everything that stands for it, in both diagrams, and tells its story below them.
"use strict";

const marks = [...document.querySelectorAll("[data-stream]")];
const selection = document.getElementById("selection");

function overlaps(one, other) {
  return one.dataset.stream === other.dataset.stream
    && Number(one.dataset.first) <= Number(other.dataset.last)
    && Number(other.dataset.first) <= Number(one.dataset.last);
}

function select(chosen) {
  const lit = chosen ? marks.filter((mark) => overlaps(mark, chosen)) : [];
  for (const mark of marks) mark.classList.toggle("lit", lit.includes(mark));
  for (const diagram of document.querySelectorAll("svg.spacetime")) diagram.classList.toggle("chosen", lit.length > 0);
  if (!selection) return;
  const story = lit.filter((mark) => mark.classList.contains("mark") && mark.closest("svg.order"));
  const list = document.createElement("ul");
  for (const mark of story) {
    const item = document.createElement("li");
    item.textContent = mark.querySelector("title").textContent;
    list.append(item);
  }
  selection.replaceChildren(...(story.length ? [list] : []));
}

document.addEventListener("click", (event) => {
  if (event.target.closest("svg.spacetime")) select(event.target.closest("[data-stream]"));
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") select(null);
});

// The processes' names stay in sight while a wide diagram scrolls beneath them.
for (const canvas of document.querySelectorAll(".canvas")) {
  const names = canvas.querySelector(".names");
  canvas.addEventListener("scroll", () => names.setAttribute("transform", `translate(${canvas.scrollLeft} 0)`));
}
