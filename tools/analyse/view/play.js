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
  frames.took.push(performance.now() - began);
  if (frames.took.length > 240) frames.took.shift();
  const f = frameTimes(), times = frames.shown ? `the last ${f.count} frames took ${f.median.toFixed(1)} ms each (median), ${f.worst.toFixed(1)} ms at most` : '';
  $('status').textContent = [times, thinned].filter(Boolean).join('; ');
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
  if (running && look.now >= end()) look.now = 0;
  if (running && (look.now < look.begin || look.now > look.end)) pan(look.now - look.begin);
  const starts = running && !play.running;
  play.running = running;
  play.last = null;
  $('play').textContent = running ? 'pause' : 'play';
  if (starts) requestAnimationFrame(tick);
  refresh();
}

function step(forth) {
  toggle(false);
  let next = forth ? Infinity : -Infinity;
  for (const r of look.shown) {
    const instants = instantsOf(runs[r]), at = after(instants, look.now);
    const found = forth ? instants[at] : instants[instants[at - 1] === look.now ? at - 2 : at - 1];
    if (found !== undefined) next = forth ? Math.min(next, found) : Math.max(next, found);
  }
  if (Number.isFinite(next)) look.now = next;
  if (look.now < look.begin || look.now > look.end) pan(look.now - (look.begin + look.end) / 2);
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
  refresh();
}

function setDetail(level) {
  look.detail = level;
  $('detail').textContent = ['a line a rank', 'work and messages', 'all lanes'][level - 1];
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
  const ranks = shown.reduce((sum, r) => sum + runs[r].drawn, 0);
  look.now = endOfSteps();
  panels();
  setDetail(ranks > 16 || events > 20_000 ? 1 : 3);
  fit();
  const setUp = shown.length === 1 ? runs[shown[0]].set_up : 0;
  if (setUp > 0) {  // what is looked at comes after it; 0 shows all
    look.begin = setUp;
    refresh();
  }
  if (shown.some(r => runs[r].steps.length > 0)) {  // steps are what a run is looked at for
    look.begin = 0;
    look.end = Math.min(axisEnd(), 1.02 * endOfSteps());
    refresh();
  }
}

const actions = { ' ': () => toggle(!play.running), ArrowLeft: () => step(false), ArrowRight: () => step(true), '+': () => zoom(1.5), '=': () => zoom(1.5),
  '-': () => zoom(1 / 1.5), '0': fit, ',': () => pan((look.begin - look.end) / 5), '.': () => pan((look.end - look.begin) / 5), '[': () => setSpeed(play.speed - 1),
  ']': () => setSpeed(play.speed + 1), d: () => setDetail(look.detail % 3 + 1), a: () => press('arrows'), c: () => press('path'), f: () => { frames.shown = !frames.shown; refresh(); },
  Home: () => { look.now = axisBegin(); pan(axisBegin() - look.begin); }, End: () => { look.now = end(); pan(end()); } };

document.addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === 'SELECT') return;
  if (event.key === ' ' && event.target.tagName === 'BUTTON') return;
  if (!actions[event.key]) return;
  event.preventDefault();
  actions[event.key]();
});
for (const [id, key] of [['play', ' '], ['back', 'ArrowLeft'], ['forth', 'ArrowRight'], ['slower', '['], ['faster', ']'], ['out', '-'], ['in', '+'], ['fit', '0'], ['detail', 'd'], ['arrows', 'a'], ['path', 'c']])
  $(id).addEventListener('click', () => actions[key]());

canvas.addEventListener('wheel', event => {
  if (!event.ctrlKey && !event.shiftKey) return;
  event.preventDefault();
  if (event.ctrlKey) zoom(event.deltaY < 0 ? 1.25 : .8, timeAt(event.offsetX));
  else pan((event.deltaY || event.deltaX) / 500 * (look.end - look.begin));
}, { passive: false });
let dragged = null;
canvas.addEventListener('pointerdown', event => { dragged = { at: event.offsetX, begin: look.begin, moved: false }; });
window.addEventListener('pointerup', event => {
  if (dragged && !dragged.moved && event.target === canvas && event.offsetX > look.labelWidth) {
    look.now = Math.max(axisBegin(), Math.min(end(), timeAt(event.offsetX)));
    refresh();
  }
  dragged = null;
});
canvas.addEventListener('pointermove', event => {
  if (dragged) {
    const by = (dragged.at - event.offsetX) / plotWidth() * (look.end - look.begin);
    dragged.moved = dragged.moved || Math.abs(event.offsetX - dragged.at) > 3;
    if (dragged.moved) pan(dragged.begin + by - look.begin);
    return;
  }
  tell(event);
});
canvas.addEventListener('pointerleave', () => { $('tip').hidden = true; });

/** What is under the pointer, in words. */
function tell(event) {
  const y = event.offsetY - look.axisHeight + frame.scrollTop, row = rows.find(r => r.lane && y >= r.y && y < r.y + r.height), tip = $('tip');
  tip.hidden = true;
  if (!row || event.offsetX < look.labelWidth) return;
  const l = row.lane, at = timeAt(event.offsetX), i = after(l.begin, at) - 1;
  if (i < 0 || l.end[i] < at) return;
  const names = runs[row.run].names, where = names[l.where[i]];
  tip.textContent = `rank ${l.rank} ${l.queue}: ${names[l.name[i]]}\n${kindWords[l.type[i]]}\n${time(l.begin[i])} to ${time(l.end[i])}, ${time(l.end[i] - l.begin[i])}${where ? '\n' + where : ''}${l.critical[i] ? '\non the critical path' : ''}`;
  tip.style.left = `${Math.min(event.clientX + 14, window.innerWidth - 340)}px`;
  tip.style.top = `${event.clientY + 16}px`;
  tip.hidden = false;
}

frame.addEventListener('scroll', refresh);
window.addEventListener('resize', () => { layOut(); refresh(); });
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { readColours(); refresh(); });
window.addEventListener('beforeprint', () => { readColours(); refresh(); });
window.addEventListener('afterprint', () => { readColours(); refresh(); });

readColours();
setSpeed(3);
$('run').innerHTML = runs.map((run, i) => `<option value="${i}">${escaped(run.title)}${run.verdict && run.verdict !== 'PASS' ? ' (' + escaped(run.verdict) + ')' : ''}</option>`).join('');
$('run').addEventListener('change', () => choose([Number($('run').value)]));
$('choice').hidden = page.together || runs.length < 2;
$('run').value = page.first;
choose(page.together ? runs.map((_, i) => i).slice(0, 2) : [page.first]);
