// The clock, the keys and the mouse.
'use strict';

const speeds = [.125, .25, .5, 1, 2, 4, 8, 16], play = { running: false, speed: 3, last: null };
/** Where the axis ends: what is stuck takes a third of it, and the last access of a race has room for its words. */
const axisEnd = () => Math.max(...look.shown.map(r => Math.max(1, runs[r].end) * (runs[r].stuck.length > 0 ? 1.5 : runs[r].race ? 1.25 : 1.02)));
/** Where it begins: 0, or before the first step, which is at 0. */
const axisBegin = () => Math.min(0, ...look.shown.map(r => runs[r].begin));
/** When the last step ends; of runs that have none, or that stopped, the end. */
const endOfSteps = () => Math.max(...look.shown.map(r => runs[r].steps.length > 0 && !runs[r].stopped ? runs[r].steps[runs[r].steps.length - 1][1] : runs[r].end), 1);
const end = () => Math.max(...look.shown.map(r => runs[r].end), 1);
/** Where looking begins: at the first step, or after a set-up. */
const start = () => look.shown.some(r => runs[r].steps.length > 0) ? 0 : look.shown.length === 1 && runs[look.shown[0]].set_up > 0 ? runs[look.shown[0]].set_up : axisBegin();

/** What the last frames took to draw, in milliseconds; f shows it. */
const frames = { took: [], shown: false };
function frameTimes() {
  const sorted = frames.took.slice().sort((a, b) => a - b);
  return { count: sorted.length, median: sorted[sorted.length >> 1] || 0, worst: sorted[sorted.length - 1] || 0 };
}

function refresh() {
  const began = performance.now();
  draw();
  holdings();
  $('now').textContent = `${time(Math.round(look.now))} of ${time(end())}`;
  scrub.show();
  keepState();
  frames.took.push(performance.now() - began);
  if (frames.took.length > 240) frames.took.shift();
  const f = frameTimes(), times = frames.shown ? `the last ${f.count} frames took ${f.median.toFixed(1)} ms each (median), ${f.worst.toFixed(1)} ms at most` : '';
  $('status').textContent = [times, thinned].filter(Boolean).join('; ');
}

/** The slider: from where looking begins to the end of the steps, in thousandths; or to the end, if that is played. */
const scrub = {
  last: () => look.now > endOfSteps() ? end() : endOfSteps(),
  show() {
    const part = (look.now - start()) / Math.max(1, this.last() - start());
    $('scrub').value = Math.round(1000 * Math.max(0, Math.min(1, part)));
    $('scrub').setAttribute('aria-valuetext', time(Math.round(look.now)));
  },
  move() {
    const instant = start() + $('scrub').value / 1000 * (this.last() - start());  // before anything is drawn, which sets the slider
    toggle(false);
    go(instant);
  },
};

/** To an instant, which is then in sight. */
function go(instant) {
  look.now = Math.max(axisBegin(), Math.min(end(), instant));
  if (look.now < look.begin || look.now > look.end) pan(look.now - (look.begin + look.end) / 2);
  refresh();
}

/** At speed 1 what is in sight takes ten seconds. */
function tick(stamp) {
  if (!play.running) return;
  const passed = play.last === null ? 0 : Math.max(0, stamp - play.last);
  const last = look.now < endOfSteps() ? endOfSteps() : end();  // what comes after the steps is played when it is asked for
  look.now = Math.min(last, look.now + passed / 10_000 * speeds[play.speed] * (look.end - look.begin));
  play.last = stamp;
  if (look.now > look.end) pan(look.now - look.begin - (look.end - look.begin) * .1);
  if (look.now >= last) toggle(false);
  refresh();
  if (play.running) requestAnimationFrame(tick);
}

function toggle(running) {
  if (running && (look.now >= end() || look.now === endOfSteps())) look.now = start();
  if (running && (look.now < look.begin || look.now > look.end)) pan(look.now - look.begin);
  const starts = running && !play.running;
  play.running = running;
  play.last = null;
  $('play').textContent = running ? 'pause' : 'play';
  if (starts) requestAnimationFrame(tick);
  refresh();
}

/** To the next instant, or the one before; of several within a pixel the last is meant. */
function step(forth) {
  toggle(false);
  const pixel = (look.end - look.begin) / plotWidth(), endOfPixel = instant => look.begin + (Math.floor((instant - look.begin) / pixel) + 1) * pixel;
  const all = look.shown.map(r => instantsOf(runs[r])), before = limit => Math.max(...all.map(instants => {
    const at = after(instants, limit);
    return instants[instants[at - 1] === limit ? at - 2 : at - 1] ?? -Infinity;
  }));
  const next = forth ? Math.min(...all.map(instants => instants[after(instants, look.now)] ?? Infinity)) : before(endOfPixel(look.now) - pixel);
  if (Number.isFinite(next)) return go(forth ? Math.max(next, before(endOfPixel(next))) : next);
  refresh();
}

function zoom(factor, centre) {
  const least = 10, span = Math.min(axisEnd() - axisBegin(), Math.max(least, (look.end - look.begin) / factor));
  const middle = centre === undefined ? (look.now > look.begin && look.now < look.end ? look.now : (look.begin + look.end) / 2) : centre;
  const part = (middle - look.begin) / (look.end - look.begin);
  look.begin = Math.max(axisBegin(), middle - part * span);
  look.end = look.begin + span;
  refresh();
}

function pan(by) {
  const span = look.end - look.begin;
  look.begin = Math.max(axisBegin(), Math.min(axisEnd() - span, look.begin + by));
  look.end = look.begin + span;
  refresh();
}

function fit() {
  look.begin = axisBegin();
  look.end = axisEnd();
  refresh();
}

function press(name) {
  look[name] = !look[name];
  $(name).setAttribute('aria-pressed', look[name]);
  if (name === 'ghost') layOut();
  refresh();
}

/** Groups of ranks are for many. */
const levels = () => look.shown.some(r => runs[r].recorded > kGroup) ? [0, 1, 2, 3] : [1, 2, 3];

function setDetail(level) {
  look.detail = levels().includes(level) ? level : 1;
  $('detail').textContent = [`a line for ${kGroup} ranks`, 'a line per rank', 'work and messages', 'all lanes'][look.detail];
  layOut();
  refresh();
}

function setSpeed(index) {
  play.speed = Math.max(0, Math.min(speeds.length - 1, index));
  $('speed').textContent = `× ${speeds[play.speed]}`;
}

function choose(shown) {
  look.shown = shown;
  const events = shown.reduce((sum, r) => sum + runs[r].lanes.reduce((all, l) => all + l.count, 0), 0);
  const ranks = shown.reduce((sum, r) => sum + runs[r].recorded, 0);
  look.picked = look.rank = null;
  look.begin = start();  // 0 shows what is before it, and after the steps
  look.end = shown.some(r => runs[r].steps.length > 0) ? Math.min(axisEnd(), 1.02 * endOfSteps()) : axisEnd();
  // A failure is at the end; a run that went well plays from its begin.
  look.now = shown.some(r => runs[r].stopped || runs[r].race) ? endOfSteps() : start();
  look.ghost = page.ghost && shown.length === 2;
  $('ghost').hidden = shown.length < 2;
  $('ghost').setAttribute('aria-pressed', look.ghost);
  panels();
  setDetail(ranks > 3 * kGroup ? 0 : ranks > 16 || events > 20_000 || shown.some(r => runs[r].lanes.some(l => l.stages)) ? 1 : 3);
}

const actions = { ' ': () => toggle(!play.running), ArrowLeft: () => step(false), ArrowRight: () => step(true), '+': () => zoom(1.5), '=': () => zoom(1.5),
  '-': () => zoom(1 / 1.5), '0': fit, ',': () => pan((look.begin - look.end) / 5), '.': () => pan((look.end - look.begin) / 5), '[': () => setSpeed(play.speed - 1),
  ']': () => setSpeed(play.speed + 1), d: () => setDetail(levels()[(levels().indexOf(look.detail) + 1) % levels().length]), g: () => { if (look.shown.length === 2) press('ghost'); }, a: () => press('arrows'), c: () => press('path'), f: () => { frames.shown = !frames.shown; refresh(); },
  Home: () => { look.now = axisBegin(); pan(axisBegin() - look.begin); }, End: () => { look.now = end(); pan(end()); } };

document.addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === 'SELECT') return;
  if (event.key === ' ' && event.target.tagName === 'BUTTON') return;
  if (!actions[event.key]) return;
  event.preventDefault();
  actions[event.key]();
});
for (const [id, key] of [['play', ' '], ['back', 'ArrowLeft'], ['forth', 'ArrowRight'], ['slower', '['], ['faster', ']'], ['out', '-'], ['in', '+'], ['fit', '0'], ['detail', 'd'], ['arrows', 'a'], ['path', 'c'], ['ghost', 'g']])
  $(id).addEventListener('click', () => actions[key]());

canvas.addEventListener('wheel', event => {
  if (!event.ctrlKey && !event.shiftKey) return;
  event.preventDefault();
  if (event.ctrlKey) zoom(event.deltaY < 0 ? 1.25 : .8, timeAt(event.offsetX));
  else pan((event.deltaY || event.deltaX) / 500 * (look.end - look.begin));
}, { passive: false });

// One finger or the mouse: a drag pans, a click goes there and explains the block. Two fingers keep the part between
// them in place.
const touching = new Map();
let dragged = null;
const middle = () => [...touching.values()].reduce((sum, at) => sum + at, 0) / touching.size;
const apart = () => Math.max(12, Math.abs(Math.max(...touching.values()) - Math.min(...touching.values())));
function takeHold() {
  dragged = touching.size === 0 ? null : { at: middle(), time: timeAt(middle()), span: look.end - look.begin, apart: apart(), fingers: touching.size, moved: dragged !== null && dragged.moved };
}
canvas.addEventListener('pointerdown', event => {
  touching.set(event.pointerId, event.offsetX);
  takeHold();
  if (touching.size > 1) dragged.moved = true;
});
canvas.addEventListener('pointermove', event => {
  if (!touching.has(event.pointerId)) return tell(event);
  touching.set(event.pointerId, event.offsetX);
  dragged.moved = dragged.moved || Math.abs(middle() - dragged.at) > (event.pointerType === 'mouse' ? 3 : 8);
  if (!dragged.moved) return;
  $('tip').hidden = true;
  const span = dragged.fingers < 2 ? dragged.span : Math.max(10, Math.min(axisEnd() - axisBegin(), dragged.span * dragged.apart / apart()));
  look.begin = dragged.time - (middle() - look.labelWidth) / plotWidth() * span;
  look.end = look.begin + span;
  pan(0);
});
function letGo(event) {
  if (!touching.delete(event.pointerId)) return;
  const clicked = event.type === 'pointerup' && dragged && !dragged.moved && touching.size === 0 && event.target === canvas;
  takeHold();
  if (clicked) click(event);
}
for (const type of ['pointerup', 'pointercancel']) window.addEventListener(type, letGo);
canvas.addEventListener('pointerleave', event => { if (event.pointerType === 'mouse') $('tip').hidden = true; });

/** What is at a place of the canvas: a message, which is in front, or an event; or the row alone. */
function under(event) {
  const px = event.offsetX, py = event.offsetY, y = py - look.axisHeight + frame.scrollTop, row = rows.find(r => !r.heading && y >= r.y && y < r.y + r.height);
  if (px < look.labelWidth || py < look.axisHeight) return { row };
  const reach = event.pointerType === 'mouse' ? 4 : 12;
  let best = null, least = reach;
  for (const a of arrows) {
    const dx = a.x1 - a.x0, dy = a.y1 - a.y0, length = dx * dx + dy * dy, part = length > 0 ? Math.max(0, Math.min(1, ((px - a.x0) * dx + (py - a.y0) * dy) / length)) : 0;
    const far = Math.hypot(px - a.x0 - part * dx, py - a.y0 - part * dy);
    if (far < least) least = far, best = a;
  }
  const message = best && { row, picked: { run: best.run, message: best.i } };
  if (message && least < 4) return message;
  if (row && row.lane && row.lane.count > 0) {
    const l = row.lane, at = timeAt(px), slack = reach / plotWidth() * (look.end - look.begin);
    let i = Math.max(0, after(l.begin, at) - 1);
    if (i + 1 < l.count && l.end[i] < at && l.begin[i + 1] - at < at - l.end[i]) ++i;  // the nearer one
    if (i < l.count && l.begin[i] - slack <= at && at <= l.end[i] + slack) return { row, picked: { run: row.run, lane: l.index, event: i } };
  }
  return message || { row };
}

/** What that is, in words. */
function wordsOf({ row, picked }, withPlace = true) {
  if (!picked) return row && row.group ? groupWords(row) : row && row.lane && row.lane.rough ? `rank ${row.lane.rank}: only shares of its time are in this page` : '';
  const run = runs[picked.run];
  if (picked.message !== undefined) {
    const m = run.messages, i = picked.message, from = run.lanes[m.from[i]], to = run.lanes[m.to[i]];
    return `${run.names[m.name[i]]}: a message of ${bytes(m.bytes[i])}\nfrom rank ${from.rank} to rank ${to.rank}\n${time(m.begin[i])} to ${time(m.end[i])}, ${time(m.end[i] - m.begin[i])}${m.critical[i] ? '\non the critical path' : ''}`;
  }
  const l = run.lanes[picked.lane], i = picked.event, where = run.names[l.where[i]];
  return `rank ${l.rank} ${l.queue}: ${run.names[l.name[i]]}\n${kindWords[l.type[i]]}\n${time(l.begin[i])} to ${time(l.end[i])}, ${time(l.end[i] - l.begin[i])}${withPlace && where ? '\n' + where : ''}${l.critical[i] ? '\non the critical path' : ''}`;
}

/** How many of a group's ranks do what at the instant that is played. */
function groupWords(row) {
  const doing = [0, 0, 0, 0], known = row.group.filter(l => !l.rough);
  if (known.length === 0) return `${row.words}: only shares of their time are in this page`;
  for (const l of known) {
    const i = after(l.begin, look.now) - 1;
    ++doing[i >= 0 && look.now < l.end[i] ? Math.min(2, l.type[i]) : 3];
  }
  const words = ['compute', 'wait for messages', 'wait for others', 'do neither'];
  return `${row.words}, at ${time(Math.round(look.now))}:\n${doing.map((count, i) => count > 0 ? `${count} ${words[i]}` : '').filter(Boolean).join(', ')}`;
}

function tell(event) {
  const tip = $('tip'), words = wordsOf(under(event));
  tip.textContent = words;
  tip.hidden = words === '';
  if (tip.hidden) return;
  const width = tip.offsetWidth || 300, height = tip.offsetHeight || 90;
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, window.innerWidth - width - 6))}px`;
  tip.style.top = `${event.clientY + 16 + height > window.innerHeight ? Math.max(4, event.clientY - height - 12) : event.clientY + 16}px`;
}

/** A click goes to its instant, and shows the code of what is there. */
function click(event) {
  const found = under(event);
  if (event.offsetX > look.labelWidth) look.now = Math.max(axisBegin(), Math.min(end(), timeAt(event.offsetX)));
  if (found.row && found.row.lane) look.rank = found.row.lane.rank;
  if (found.row && found.row.group && event.offsetX <= look.labelWidth) {  // its label opens a group
    setDetail(1);
    const first = rows.find(row => row.lane && row.lane === found.row.group[0]);
    frame.scrollTop = first ? first.y : 0;
  }
  look.picked = found.picked || null;
  picked();
  refresh();
  if (event.pointerType !== 'mouse') tell(event);
}

// The state of looking, in the page's address: a copy of it shows the same.
let remembered = '', waiting = null;
function stateWords() {
  const p = look.picked, parts = [`t=${Math.round(look.now)}`];
  if (look.rank !== null) parts.push(`rank=${look.rank}`);
  parts.push(`from=${Math.round(look.begin)}`, `to=${Math.round(look.end)}`, `lanes=${look.detail}`);
  if (!page.together && runs.length > 1) parts.push(`run=${look.shown[0]}`);
  if (p) parts.push(p.message !== undefined ? `message=${p.run}.${p.message}` : `event=${p.run}.${p.lane}.${p.event}`);
  return '#' + parts.join('&');
}
/** Not in every frame: browsers refuse that. */
function keepState() {
  if (play.running || waiting !== null) return;
  waiting = setTimeout(() => {
    waiting = null;
    if (play.running || stateWords() === remembered) return;
    remembered = stateWords();
    history.replaceState(null, '', remembered);
  }, 200);
}
/** What of an address makes sense here. */
function takeState(hash) {
  const said = new URLSearchParams(hash.replace(/^#/, '')), number = name => said.has(name) && said.get(name) !== '' && Number.isFinite(Number(said.get(name))) ? Number(said.get(name)) : null;
  if (!page.together && runs[number('run')] && number('run') !== look.shown[0]) {
    $('run').value = number('run');
    choose([number('run')]);
  }
  if (number('lanes') !== null) setDetail(number('lanes'));
  const [from, to] = [number('from'), number('to')];
  if (from !== null && to !== null && to > from) {
    look.begin = Math.max(axisBegin(), from);
    look.end = Math.min(Math.max(look.begin + 10, to), Math.max(axisEnd(), look.begin + 10));
  }
  look.rank = number('rank');
  look.picked = null;
  const numbers = name => (said.get(name) || '').split('.').map(Number), [r, i] = numbers('message'), [run, lane, event] = numbers('event');
  if (runs[r] && i < runs[r].messages.count) look.picked = { run: r, message: i };
  if (runs[run] && runs[run].lanes[lane] && event < runs[run].lanes[lane].count) look.picked = { run, lane, event };
  const row = rows.find(row => row.lane && row.lane.rank === look.rank || row.group && row.group.some(l => l.rank === look.rank));
  if (row) frame.scrollTop = Math.max(0, row.y - 40);
  picked();
  const instant = number('t') === null ? look.now : number('t');
  if (from === null || to === null) return go(instant);
  look.now = Math.max(axisBegin(), Math.min(end(), instant));
  refresh();
}
window.addEventListener('hashchange', () => { if (location.hash !== remembered) takeState(location.hash); });
$('scrub').addEventListener('input', () => scrub.move());
for (const kind of ['svg', 'png']) $(kind).addEventListener('click', () => save(kind));

frame.addEventListener('scroll', refresh);
window.addEventListener('resize', () => { layOut(); refresh(); });
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { readColours(); refresh(); });
/** Draws all lanes as wide as a sheet of paper, or again as wide as the window. */
function resized(paper) {
  frame.style.width = paper ? '700px' : '', frame.style.height = paper ? `${Math.min(900, $('space').offsetHeight)}px` : '';
  readColours(), layOut(), refresh();
}
window.addEventListener('beforeprint', () => resized(true));
window.addEventListener('afterprint', () => resized(false));

readColours();
setSpeed(3);
$('run').innerHTML = runs.map((run, i) => `<option value="${i}">${escaped(run.title)}${run.verdict && run.verdict !== 'PASS' ? ' (' + escaped(run.verdict) + ')' : ''}</option>`).join('');
$('run').addEventListener('change', () => choose([Number($('run').value)]));
$('choice').hidden = page.together || runs.length < 2;
$('run').value = page.first;
$('more').addEventListener('click', () => $('more').setAttribute('aria-expanded', $('tools').classList.toggle('open')));
choose(page.together ? runs.map((_, i) => i).slice(0, 2) : [page.first]);
if (location.hash.length > 1) takeState(location.hash);
