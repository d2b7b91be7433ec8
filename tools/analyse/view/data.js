// Data of the page, from the JSON that C++ wrote: nothing is measured or summed up here.
'use strict';

const page = JSON.parse(document.getElementById('data').textContent);
const kinds = ['computing', 'exposed', 'bubble', 'bubble', 'transfer', 'collective', 'phase'];
const backOf = { 0: 'computing-back', 6: 'back' };  // of backward steps
const kindWords = ['arithmetic', 'waits, messages are in flight (exposed communication)', 'waits, nothing of its own happens (bubble)',
  'another queue waits', 'messages in flight', 'a collective', 'a phase'];

/** Columns of a lane: events by begin, and none overlaps another. Each is [kind, since the last one's end, length]. */
function lane(run, index) {
  const [rank, queue, kind, row] = run.lanes[index], flat = run.events[index] || [], count = flat.length / 3;
  const made = { index, rank, queue, kind, row, count, type: new Uint8Array(count), name: new Int32Array(count), where: new Int32Array(count),
    begin: new Float64Array(count), end: new Float64Array(count), critical: new Uint8Array(count) };
  for (let i = 0, last = 0; i < count; ++i) {
    [made.type[i], made.name[i], made.where[i], made.critical[i]] = run.kinds.slice(4 * flat[3 * i], 4 * flat[3 * i] + 4);
    made.begin[i] = last + flat[3 * i + 1];
    made.end[i] = last = made.begin[i] + flat[3 * i + 2];
  }
  return made;
}

/** Messages by when they leave; `sent` and `received` are events of their lanes. */
function messages(run) {
  const all = [];
  for (const [from, to, flat] of run.messages)
    for (let at = 0, sent = 0, received = 0, begin = 0; at < flat.length; at += 5) {
      sent += flat[at], received += flat[at + 1], begin += flat[at + 2];
      all.push([from, sent, to, received, begin, begin + flat[at + 3], ...run.parcels.slice(3 * flat[at + 4], 3 * flat[at + 4] + 3)]);
    }
  all.sort((a, b) => a[4] - b[4]);
  const column = (offset, type) => type.from(all, message => message[offset]);
  return { count: all.length, from: column(0, Int32Array), sent: column(1, Int32Array), to: column(2, Int32Array), received: column(3, Int32Array),
    begin: column(4, Float64Array), end: column(5, Float64Array), name: column(6, Int32Array), bytes: column(7, Float64Array), critical: column(8, Uint8Array),
    longest: all.reduce((most, message) => Math.max(most, message[5] - message[4]), 0) };
}

/** Ranks whose events are not in the page, by what shares of their time in each of many parts did what. */
const roughLane = ([rank, digits], index) => ({ index, rank, queue: 'main', kind: 'w', row: 0, count: 0, begin: new Float64Array(), end: new Float64Array(), rough: Uint8Array.from(digits, Number) });

const runs = page.runs.map(run => {
  const names = run.names.map(name => typeof name === 'string' ? name : run.patterns[name[0]].replace(/#/g, (i => () => name[++i])(0)));
  const lanes = run.lanes.map((_, i) => lane(run, i)), rough = run.rough.ranks.map((each, i) => roughLane(each, lanes.length + i));
  for (const l of lanes) l.stages = l.kind === 'r' && l.queue === 'main' && l.name.some(name => /^[FBIW][0-9]/.test(names[name]));  // of a pipeline
  return { ...run, names, lanes, rough: { ...run.rough, lanes: rough }, messages: messages(run), instants: null,
    goesBack: names.map(name => /^([BIW][0-9]|backward|input gradient|weight gradient)/.test(name)) };
});

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
