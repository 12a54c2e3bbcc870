// A canvas that zooms and pans along one axis; what is drawn on it is the business of its user.
// Coordinates along the axis are called `at`; nothing here knows whether they are times or places in an order.
"use strict";

const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif';
const GUTTER_MAX = 150;
const AXIS_HEIGHT = 26;

class Figure {
  // draw(figure) paints everything; hit(x, y) gives what is there, or null; choose(hit) and point(hit, x, y) are told.
  constructor(canvas, {draw, hit, choose, point, key}) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.draw = draw;
    this.hit = hit;
    this.left = 80;
    this.right = 14;
    this.waiting = false;
    this.dragged = false;
    this.setBounds(0, 1);
    new ResizeObserver(() => this.redraw()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
    canvas.addEventListener("wheel", (event) => this.onWheel(event), {passive: false});
    canvas.addEventListener("pointerdown", (event) => this.onDown(event));
    canvas.addEventListener("pointermove", (event) => this.onMove(event, point));
    canvas.addEventListener("pointerleave", () => point(null, 0, 0));
    canvas.addEventListener("pointerup", (event) => {
      if (this.grip && !this.dragged) choose(this.hit(event.offsetX, event.offsetY), event);
      this.grip = null;
    });
    canvas.addEventListener("pointercancel", () => { this.grip = null; });
    canvas.addEventListener("keydown", (event) => {
      if (key(event) || this.onKey(event)) event.preventDefault();
    });
  }

  setBounds(from, until) {
    this.bounds = [from, Math.max(until, from + 1)];
    this.range = [...this.bounds];
    this.redraw();
  }

  get width() { return this.canvas.clientWidth; }
  get height() { return this.canvas.clientHeight; }
  get scale() { return (this.width - this.left - this.right) / (this.range[1] - this.range[0]); }
  x(at) { return this.left + (at - this.range[0]) * this.scale; }
  at(x) { return this.range[0] + (x - this.left) / this.scale; }

  // Show from..until, as far as it lies within the bounds.
  show(from, until) {
    const [low, high] = this.bounds;
    const least = Math.max((high - low) / 1e7, this.spanMin || 0);
    const span = Math.min(Math.max(until - from, least), high - low);
    const start = Math.min(Math.max((from + until - span) / 2, low), high - span);
    this.range = [start, start + span];
    this.redraw();
  }
  zoom(factor, at = (this.range[0] + this.range[1]) / 2) {
    this.show(at - (at - this.range[0]) * factor, at + (this.range[1] - at) * factor);
  }
  pan(share) {
    const span = this.range[1] - this.range[0];
    this.show(this.range[0] + share * span, this.range[1] + share * span);
  }
  whole() { this.show(...this.bounds); }

  // A plain wheel scrolls the page until the figure has been clicked; then, or with Ctrl, it zooms.
  onWheel(event) {
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
    if (sideways) {
      this.pan((event.deltaX || event.deltaY) / this.width);
    } else if (event.ctrlKey || event.metaKey || document.activeElement === this.canvas) {
      this.zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) / 200), this.at(event.offsetX));
    } else {
      return;
    }
    event.preventDefault();
  }
  onDown(event) {
    if (event.button !== 0) return;
    this.canvas.focus({preventScroll: true});
    this.canvas.setPointerCapture(event.pointerId);
    this.grip = {x: event.offsetX, range: [...this.range]};
    this.dragged = false;
  }
  onMove(event, point) {
    if (!this.grip) {
      const hit = this.hit(event.offsetX, event.offsetY);
      this.canvas.classList.toggle("over", hit !== null);
      point(hit, event.offsetX, event.offsetY);
      return;
    }
    const moved = event.offsetX - this.grip.x;
    if (Math.abs(moved) > 3) this.dragged = true;
    if (this.dragged) this.show(...this.grip.range.map((at) => at - moved / this.scale));
  }
  onKey(event) {
    const keys = {
      "+": () => this.zoom(0.7), "=": () => this.zoom(0.7), "-": () => this.zoom(1 / 0.7), "0": () => this.whole(),
      Home: () => this.whole(), ArrowLeft: () => this.pan(-0.2), ArrowRight: () => this.pan(0.2),
    };
    if (!(event.key in keys) || event.ctrlKey || event.metaKey || event.altKey) return false;
    keys[event.key]();
    return true;
  }

  redraw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.paint();
    });
  }
  paint() {
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [Math.round(this.width * ratio), Math.round(this.height * ratio)];
    if (!width || !height) return;
    if (this.canvas.width !== width) this.canvas.width = width;
    if (this.canvas.height !== height) this.canvas.height = height;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.clearRect(0, 0, this.width, this.height);
    this.context.font = FONT;
    this.context.textBaseline = "middle";
    this.draw(this);
  }

  // Everything that `paint` draws stays right of the names and left of the edge.
  clipped(paint) {
    this.context.save();
    this.context.beginPath();
    this.context.rect(this.left, 0, this.width - this.left, this.height);
    this.context.clip();
    paint();
    this.context.restore();
  }
  // Room on the left for these names.
  makeRoom(names) {
    this.context.font = FONT;
    const widest = Math.max(0, ...names.map((name) => this.context.measureText(name).width));
    this.left = Math.min(GUTTER_MAX, widest) + 34;
  }
  // Lines and words for times along the bottom.
  timeAxis(colours) {
    const {context, height} = this;
    const step = roundStep((this.range[1] - this.range[0]) / Math.max(2, (this.width - this.left) / 110));
    context.strokeStyle = colours.line;
    context.fillStyle = colours.faint;
    context.lineWidth = 1;
    context.textAlign = "center";
    for (let at = Math.ceil(this.range[0] / step) * step; at <= this.range[1]; at += step) {
      const x = Math.round(this.x(at)) + 0.5;
      context.beginPath();
      context.moveTo(x, 0);
      context.lineTo(x, height - AXIS_HEIGHT + 4);
      context.stroke();
      if (x < this.width - 24) context.fillText(moment(at, step), x, height - AXIS_HEIGHT / 2 + 3);
    }
  }
}

// The smallest of 1, 2, 5, 10… that is no smaller than `least`.
function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least) || power * 10;
}

const UNITS = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];

// A moment on an axis whose lines are `step` apart: as many digits as tell neighbours apart.
function moment(time, step) {
  const [unit, size] = UNITS.find(([, unitSize]) => step >= unitSize / 20) || UNITS[3];
  if (Math.abs(time) < step / 2) return "0";
  const digits = Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9));
  return `${(time / size).toLocaleString("en", {minimumFractionDigits: digits, maximumFractionDigits: digits})} ${unit}`;
}

// A span of time with three digits that matter.
function duration(time) {
  if (time >= 120e9) return `${Math.floor(time / 60e9)} min ${Math.floor(time % 60e9 / 1e9)} s`;
  const [unit, size] = UNITS.find(([, unitSize]) => time >= 0.9995 * unitSize) || UNITS[3];
  const value = time / size;
  return `${unit === "ns" ? Math.round(value) : Number(value.toPrecision(3))} ${unit}`;
}

// The page's colours, as they are now: light or dark.
function coloursNow() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const names = ["ground", "panel", "ink", "faint", "line", "lane", "alarm", "past", "future", "lightness"];
  const found = Object.fromEntries(names.map((name) => [name, colour(name)]));
  found.sender = (number) => colour(`s${number % 8}`);
  found.view = (number) => `hsl(${(number * 137.5 + 205) % 360} 52% ${found.lightness})`;
  return found;
}

// A box with words that follows the pointer.
class Tip {
  constructor(canvas) {
    this.canvas = canvas;
    this.box = document.createElement("div");
    this.box.className = "tip";
    this.box.hidden = true;
    canvas.parentElement.append(this.box);
  }
  show(words, x, y) {
    this.box.hidden = !words;
    if (!words) return;
    this.box.textContent = words;
    const most = this.canvas.clientWidth - this.box.offsetWidth - 8;
    this.box.style.left = `${Math.max(4, Math.min(x + 14, most))}px`;
    this.box.style.top = `${y + 16}px`;
  }
}

function option(value, words) {
  const made = document.createElement("option");
  made.value = value;
  made.textContent = words;
  return made;
}
function element(name, words, className = "") {
  const made = document.createElement(name);
  made.textContent = words;
  if (className) made.className = className;
  return made;
}
