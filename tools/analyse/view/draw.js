// The lanes on their canvas. Only the visible part is drawn, and of blocks narrower than a pixel one in each.
'use strict';

const canvas = document.getElementById('lanes'), frame = document.getElementById('frame');
const look = { shown: [0], begin: 0, end: 1, now: 0, detail: 2, arrows: true, path: true, ghost: false, picked: null, rank: null, labelWidth: 110, axisHeight: 24, width: 0, height: 0, scroll: 0 };
const kMostArrows = 3000, kGroup = 8;
let ink = canvas.getContext('2d'), rows = [], arrows = [], colours = {}, hatch = null, thinned = '';

function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ['page', 'text', 'faint', 'line', 'band', 'computing', 'exposed', 'bubble', 'transfer', 'collective', 'phase', 'back', 'computing-back', 'path', 'on-bar', 'on-region'])
    colours[name] = style.getPropertyValue('--' + name).trim();
  const tile = document.createElement('canvas');
  tile.width = tile.height = 6;
  const pen = tile.getContext('2d');
  pen.strokeStyle = colours.bubble;
  pen.lineWidth = 1;
  pen.beginPath();
  for (const shift of [-6, 0, 6]) { pen.moveTo(shift, 6); pen.lineTo(shift + 6, 0); }
  pen.stroke();
  hatch = ink.createPattern(tile, 'repeat');
}

const labelOf = l => `rank ${l.rank}${l.queue === 'main' ? '' : ' ' + l.queue}`;

/** A line for each group of ranks: what share of their main streams does what. */
function groupRows(r, y) {
  const lanes = runs[r].lanes.filter(l => l.kind === 'w' && l.queue === 'main').concat(runs[r].rough.lanes);
  for (let i = 0; i < lanes.length; i += kGroup, y += 26) {
    const group = lanes.slice(i, i + kGroup), last = group[group.length - 1].rank;
    rows.push({ run: r, group, y, height: 24, words: group.length > 1 ? `ranks ${group[0].rank}–${last}` : `rank ${last}` });
  }
  return y;
}

/** Which lanes are drawn, and where: 0 has a line per group of ranks, 1 a line per rank, 2 work and messages, 3
 *  collectives and phases as well. With a prediction, each rank of the first run has the second one's work below it. */
function layOut() {
  rows = [];
  let y = 0;
  ink.font = '12px system-ui, sans-serif';
  const widest = Math.max(...look.shown.flatMap(r => runs[r].lanes.map(l => ink.measureText(labelOf(l)).width)), 0);
  look.labelWidth = Math.round(Math.max(62, Math.min(widest + 24, frame.clientWidth * .22, 180)));
  const ghost = look.ghost && look.shown.length === 2 && look.detail > 0;
  look.axisHeight = look.shown.length === 1 && runs[look.shown[0]].steps.length > 0 ? 40 : 24;  // room for the steps' names
  const ranks = look.shown.reduce((sum, r) => sum + runs[r].recorded, 0);
  const thin = Math.max(3, Math.min(18, Math.floor((frame.clientHeight - look.axisHeight - 20) / Math.max(1, ranks))));
  const heights = look.detail === 1 ? { w: thin, t: 0, r: 0 } : { w: 20, t: ranks <= 8 ? 14 : 9, r: look.detail === 3 ? 15 : 0 };
  const ghostOf = rank => {
    const l = ghost && runs[look.shown[1]].lanes.find(l => l.rank === rank && l.queue === 'main' && l.kind === 'w');
    if (l) rows.push({ run: look.shown[1], lane: l, ghost: true, y, height: 10 }), y += 12;
  };
  for (const r of ghost ? look.shown.slice(0, 1) : look.shown) {
    if (look.shown.length > 1) {
      const words = ghost ? `A: ${runs[r].title}; thin, below each rank: B, ${runs[look.shown[1]].title}` : `${'AB'[look.shown.indexOf(r)]}: ${runs[r].title}`;
      const height = runs[r].steps.length > 0 ? 38 : 20;  // the names of its steps are below its own
      rows.push({ run: r, y, height, heading: words }), y += height;
    }
    if (look.detail === 0) {
      y = groupRows(r, y);
      continue;
    }
    let rank = -1;
    for (const l of runs[r].lanes.concat(look.detail === 1 ? runs[r].rough.lanes : [])) {
      if (look.detail === 1 && l.queue !== 'main') continue;
      const named = look.detail === 1 && l.stages && thin > 11;
      const height = runs[r].race && runs[r].race.rank === l.rank && l.kind !== 'r' ? { w: 40, t: 22 }[l.kind] : named ? 15 : heights[l.kind];
      if (height === 0) continue;
      if (l.rank !== rank && rank >= 0) ghostOf(rank);
      if (l.rank !== rank && look.detail > 1) y += 5;
      rows.push({ run: r, lane: l, y, height, first: l.rank !== rank });
      rank = l.rank;
      y += height + (height > 6 ? 1 : 0);
    }
    if (rank >= 0) ghostOf(rank);
  }
  document.getElementById('space').style.height = `${y + look.axisHeight + 8}px`;
  frame.style.height = `${Math.max(160, Math.min(y + look.axisHeight + 10, window.innerHeight * .56))}px`;
}

const plotWidth = () => Math.max(2, look.width - look.labelWidth - 8);  // of a narrow window, too
const x = t => look.labelWidth + (t - look.begin) / (look.end - look.begin) * plotWidth();
const timeAt = px => look.begin + (px - look.labelWidth) / plotWidth() * (look.end - look.begin);

/** To set a font costs more than to write with it. */
function setFont(size, weight = '') {
  const font = `${weight}${size}px system-ui, sans-serif`;
  if (font !== look.font) ink.font = look.font = font;
}

function drawAxis() {
  ink.fillStyle = colours.page;
  ink.fillRect(0, 0, look.width, look.axisHeight);
  const span = look.end - look.begin, most = Math.max(1, Math.min(12, plotWidth() / 68));  // with room for their words
  let tick = 10 ** Math.floor(Math.log10(span / most));
  for (const more of [2, 2.5, 2]) if (span / tick > most) tick *= more;
  tick = Math.max(1, tick);
  ink.fillStyle = colours.faint;
  ink.strokeStyle = colours.line;
  setFont(12);
  ink.textBaseline = 'middle';
  for (let t = Math.ceil(look.begin / tick) * tick; t <= look.end; t += tick) {
    ink.beginPath();
    ink.moveTo(x(t), look.axisHeight - 5);
    ink.lineTo(x(t), look.axisHeight);
    ink.stroke();
    const words = time(Math.round(t));
    if (x(t) + 3 + ink.measureText(words).width <= look.width) ink.fillText(words, x(t) + 3, 10);
  }
}

/** What the steps of a run are, and what is beside them: [begin, end, words]. */
function segments(run) {
  const parts = run.steps.map(([begin, end], i) => [begin, end, `step ${i + 1}`]);
  if (parts.length === 0) return parts;
  if (run.begin < 0) parts.unshift([run.begin, 0, 'set-up']);
  const last = parts[parts.length - 1][1];
  if (run.end > last) parts.push([last, run.end, run.stopped ? 'unfinished' : 'after the steps']);
  return parts;
}

/** Names of a run's steps at height `y`; what is beside them is pale in its lanes. */
function drawSteps(run, y) {
  const right = look.width - 8, all = segments(runs[run]), inSight = all.filter(([begin, end]) => end > look.begin && begin < look.end);
  setFont(12);
  for (const [begin, end, words] of inSight) {
    const from = Math.max(look.labelWidth, x(begin)), to = Math.min(right, x(end));
    ink.fillStyle = colours.faint;
    if (begin >= look.begin && to - from > 3) ink.fillRect(from, y - 7, 1, 14);
    if (to - from > words.length * 6.6 + 6) ink.fillText(words, from + 4, y);
  }
  ink.globalAlpha = .55;
  ink.fillStyle = colours.page;
  for (const row of rows) {
    if (row.run !== run || row.heading) continue;
    const top = row.y - look.scroll + look.axisHeight;
    if (top > look.height || top + row.height < look.axisHeight) continue;
    let pale = Math.max(look.labelWidth, x(look.begin));
    for (const [begin, end] of runs[run].steps.concat([[Infinity, Infinity]])) {
      const to = Math.min(right, begin === Infinity ? right : x(begin));
      if (to > pale + .5) ink.fillRect(pale, top, to - pale, row.height);
      if (end === Infinity || end > look.end) break;
      pale = Math.max(pale, x(end));
    }
  }
  ink.globalAlpha = 1;
}

function drawLane(row, top) {
  const l = row.lane, right = look.width - 8, begins = l.begin;
  if (l.rough) return drawShares([l], row, top);
  let i = Math.max(0, after(begins, look.begin) - 1), reached = -1;
  if (l.kind !== 'r' && after(begins, look.end) - i > plotWidth()) return drawShares([l], row, top);
  for (; i < l.count && begins[i] < look.end; ++i) {
    if (l.end[i] < look.begin) continue;
    const from = Math.max(look.labelWidth, x(begins[i])), to = Math.min(right, x(l.end[i]));
    const type = l.type[i], lit = look.path && l.critical[i];
    if (to < reached && !lit) continue;  // inside the pixel that was drawn last
    const width = Math.max(1, to - from);
    ink.fillStyle = type === 2 || type === 3 ? hatch : colours[runs[row.run].goesBack[l.name[i]] ? backOf[type] || kinds[type] : kinds[type]];
    ink.fillRect(from, top, width, row.height);
    reached = Math.ceil(from + .999);
    if (width > 8 && (type < 2 || type > 4) && row.height > 8) {
      ink.strokeStyle = colours.page;
      ink.lineWidth = 1;
      ink.strokeRect(from + .5, top + .5, width - 1, row.height - 1);
    }
    if (lit) {
      ink.fillStyle = colours.path;
      ink.fillRect(from, top + row.height - 3, width, 3);
    }
    if (width > 14 && row.height > 9) label(runs[row.run].names[l.name[i]], from, top, width, row.height, type);
  }
}

/** Where events are narrower than pixels, or lanes share a row, each column shows how its time divides. */
function drawShares(lanes, row, top) {
  const columns = Math.floor(plotWidth() / 2), share = [0, 1, 2, 3].map(() => new Float32Array(columns + 1));
  const groups = [0, 1, 2, 2, 3], scale = columns / (look.end - look.begin), part = 1 / lanes.length;
  const rough = runs[row.run].rough;
  for (const l of lanes) {
    for (let c = 0; l.rough && c < columns; ++c) {
      const at = Math.floor((look.begin + (c + .5) / scale - rough.begin) / (rough.end - rough.begin) * l.rough.length / 3);
      for (let kind = 0; kind < 3 && at >= 0; ++kind) share[kind][c] += part * (l.rough[3 * at + kind] || 0) / 9;
    }
    for (let i = Math.max(0, after(l.begin, look.begin) - 1); i < l.count && l.begin[i] < look.end; ++i) {
      const from = Math.max(0, (l.begin[i] - look.begin) * scale), to = Math.min(columns, (l.end[i] - look.begin) * scale), into = share[groups[l.type[i]]];
      for (let c = Math.floor(from); c < to; ++c) into[c] += part * (Math.min(to, c + 1) - Math.max(from, c));
    }
  }
  const heights = c => share.map(column => Math.round(4 * Math.min(1, column[c]) * row.height) / 4);
  for (let c = 0, next; c < columns; c = next) {  // equal columns are drawn as one
    const alike = heights(c);
    for (next = c + 1; next < columns && heights(next).every((height, kind) => height === alike[kind]);) ++next;
    let y = top + row.height;
    ['computing', 'exposed', null, 'transfer'].forEach((colour, kind) => {
      if (alike[kind] === 0) return;
      ink.fillStyle = colour ? colours[colour] : hatch;
      ink.fillRect(look.labelWidth + 2 * c, y -= alike[kind], 2 * (next - c), alike[kind]);
    });
  }
}

function label(text, from, top, width, height, type) {
  const size = Math.min(12, height - 1);
  setFont(size);
  const words = shortened(text, width - 6);
  if (words.length < Math.min(text.length, 5)) return;  // nothing that could be read
  if (type === 2 || type === 3) {
    ink.fillStyle = colours.page;
    ink.fillRect(from + 2, top + 2, Math.min(width - 4, ink.measureText(words).width + 4), height - 4);
  }
  ink.fillStyle = type < 2 ? colours['on-bar'] : type < 5 ? colours.text : colours['on-region'];
  ink.fillText(words, from + 3, top + height / 2 + .5);
}

function drawStuck(row, top) {
  const run = runs[row.run];
  for (const [rank, queue, , , link, , reason, since] of run.stuck) {
    if (row.lane.kind !== 'w' || row.lane.rank !== rank || row.lane.queue !== queue) continue;
    const from = Math.max(look.labelWidth, x(since)), width = look.width - 8 - from;
    if (width <= 0) continue;
    ink.fillStyle = hatch;
    ink.fillRect(from, top, width, row.height);
    ink.strokeStyle = link >= 0 ? colours.exposed : colours.bubble;
    ink.lineWidth = link >= 0 ? 2 : 1;
    ink.strokeRect(from + 1, top + 1, width - 2, row.height - 2);
    if (row.height > 9) label(`stuck: ${reason}`, from, top, width, row.height, 2);
  }
}

/** Where an access of a race stands: the kind of its lane, and which half of it where both are in one. */
function placeOfAccess(run, access) {
  const race = runs[run].race, kindOf = ([queue, kind]) => kind === 't' && rows.some(r => r.run === run && r.lane && r.lane.rank === race.rank && r.lane.queue === queue && r.lane.kind === 't') ? 't' : 'w';
  const [first, second] = race.accesses, shared = first[0] === second[0] && kindOf(first) === kindOf(second);
  return { kind: kindOf(access), part: shared ? .5 : 1, below: shared && access === second };
}

/** The two accesses of a race, with the life of the memory that both use; what else used it has a thin frame. */
function drawRace(row, top) {
  const race = runs[row.run].race, lane = row.lane;
  if (!race || lane.rank !== race.rank || lane.kind === 'r') return;
  const right = look.width - 8, box = (begin, end, least) => {
    const from = Math.max(look.labelWidth, x(begin)), to = Math.min(right, Math.max(x(end), x(begin) + least));
    return to > from ? [from, to - from] : null;
  };
  const span = box(race.life[0], race.life[1] < 0 ? runs[row.run].end : race.life[1], 2);
  if (lane.kind === 'w' && lane.queue === 'main' && span) {
    ink.fillStyle = colours.exposed;
    ink.fillRect(span[0], top, span[1], 3);
  }
  ink.strokeStyle = colours.exposed;
  for (const [queue, kind, begin, end] of race.uses) {
    const at = queue === lane.queue && kind === lane.kind && box(begin, end, 2);
    if (!at) continue;
    ink.lineWidth = 1;
    ink.strokeRect(at[0] + .5, top + .5, at[1] - 1, row.height - 1);
  }
  race.accesses.forEach((access, i) => {
    const [queue, , what, , writes, begin, end, over] = access, { kind, part, below } = placeOfAccess(row.run, access);
    const at = queue === lane.queue && kind === lane.kind && box(begin, over ? end : axisEnd(), 16);
    if (!at) return;
    const height = row.height * part, y = top + (below ? height : 0);
    ink.fillStyle = over ? colours.exposed : hatch;
    ink.globalAlpha = over ? .35 : 1;
    ink.fillRect(at[0], y, at[1], height);
    ink.globalAlpha = 1;
    ink.lineWidth = 3;
    ink.strokeRect(at[0] + 1.5, y + 1.5, at[1] - 3, height - 3);
    const words = `${i + 1}: ${what.replace(/^an? (.*) started$/, '$1')} ${writes ? 'writes' : 'reads'}${over ? '' : ', not over'}`;
    const size = Math.max(9, Math.min(12, height - 7)), width = words.length * size * .58 + 6;
    const from = Math.min(at[1] > width + 8 ? at[0] + 4 : at[0] + at[1], right - width);
    ink.fillStyle = colours.page;
    ink.fillRect(from, y + height / 2 - size / 2 - 1, width, size + 2);
    ink.fillStyle = colours.text;
    setFont(size, '600 ');
    ink.fillText(words, from + 3, y + height / 2 + .5);
  });
}

/** Rows of lanes; of those that are not drawn the rank's first. */
function placesOf(run) {
  const places = new Map(), ranks = new Map();
  for (const row of rows) {
    if (row.run !== run || row.heading) continue;
    for (const l of row.group || []) ranks.set(l.rank, row);
    if (!row.lane) continue;
    places.set(row.lane.index, row);
    if (row.lane.kind === 'w' && !ranks.has(row.lane.rank)) ranks.set(row.lane.rank, row);
  }
  return lane => places.get(lane) || ranks.get(runs[run].lanes[lane].rank);
}

/** A line with a head, where there is room for one, added to the path. */
function arrow(a, head) {
  ink.moveTo(a.x0, a.y0);
  ink.lineTo(a.x1, a.y1);
  if (!head || Math.hypot(a.x1 - a.x0, a.y1 - a.y0) <= 14) return;
  const angle = Math.atan2(a.y1 - a.y0, a.x1 - a.x0);
  for (const turn of [.45, -.45]) {
    ink.moveTo(a.x1, a.y1);
    ink.lineTo(a.x1 - 8 * Math.cos(angle + turn), a.y1 - 8 * Math.sin(angle + turn));
  }
}

/** Messages in sight; those that are neither in flight nor on the critical path are one path, since each stroke costs. */
function drawArrows(run, scroll) {
  const m = runs[run].messages, place = placesOf(run), height = look.height, names = runs[run].names;
  const first = after(m.begin, look.begin - m.longest - 1), last = after(m.begin, look.end), all = last - first <= kMostArrows;
  if (!all) thinned = `${last - first} messages in sight: zoom in to see them; drawn are those of the critical path and those in flight`;
  const faint = [], lit = [];
  for (let i = first; i < last; ++i) {
    const moving = m.begin[i] <= look.now && look.now <= m.end[i], critical = look.path && m.critical[i];
    if (!all && !critical && !moving || m.end[i] < look.begin) continue;
    const from = place(m.from[i]), to = place(m.to[i]);
    if (!from || !to || (from === to && from.group)) continue;
    const y0 = from.y - scroll + look.axisHeight + from.height / 2, y1 = to.y - scroll + look.axisHeight + to.height / 2;
    if (Math.max(y0, y1) < look.axisHeight || Math.min(y0, y1) > height) continue;
    (moving || critical ? lit : faint).push({ i, run, moving, x0: x(m.begin[i]), x1: x(m.end[i]), y0, y1 });
  }
  ink.strokeStyle = colours.faint;
  ink.globalAlpha = .45;
  ink.lineWidth = 1;
  ink.beginPath();
  for (const a of faint) arrow(a, all);
  ink.stroke();
  ink.globalAlpha = 1;
  arrows = arrows.concat(faint, lit);
  const dense = lit.length > plotWidth() / 8;  // they would hide the blocks behind them
  for (const a of lit) {
    ink.globalAlpha = dense && !a.moving ? .3 : 1;
    ink.lineWidth = dense && !a.moving ? 1 : 2;
    ink.strokeStyle = a.moving ? colours.exposed : colours.path;
    ink.beginPath();
    arrow(a, all);
    ink.stroke();
    if (!a.moving) continue;
    const begin = m.begin[a.i], end = m.end[a.i], part = end > begin ? (look.now - begin) / (end - begin) : 1;
    ink.fillStyle = colours.exposed;
    ink.beginPath();
    ink.arc(a.x0 + part * (a.x1 - a.x0), a.y0 + part * (a.y1 - a.y0), 5, 0, 7);
    ink.fill();
  }
  ink.globalAlpha = 1;
  if (!all || rows.some(row => row.lane && row.lane.kind === 't' && row.height >= 12)) return;  // its lane says it
  setFont(11);
  for (const a of lit) {
    const text = `${names[m.name[a.i]]}, ${bytes(m.bytes[a.i])}`, wide = ink.measureText(text).width;
    if (!a.moving || Math.abs(a.x1 - a.x0) <= wide) continue;
    const cx = (a.x0 + a.x1 - wide) / 2, cy = (a.y0 + a.y1) / 2;
    ink.fillStyle = colours.page;
    ink.fillRect(cx - 2, cy - 7, wide + 4, 13);
    ink.fillStyle = colours.text;
    ink.fillText(text, cx, cy);
  }
}

/** As much of a text as fits. */
function shortened(words, width) {
  if (ink.measureText(words).width <= width) return words;
  let most = words.length;
  while (most > 1 && ink.measureText(words.slice(0, most) + '…').width > width) --most;
  return words.slice(0, most) + '…';
}

/** A frame around what was clicked. */
function drawPicked(scroll) {
  const p = look.picked, l = p && p.event !== undefined && runs[p.run].lanes[p.lane];
  const row = l && rows.find(r => r.run === p.run && r.lane === l);
  if (!row || l.end[p.event] < look.begin || l.begin[p.event] > look.end) return;
  const from = Math.max(look.labelWidth, x(l.begin[p.event])), to = Math.min(look.width - 8, Math.max(x(l.end[p.event]), from + 3));
  ink.strokeStyle = colours.text;
  ink.lineWidth = 2;
  ink.strokeRect(from, row.y - scroll + look.axisHeight, to - from, row.height);
}

function drawLabels(scroll) {
  ink.fillStyle = colours.page;
  ink.fillRect(0, look.axisHeight, look.labelWidth - 2, look.height);
  setFont(12);
  let lowest = -20;
  for (const row of rows) {
    const y = row.y - scroll + look.axisHeight + (row.heading ? 10 : row.height / 2);
    if (y < look.axisHeight - 4 || y > look.height + 10) continue;
    ink.fillStyle = colours.text;
    if (row.heading) {
      const words = shortened(row.heading, look.width - 12);
      ink.fillStyle = colours.page;
      ink.fillRect(4, y - 9, ink.measureText(words).width + 6, 18);
      ink.fillStyle = colours.text;
      ink.fillText(words, 6, y);
      continue;
    }
    if (row.group || row.lane.kind === 'w' && y - lowest > 11) {
      const words = row.words || (row.ghost ? page.ghost ? 'predicted' : 'B' : labelOf(row.lane));
      if (row.ghost) ink.fillStyle = colours.faint;
      setFont(12, row.lane && !row.ghost && row.lane.rank === look.rank ? '700 ' : '');
      ink.fillText(shortened(words, look.labelWidth - 10), 6, y);
      lowest = y;
    }
  }
}

/** The lanes, on whatever `ink` is, which is look.width × look.height. */
function paint() {
  const { width, height, scroll } = look;
  look.font = '';  // a canvas of another size has forgotten its font
  ink.textBaseline = 'middle';
  ink.fillStyle = colours.page;
  ink.fillRect(0, 0, width, height);
  thinned = '';
  arrows = [];
  for (const row of rows) {
    const top = row.y - scroll + look.axisHeight;
    if (top + row.height < look.axisHeight || top > height || row.heading) continue;
    ink.fillStyle = row.group || row.lane.kind === 'w' ? colours.band : colours.page;
    ink.fillRect(look.labelWidth, top, width - look.labelWidth - 8, row.height);
    if (row.group) { drawShares(row.group, row, top); continue; }
    ink.globalAlpha = row.ghost ? .6 : 1;
    drawLane(row, top);
    ink.globalAlpha = 1;
    if (!row.ghost) drawStuck(row, top);
  }
  const inFront = rows.some(row => row.ghost) ? look.shown.slice(0, 1) : look.shown;
  if (look.arrows) for (const run of inFront) drawArrows(run, scroll);
  for (const row of rows) if (row.lane && !row.ghost) drawRace(row, row.y - scroll + look.axisHeight);
  if (look.now < Math.min(look.end, end())) {  // what has not happened yet is pale
    ink.globalAlpha = .5;
    ink.fillStyle = colours.page;
    const from = Math.max(look.labelWidth, x(look.now));
    ink.fillRect(from, look.axisHeight, width - from, height);
    ink.globalAlpha = 1;
  }
  drawPicked(scroll);
  if (look.now >= look.begin && look.now <= look.end) {
    ink.fillStyle = colours.text;
    ink.fillRect(x(look.now) - 1, look.axisHeight - 5, 2, height);
  }
  drawLabels(scroll);
  drawAxis();
  for (const run of inFront) {
    const heading = rows.find(row => row.run === run && row.heading);
    if (runs[run].steps.length > 0) drawSteps(run, heading ? heading.y - scroll + look.axisHeight + 29 : 30);
  }
}

function draw() {
  const scale = window.devicePixelRatio || 1;
  look.width = frame.clientWidth, look.height = frame.clientHeight, look.scroll = frame.scrollTop;
  if (canvas.width !== Math.round(look.width * scale) || canvas.height !== Math.round(look.height * scale)) {
    canvas.width = Math.round(look.width * scale);
    canvas.height = Math.round(look.height * scale);
    canvas.style.height = `${look.height}px`;
  }
  ink.setTransform(scale, 0, 0, scale, 0, 0);
  paint();
}
