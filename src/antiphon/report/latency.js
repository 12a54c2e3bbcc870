// How long messages took: a curve and a line of figures for each level, group or process.
"use strict";

const CURVES_MAX = 8;
const SHARES = [["p50", 0.5], ["p90", 0.9], ["p99", 0.99], ["p99.9", 0.999], ["max", 1]];

class Latency {
  constructor(data) {
    this.data = data;
    this.box = document.getElementById("latency-chart");
    this.table = document.getElementById("latency-table");
    this.chooser = document.getElementById("latency-by");
    this.chooser.addEventListener("change", () => this.draw());
    for (const radio of document.getElementsByName("latency-curve")) radio.addEventListener("change", () => this.draw());
    this.lit = "";
    this.drawnWidth = 0;
    // Only a new width needs a new drawing: the height is what drawing itself changes.
    new ResizeObserver(() => requestAnimationFrame(() => {
      if (this.box.clientWidth !== this.drawnWidth) this.draw();
    })).observe(this.box);
    this.draw();
  }
  nanoseconds(bucket) { return 2 ** (bucket / this.data.per_doubling); }

  // Name → counts by bucket, put together over everything else, most messages first.
  gather(part) {
    const names = this.data[part];
    const place = {processes: 0, groups: 1, levels: 2}[part];
    const sums = new Map();
    for (const series of this.data.series) {
      const name = series[place] < 0 ? "all" : names[series[place]];
      if (!sums.has(name)) sums.set(name, new Map());
      const counts = sums.get(name);
      for (let at = 0; at < series[3].length; at += 2) {
        counts.set(series[3][at], (counts.get(series[3][at]) || 0) + series[3][at + 1]);
      }
    }
    const made = [...sums].map(([name, counts]) => {
      const ordered = [...counts].sort((one, other) => one[0] - other[0]);
      return {name, counts: ordered, total: ordered.reduce((sum, pair) => sum + pair[1], 0)};
    });
    return made.sort((one, other) => other.total - one.total);
  }
  // The latency that this share of all messages does not exceed: the upper edge of its bucket.
  quantile({counts, total}, share) {
    let sum = 0;
    for (const [bucket, count] of counts) {
      sum += count;
      if (sum >= share * total) return this.nanoseconds(bucket + 1);
    }
    return 0;
  }

  draw() {
    const all = this.gather(this.chooser.value);
    this.drawnWidth = this.box.clientWidth;
    const cumulative = document.getElementById("latency-cumulative").checked;
    this.drawTable(all);
    this.drawChart(all.slice(0, CURVES_MAX), cumulative, all.length);
  }
  drawTable(all) {
    const rows = all.map((series, number) => {
      const row = document.createElement("tr");
      const name = element("td", "", "name");
      name.append(element("span", "", `swatch ${number < CURVES_MAX ? `s${number}` : ""}`), series.name);
      row.append(name, element("td", series.total.toLocaleString("en"), "number"));
      for (const [, share] of SHARES) row.append(element("td", duration(this.quantile(series, share)), "number"));
      row.addEventListener("pointerenter", () => this.light(series.name));
      row.addEventListener("pointerleave", () => this.light(""));
      return row;
    });
    this.table.querySelector("tbody").replaceChildren(...rows);
  }
  light(name) {
    for (const curve of this.box.querySelectorAll("path.curve")) {
      curve.classList.toggle("dim", name !== "" && curve.dataset.name !== name);
    }
  }

  drawChart(all, cumulative, total) {
    const [width, height, left, bottom] = [Math.max(320, this.box.clientWidth), 260, 46, 28];
    const buckets = all.flatMap((series) => series.counts.map(([bucket]) => bucket));
    // What took no time at all (own deliveries) stands at the left edge; the scale begins at what took some.
    const low = Math.max(0, Math.min(...buckets.filter((bucket) => bucket > 0), Math.max(...buckets)) - 4);
    const high = Math.max(...buckets) + 1;
    const most = cumulative ? 1 : Math.max(...all.flatMap((one) => one.counts.map(([, count]) => count / one.total)));
    const x = (bucket) => left + Math.max(0, bucket - low) / Math.max(1, high - low) * (width - left - 12);
    const y = (share) => 10 + (1 - share / most) * (height - bottom - 10);
    const picture = shape("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", class: "chart", id: "latency-picture"});
    picture.setAttribute("aria-label", `Latency by ${this.chooser.value}; the table below has the figures`);
    this.drawGrid(picture, {low, high, most, x, y, width, height, left, bottom});
    all.forEach((series, number) => {
      const path = shape("path", {class: `curve s${number}`, d: this.curve(series, cumulative, x, y)});
      path.dataset.name = series.name;
      path.append(shape("title", {}, series.name));
      picture.append(path);
    });
    const words = total > CURVES_MAX ? `The ${CURVES_MAX} with most messages of ${total} are drawn; the table has all.` : "";
    this.box.replaceChildren(picture, element("p", words, "quiet"));
  }
  drawGrid(picture, {low, high, most, x, y, width, height, left, bottom}) {
    for (let power = 0; power < 20; power += 1) {
      const bucket = Math.log2(10 ** power) * this.data.per_doubling;
      if (bucket < low - 0.5 || bucket > high + 0.5) continue;
      picture.append(shape("line", {x1: x(bucket), x2: x(bucket), y1: 10, y2: height - bottom, class: "grid"}));
      picture.append(shape("text", {x: x(bucket), y: height - 9, "text-anchor": "middle"}, duration(10 ** power)));
    }
    for (const share of [0, 0.25, 0.5, 0.75, 1].map((part) => part * most)) {
      picture.append(shape("line", {x1: left, x2: width - 12, y1: y(share), y2: y(share), class: "grid"}));
      const words = `${(share * 100).toFixed(most < 0.2 ? 1 : 0)} %`;
      picture.append(shape("text", {x: left - 6, y: y(share) + 4, "text-anchor": "end"}, words));
    }
  }
  curve({counts, total}, cumulative, x, y) {
    let sum = 0;
    let before = counts[0][0];
    const points = [`M${x(before).toFixed(1)} ${y(0).toFixed(1)}`];
    for (const [bucket, count] of counts) {
      const gap = bucket > before;
      if (gap) points.push(`L${x(before).toFixed(1)} ${y(cumulative ? sum : 0).toFixed(1)}`);
      if (gap) points.push(`L${x(bucket).toFixed(1)} ${y(cumulative ? sum : 0).toFixed(1)}`);
      const share = count / total;
      if (!cumulative) points.push(`L${x(bucket).toFixed(1)} ${y(share).toFixed(1)}`);
      sum += share;
      points.push(`L${x(bucket + 1).toFixed(1)} ${y(cumulative ? sum : share).toFixed(1)}`);
      before = bucket + 1;
    }
    if (!cumulative) points.push(`L${x(before).toFixed(1)} ${y(0).toFixed(1)}`);
    return points.join(" ");
  }
}

function shape(name, attributes, words = "") {
  const made = document.createElementNS(document.getElementById("latency-picture").namespaceURI, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (words) made.textContent = words;
  return made;
}
