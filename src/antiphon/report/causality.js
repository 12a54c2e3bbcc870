// What happened before what, within the rows that the page holds.
// Row e happened before row f if it stands earlier in the same log, or sends a message that f delivers, or by a chain of
// such steps. Each row gets a vector: how many rows of each lane are in its past. Past and future of a row are then read
// off without walking: f is in the past of e if its place in its lane is below e's entry for that lane.
"use strict";

class Causality {
  // events: columns lane, time, kind, group, sender, number, count; rows of one lane stand together, in their order.
  // lines: where each lane is drawn; lanes on one line must not overlap in the order either.
  constructor(events, lanes, lines) {
    this.events = events;
    this.lanes = lanes;
    this.lines = lines;
    this.size = events.lane.length;
    this.place = new Int32Array(this.size);
    this.logs = Array.from({length: lanes}, () => []);
    for (let row = 0; row < this.size; row += 1) this.place[row] = this.logs[events.lane[row]].push(row) - 1;
    this.findArrows();
    this.findOrder();
  }

  // From each send to each delivery of any of its messages.
  findArrows() {
    const {events} = this;
    const streams = new Map();
    const stream = (row) => `${events.group[row]}/${events.sender[row]}`;
    for (let row = 0; row < this.size; row += 1) {
      if (events.kind[row] !== "send") continue;
      if (!streams.has(stream(row))) streams.set(stream(row), []);
      streams.get(stream(row)).push(row);
    }
    for (const sends of streams.values()) {
      sends.sort((one, other) => events.number[one] - events.number[other]);
      let reach = 0;
      sends.reach = sends.map((row) => reach = Math.max(reach, this.last(row)));
    }
    this.arrows = [];
    this.causes = Array.from({length: this.size}, () => []);
    this.effects = Array.from({length: this.size}, () => []);
    for (let row = 0; row < this.size; row += 1) {
      if (events.kind[row] !== "deliver") continue;
      const sends = streams.get(stream(row)) || [];
      // From the last send that begins in time back to where no earlier one can reach so far.
      for (let at = this.lastAtMost(sends, this.last(row)); at >= 0 && sends.reach[at] >= events.number[row]; at -= 1) {
        if (this.last(sends[at]) < events.number[row]) continue;
        this.arrows.push([sends[at], row]);
        this.causes[row].push(sends[at]);
        this.effects[sends[at]].push(row);
      }
    }
  }
  last(row) { return this.events.number[row] + this.events.count[row] - 1; }
  lastAtMost(sends, number) {
    let [low, high] = [0, sends.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.events.number[sends[middle]] <= number) low = middle + 1; else high = middle;
    }
    return low - 1;
  }

  // One order of all rows in which causes come first, as close to time as may be; vectors and places on the way.
  findOrder() {
    const {events, lanes} = this;
    const heads = new Int32Array(lanes);
    const done = new Uint8Array(this.size);
    this.vectors = new Int32Array(this.size * lanes);
    this.orderPlace = new Float64Array(this.size);
    const ends = new Float64Array(lanes).fill(-1);  // by line
    let front = 0;
    for (let count = 0; count < this.size; count += 1) {
      let chosen = -1;
      let chosenReady = false;
      for (let lane = 0; lane < lanes; lane += 1) {
        const row = this.logs[lane][heads[lane]];
        if (row === undefined) continue;
        const ready = this.causes[row].every((cause) => done[cause]);
        // In a broken history an effect may stand before its cause; where nothing else is left, time alone decides.
        if (chosen < 0 || (ready && !chosenReady) || (ready === chosenReady && events.time[row] < events.time[chosen])) {
          [chosen, chosenReady] = [row, ready];
        }
      }
      const lane = events.lane[chosen];
      const causes = this.causes[chosen].filter((cause) => done[cause]);
      this.fillVector(chosen, lane, causes);
      const after = causes.map((cause) => this.orderPlace[cause] + (events.lane[cause] === lane ? 0 : 1));
      this.orderPlace[chosen] = Math.max(ends[this.lines[lane]] + 1, front - 6, ...after);
      ends[this.lines[lane]] = this.orderPlace[chosen];
      front = Math.max(front, this.orderPlace[chosen]);
      done[chosen] = 1;
      heads[lane] += 1;
    }
    this.orderEnd = front;
  }
  fillVector(row, lane, causes) {
    const {lanes, vectors} = this;
    const own = row * lanes;
    const before = this.place[row] > 0 ? [row - 1, ...causes] : causes;
    for (const cause of before) {
      for (let at = 0; at < lanes; at += 1) {
        const known = vectors[cause * lanes + at];
        if (known > vectors[own + at]) vectors[own + at] = known;
      }
      const lane = this.events.lane[cause];
      vectors[own + lane] = Math.max(vectors[own + lane], this.place[cause] + 1);
    }
    vectors[own + lane] = this.place[row];
  }

  isBefore(one, other) {
    return one !== other && this.place[one] < this.vectors[other * this.lanes + this.events.lane[one]];
  }
  past(row) { return this.select((other) => this.isBefore(other, row)); }
  future(row) { return this.select((other) => this.isBefore(row, other)); }
  select(test) {
    const found = [];
    for (let row = 0; row < this.size; row += 1) if (test(row)) found.push(row);
    return found;
  }
}
