// What the page draws, from the JSON that C++ wrote: nothing is measured or summed up here.
'use strict';

const page = JSON.parse(document.getElementById('data').textContent);
const kinds = ['computing', 'exposed', 'bubble', 'bubble', 'transfer', 'collective', 'phase'];
const backOf = { 0: 'computing-back', 6: 'back' };  // of backward steps
const kindWords = ['arithmetic', 'waits, messages on their way (exposed communication)', 'waits, nothing of its own goes on (bubble)',
  'another queue waits', 'messages on their way', 'a collective', 'a phase'];

/** Columns of a lane: events by begin, and none overlaps another. */
function lane(run, index) {
  const [rank, queue, kind, row] = run.lanes[index], flat = run.events[index] || [], count = flat.length / 6;
  const made = { index, rank, queue, kind, row, count, type: new Uint8Array(count), name: new Int32Array(count), where: new Int32Array(count),
    begin: new Float64Array(count), end: new Float64Array(count), critical: new Uint8Array(count) };
  for (let i = 0; i < count; ++i) {
    const at = 6 * i;
    made.type[i] = flat[at];
    made.name[i] = flat[at + 1];
    made.where[i] = flat[at + 2];
    made.begin[i] = flat[at + 3];
    made.end[i] = flat[at + 3] + flat[at + 4];
    made.critical[i] = flat[at + 5];
  }
  return made;
}

/** Messages by when they leave. */
function messages(run) {
  const flat = run.messages, count = flat.length / 7, order = Array.from({ length: count }, (_, i) => i);
  order.sort((a, b) => flat[7 * a + 2] - flat[7 * b + 2]);
  const column = (offset, type) => type.from(order, i => flat[7 * i + offset]);
  const made = { count, from: column(0, Int32Array), to: column(1, Int32Array), begin: column(2, Float64Array), end: column(3, Float64Array),
    name: column(4, Int32Array), bytes: column(5, Float64Array), critical: column(6, Uint8Array), longest: 0 };
  for (let i = 0; i < count; ++i) made.longest = Math.max(made.longest, made.end[i] - made.begin[i]);
  return made;
}

const runs = page.runs.map(run => ({ ...run, lanes: run.lanes.map((_, i) => lane(run, i)), messages: messages(run), instants: null,
  goesBack: run.names.map(name => /^([BIW][0-9]|backward|input gradient|weight gradient)/.test(name)) }));

/** Whenever something begins or ends, once. */
function instantsOf(run) {
  if (run.instants) return run.instants;
  const all = [run.begin, run.end];
  for (const l of run.lanes) {
    if (l.kind === 'r') continue;
    for (let i = 0; i < l.count; ++i) all.push(l.begin[i], l.end[i]);
  }
  all.sort((a, b) => a - b);
  return run.instants = Float64Array.from(all.filter((time, i) => i === 0 || time !== all[i - 1]));
}

/** The first index of `column` whose value is above `value`. */
function after(column, value) {
  let low = 0, high = column.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    column[middle] > value ? high = middle : low = middle + 1;
  }
  return low;
}

/** Three digits and a unit, of nanoseconds. */
function time(ns) {
  const units = [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']];
  const [size, unit] = units.find(([size]) => Math.abs(ns) >= size) || units[3];
  return `${Number((ns / size).toPrecision(4))} ${unit}`;
}

function bytes(count) {
  for (const [size, unit] of [[2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [1024, 'KiB']])
    if (count >= size) return `${Number((count / size).toPrecision(3))} ${unit}`;
  return `${count} B`;
}

const percent = (part, whole) => whole > 0 ? `${(100 * part / whole).toFixed(1)} %` : '';
