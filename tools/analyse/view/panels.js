// The tables and pictures below the lanes.
'use strict';

const $ = id => document.getElementById(id);
const escaped = text => String(text).replace(/[&<>"]/g, c => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c]);

function show(id, html) {
  const section = $(id);
  section.innerHTML = html;
  section.hidden = html === '';
}

const box = background => `<span class="key" style="background: ${background}"></span>`;
const swatch = name => box(name === 'bubble' ? 'repeating-linear-gradient(135deg, var(--bubble) 0 1px, transparent 1px 4px)' : `var(--${name})`);

/** What the colours of the lanes mean, at the lanes. */
const kKey = [['computing', 'arithmetic'], ['computing-back', 'backward'], ['exposed', 'waits for messages'], ['bubble', 'waits for others'], ['transfer', 'messages in flight'],
  ['collective', 'a collective'], ['phase', 'a phase'], ['path', 'critical path']];
/** Of the colours that are in the lanes. */
function keyParts() {
  const types = new Set(), back = new Set();
  let critical = false;
  for (const r of look.shown)
    for (const l of runs[r].lanes)
      for (let i = 0; i < l.count; ++i) {
        types.add(kinds[l.type[i]]);
        if (backOf[l.type[i]] && runs[r].goesBack[l.name[i]]) back.add(backOf[l.type[i]]);
        critical = critical || l.critical[i] === 1;
      }
  const stuck = look.shown.some(r => runs[r].stuck.length > 0);
  return kKey.filter(([name]) => types.has(name) || back.has(name) || name === 'path' && critical)
    .concat(stuck ? [['bubble', 'stuck; framed: in the cycle']] : [], look.shown.some(r => runs[r].race) ? [['exposed', 'the two accesses, framed']] : []);
}
const key = () => { $('key').innerHTML = keyParts().map(([name, words]) => `<span>${swatch(name)}${words}</span>`).join(' '); };

/** The largest shares of the ranks' time, in a sentence: of the steps, where there are some. */
function leadOf(run) {
  const all = run.steps.length > 0 ? run.steps_share : run.legend.all, words = ['arithmetic', 'waiting for messages', 'waiting for late ranks', 'idle or on the host'];
  if (run.stopped || all[1] <= 0) return '';
  const parts = words.map((word, i) => [Math.round(100 * all[i + 2] / all[1]), word]).filter(([share]) => share > 0).sort((a, b) => b[0] - a[0]);
  const what = run.steps.length === 0 ? 'this run' : run.steps.length === 1 ? 'the step' : `steps 1 to ${run.steps.length}`;
  return parts.map(([share, word], i) => i === 0 ? `${share} % of ${what} is ${word}` : `${share} % ${word}`).join(', ') + '.';
}

/** The lines of code around a place, and its own between them; nothing where the page has none. */
function codeAt(run, where, what) {
  if (!run.sources[where]) return '';
  const [path, line] = run.sources[where], near = run.lines[path].filter(([n]) => Math.abs(n - line) <= 4);
  const text = near.map(([n, words]) => `<span${n === line ? ' class="at"' : ''}><i>${n}</i>${escaped(words) || ' '}</span>`).join('');
  return `<p>${what}<b>${escaped(path)}:${line}</b></p><pre class="code" data-line="${line}">${text}</pre>`;
}

/** What was clicked: in words, and the code behind it. */
function picked() {
  const p = look.picked;
  if (!p) return show('picked', '');
  const run = runs[p.run], place = (where, what) => codeAt(run, where, what) || (where && `<p class="note">${what}${escaped(where)}</p>`);
  const [head, ...more] = wordsOf({ picked: p }, false).split('\n');
  const html = `<h2>${escaped(head)}</h2><p>${escaped(more.join('; '))}</p>`;
  if (p.message === undefined) return show('picked', html + place(run.names[run.lanes[p.lane].where[p.event]], 'at '));
  const m = run.messages, sent = run.lanes[m.from[p.message]], received = run.lanes[m.to[p.message]];
  show('picked', html + place(run.names[sent.where[m.sent[p.message]]], `sent by rank ${sent.rank} at `)
    + place(run.names[received.where[m.received[p.message]]], `received by rank ${received.rank} at `));
}

/** Sums over the ranks, as C++ added them up, beside what the ledgers say. */
function legend() {
  const shown = look.shown.map(r => runs[r]), parts = [
    ['computing', 'arithmetic of main', 2], ['exposed', 'main waits, its messages are in flight: exposed communication', 3],
    ['bubble', 'main waits, nothing of its own happens: others are late (bubble)', 4], ['page', 'the rest: the host, and ranks that are done', 5]];
  $('legend').className = shown.length > 1 ? 'wide' : '';
  const has = run => run.steps.length > 0, which = (run, i) => shown.length > 1 ? 'AB'[i] + (has(run) ? ':' : '') : `${run.recorded < run.ranks ? 'recorded' : 'all'} ranks${has(run) ? ',' : ''}`;
  const head = shown.map((run, i) => (has(run) ? `<th class="n" colspan="2">${which(run, i)} ${run.steps.length === 1 ? 'step 1' : `steps 1 to ${run.steps.length}`}</th>` : '')
    + `<th class="n${has(run) ? ' whole' : ''}" colspan="2">${has(run) ? `${shown.length > 1 ? 'AB'[i] + ': ' : ''}the whole run` : which(run, i)}</th>`).join('');
  const row = ([colour, words, at]) => `<tr data-part="${colour}"><td>${swatch(colour)}${words}</td>` + shown.map(run =>
    (has(run) ? `<td class="n">${time(run.steps_share[at])}</td><td class="n">${percent(run.steps_share[at], run.steps_share[1])}</td>` : '')
    + `<td class="n${has(run) ? ' whole' : ''}" data-ns="${run.legend.all[at]}">${time(run.legend.all[at])}</td><td class="n${has(run) ? ' whole' : ''}">${percent(run.legend.all[at], run.legend.all[1])}</td>`).join('') + '</tr>';
  let html = `<h2>Where the time goes</h2><table><tr><th></th>${head}</tr>${parts.map(row).join('')}</table>`;
  shown.forEach((run, i) => {
    const which = shown.length > 1 ? `${'AB'[i]}: ` : '';
    if (run.path) html += `<p class="note">${which}Critical path: ${escaped(run.path)}.</p>`;
  });
  show('legend', html + shown.map(ledger).join(''));
}

function ledger(run, i) {
  if (run.ledger.length === 0) return run.no_ledger && `<p class="note">${look.shown.length > 1 ? 'AB'[i] + ': ' : ''}${escaped(run.no_ledger)}</p>`;
  const sum = at => run.ledger.reduce((total, row) => total + row[at], 0);
  const says = run.agrees ? '<span class="good" data-agrees="true">The sums above are those of the ledgers.</span>'
    : '<span class="bad" data-agrees="false">The sums above are not those of the ledgers: the trace lacks something.</span>';
  const rows = run.ledger.slice(0, 64).map(row => `<tr><td class="n">${row[0]}</td><td class="n">${time(row[2])}</td><td class="n">${time(row[3])}</td><td class="n">${time(row[4])}</td><td class="n">${row[5]}</td><td class="n">${bytes(row[6])}</td></tr>`).join('');
  return `<h2>Ledgers${look.shown.length > 1 ? ' of ' + 'AB'[i] : ''}</h2><p>${says}</p><div class="scroll"><table data-ledger="${i}">
    <tr><th class="n">rank</th><th class="n">main busy</th><th class="n">main waits</th><th class="n">others busy</th><th class="n">sent</th><th class="n">bytes</th></tr>${rows}
    <tr data-sums="${sum(2)} ${sum(3)} ${sum(4)} ${sum(5)} ${sum(6)}"><th class="n">${run.ledger.length > 64 ? `all ${run.ledger.length}` : 'all'}</th><td class="n">${time(sum(2))}</td><td class="n">${time(sum(3))}</td><td class="n">${time(sum(4))}</td><td class="n">${sum(5)}</td><td class="n">${bytes(sum(6))}</td></tr></table></div>`;
}

function why() {
  show('why', look.shown.map((r, i) => {
    const w = runs[r].why, title = `<h2>What limits it${look.shown.length > 1 ? ': ' + 'AB'[i] : ''}</h2>`;
    if (!w.sentence && runs[r].stopped) return '';  // the verdict says more
    if (!w.sentence) return `${title}<p class="note">${escaped(w.none)}</p>`;
    const gains = w.gains.map(([cost, ns, gained]) => `<tr><td>${cost}</td><td class="n">${time(ns)}</td><td class="n">${(Math.round(1000 * gained) / 10 || 0).toFixed(1)} %</td></tr>`).join('');
    const path = w.path.slice(0, 10).map(([name, transfer, ns, visits]) => `<tr><td>${escaped(name)}${transfer ? ' (messages)' : ''}</td><td class="n">${time(ns)}</td><td class="n">${visits}</td></tr>`).join('');
    return `${title}<p>${escaped(w.sentence)}</p><table><tr><th>without</th><th class="n">a step</th><th class="n">gained</th></tr>${gains}</table>
      <table><tr><th>on the critical path</th><th class="n">a step</th><th class="n">visits</th></tr>${path}</table>`;
  }).join(''));
}

function links() {
  show('links', look.shown.map((r, i) => {
    const l = runs[r].links;
    if (!l) return '';
    const rows = l.most.map(([from, to, count, size]) => `<tr><td class="n">${from} → ${to}</td><td class="n">${count}</td><td class="n">${bytes(size)}</td></tr>`).join('');
    return `<h2>Bytes from rank to rank${look.shown.length > 1 ? ': ' + 'AB'[i] : ''}</h2><p data-sent="${l.messages} ${l.bytes}">${l.messages} messages, ${bytes(l.bytes)}, between ${l.all} pairs${l.most.length < l.all ? `; the ${l.most.length} with the most bytes:` : ''}</p>
      <div class="scroll"><table><tr><th class="n">from → to</th><th class="n">messages</th><th class="n">bytes</th></tr>${rows}</table></div>`;
  }).join(''));
}

function diff() {
  if (look.shown.length < 2 || !page.diff) return show('diff', '');
  if (page.diff.none) return show('diff', `<h2>A and B</h2><p class="note">${escaped(page.diff.none)}</p>`);
  const words = ['arithmetic', 'waiting', 'transfers', 'region'];
  const rows = page.diff.rows.map(([kind, name, a, b]) => `<tr><td>${words[kind]}</td><td>${escaped(name)}</td><td class="n">${time(a)}</td><td class="n">${time(b)}</td><td class="n">${b > a ? '+' : ''}${time(b - a)}</td></tr>`).join('');
  show('diff', `<h2>A and B, operation by operation</h2><p>${page.diff.steps > 0 ? `A step takes ${time(page.diff.seconds[0])} in A and ${time(page.diff.seconds[1])} in B (${page.diff.steps === 1 ? 'step 1' : `the mean of steps 1 to ${page.diff.steps}`}).` : `A takes ${time(page.diff.seconds[0])}, B ${time(page.diff.seconds[1])}.`}</p><div class="scroll"><table>
    <tr><th></th><th></th><th class="n">A</th><th class="n">B</th><th class="n">B − A</th></tr>${rows}</table></div>`);
}

/** Which rank holds which partial sum at the instant that is played. */
function holdings() {
  const run = runs[look.shown[0]], h = run.holdings;
  if (look.shown.length > 1 || !h) return show('holdings', '');
  if (h.none && (run.steps.length > 0 || run.stopped)) return show('holdings', '');
  if (h.none) return show('holdings', `<h2>Who holds what</h2><p class="note">Not followed: ${escaped(h.none)}.</p>`);
  let step = 0;
  while (step + 1 < h.steps.length && Math.max(...h.times[step + 1]) <= look.now) ++step;
  if (look.now >= run.end) step = h.steps.length - 1;
  if ($('holdings').dataset.step === `${look.shown[0]} ${step}`) return;
  $('holdings').dataset.step = `${look.shown[0]} ${step}`;
  const chunks = h.steps[0][0].length, head = Array.from({ length: chunks }, (_, c) => `<th>chunk ${c}</th>`).join('');
  const cell = (held, rank, c) => {
    const changed = step > 0 && h.steps[step - 1][rank][c][0] !== held[0];
    return `<td class="${held[1] === 1 ? 'full' : held[1] === 2 ? 'twice' : ''} ${changed ? 'new' : ''}">${escaped(held[0]) || '–'}${held[1] === 2 ? '<br>twice' : ''}</td>`;
  };
  const rows = h.steps[step].map((row, rank) => `<tr><th>rank ${rank}</th>${row.map((held, c) => cell(held, rank, c)).join('')}</tr>`).join('');
  const sent = h.messages.filter(m => m[0] === step).map(([, from, to, name, size]) => `<tr><td class="n">${from} → ${to}</td><td>${escaped(name)}</td><td class="n">${bytes(size)}</td></tr>`).join('');
  show('holdings', `<h2>Who holds what ${step === 0 ? 'at the beginning' : `after step ${step} of ${h.steps.length - 1}`}</h2>
    <p class="note">0+1: the sum of what ranks 0 and 1 began with. Green: all ranks, each once. A thick border: new in this step. Steps are a rank's batches of messages; ← and → lead to the next ones.</p>
    <table class="holds"><tr><th></th>${head}</tr>${rows}</table>${sent && `<table><tr><th class="n">sent in this step</th><th></th><th></th></tr>${sent}</table>`}`);
}

/** The wait graph of a deadlock; its cycle stands out. */
function stuck() {
  const run = runs[look.shown[0]];
  if (look.shown.length > 1 || run.stuck.length === 0) return show('stuck', '');
  const chain = run.stuck.filter(s => s[4] >= 0).sort((a, b) => a[4] - b[4]), others = run.stuck.filter(s => s[4] < 0);
  const drawn = chain.concat(others).slice(0, 24), radius = 60 + 8 * drawn.length, size = 2 * radius + 120;
  const at = i => [size / 2 + radius * Math.sin(2 * Math.PI * i / drawn.length), size / 2 - radius * Math.cos(2 * Math.PI * i / drawn.length)];
  const find = (rank, queue) => drawn.findIndex(s => s[0] === rank && s[1] === queue);
  let edges = '', nodes = '';
  drawn.forEach((s, i) => {
    const [x0, y0] = at(i), to = find(s[2], s[3]), lit = s[4] >= 0 && to >= 0 && drawn[to][4] >= 0;
    nodes += `<circle cx="${x0}" cy="${y0}" r="20" fill="var(--band)" stroke="${s[4] >= 0 ? 'var(--exposed)' : 'var(--line)'}" stroke-width="${s[4] >= 0 ? 3 : 1}"/><text x="${x0}" y="${y0 + 4}" text-anchor="middle">${s[0]}</text>${s[1] === 'main' ? '' : `<text x="${x0}" y="${y0 + 34}" text-anchor="middle">${escaped(s[1])}</text>`}`;
    if (to < 0 || to === i) return;
    const [x1, y1] = at(to), far = Math.hypot(x1 - x0, y1 - y0), ux = (x1 - x0) / far, uy = (y1 - y0) / far, bend = 12;
    edges += `<path d="M${x0 + 21 * ux} ${y0 + 21 * uy} Q${(x0 + x1) / 2 - bend * uy} ${(y0 + y1) / 2 + bend * ux} ${x1 - 26 * ux} ${y1 - 26 * uy}" fill="none" stroke="${lit ? 'var(--exposed)' : 'var(--faint)'}" stroke-width="${lit ? 3 : 1}" marker-end="url(#head)" data-lit="${lit}"/>`;
  });
  const rows = drawn.map(s => `<tr><td>rank ${s[0]}${s[1] === 'main' ? '' : ' ' + escaped(s[1])}</td><td>${escaped(s[6])}</td><td>${escaped(s[5])}</td></tr>`).join('');
  show('stuck', `<h2>Who waits for whom</h2><p class="note">${chain.length > 0 ? 'Thick: the cycle, or the chain that ends at a rank that is gone.' : ''}${run.stuck.length > drawn.length ? ` ${drawn.length} of ${run.stuck.length} are drawn.` : ''}</p>
    <svg viewBox="0 0 ${size} ${size}" style="max-width: ${Math.min(size, 460)}px" role="img" aria-label="wait graph"><defs><marker id="head" viewBox="0 0 8 8" refX="4" refY="4" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z" fill="context-stroke"/></marker></defs>${edges}${nodes}</svg>
    <table><tr><th>who</th><th>waits because it</th><th>at</th></tr>${rows}</table>${[...new Set(drawn.map(s => s[5]))].slice(0, 3).map(where => codeAt(run, where, '')).join('')}`);
}

/** The two accesses of a race: what stands in its lanes, in words. */
function race() {
  const run = runs[look.shown[0]], r = run.race;
  if (look.shown.length > 1 || !r) return show('race', '');
  const rows = r.accesses.map(([queue, , what, where, writes, begin, end, over], i) => `<tr data-access="${i + 1}"><th>${i + 1}</th><td>${escaped(what)} ${writes ? 'writes' : 'reads'}</td><td>rank ${r.rank} ${escaped(queue)}</td><td>${escaped(where)}</td><td class="n">${time(begin)}${over && end === begin ? '' : over ? ` to ${time(end)}` : ' and not over'}</td></tr>`).join('');
  const life = r.life[1] < 0 ? `from ${time(r.life[0])} to the end` : `from ${time(r.life[0])} to ${time(r.life[1])}`;
  show('race', `<h2>Two accesses that nothing orders</h2><table><tr><th></th><th>what</th><th>who</th><th>at</th><th class="n">when</th></tr>${rows}</table>
    <p>Both use bytes ${r.offset} to ${r.offset + r.bytes} of memory for ${escaped(r.category)}, allocated at ${escaped(r.allocated)}; it lives ${life}: the line along the top of the rank's lane. Thin frames: what else used it.</p>${r.accesses.map(([, , , where], i) => codeAt(run, where, `${i + 1}: `)).join('')}`);
}

/** Live bytes by category, of the rank that holds most, over time. */
function memory() {
  const run = runs[look.shown[0]];
  if (look.shown.length > 1) return show('memory', '');
  if (run.memory.length === 0) return show('memory', run.no_memory ? `<h2>Memory over time</h2><p class="note">${escaped(run.no_memory)}</p>` : '');
  const colour = { parameters: 'computing', gradients: 'exposed', optimizer: 'good', activations: 'transfer', buffers: 'bubble' };
  const names = Object.keys(colour), width = 460, height = 60;
  const lines = run.memory.map(([rank, changes]) => {
    const live = Object.fromEntries(names.map(name => [name, 0])), points = [[run.begin, { ...live }]];
    let peak = 0;
    for (const [at, name, change] of changes) {
      live[name] += change;
      peak = Math.max(peak, names.reduce((sum, n) => sum + live[n], 0));
      points.push([at, { ...live }]);
    }
    points.push([run.end, { ...live }]);
    return { rank, points, peak };
  });
  const most = Math.max(1, ...lines.map(l => l.peak)), span = Math.max(1, run.end - run.begin), place = t => (t - run.begin) / span * width;
  const area = (points, n) => {
    const below = p => names.slice(0, n).reduce((sum, name) => sum + p[1][name], 0), y = v => height - v / most * (height - 4);
    let up = '', down = '';
    points.forEach((p, i) => {
      const from = place(p[0]), to = place(i + 1 < points.length ? points[i + 1][0] : run.end);
      up += `L${from.toFixed(1)} ${y(below(p) + p[1][names[n]]).toFixed(1)}L${to.toFixed(1)} ${y(below(p) + p[1][names[n]]).toFixed(1)}`;
      down = `L${to.toFixed(1)} ${y(below(p)).toFixed(1)}L${from.toFixed(1)} ${y(below(p)).toFixed(1)}` + down;
    });
    return `<path d="M0 ${height}${up}${down}z" fill="var(--${colour[names[n]]})"/>`;
  };
  const charts = lines.slice(0, 4).map(l => `<p>rank ${l.rank}: ${bytes(l.peak)} at its peak</p><svg viewBox="0 0 ${width} ${height}" style="max-width: ${width}px" role="img" aria-label="memory of rank ${l.rank}" data-peak="${l.peak}">${names.map((_, n) => area(l.points, n)).join('')}</svg>`).join('');
  show('memory', `<h2>Memory over time</h2><p>${names.map(name => `<span>${box(`var(--${colour[name]})`)}${name}</span>`).join(' ')}</p>${charts}${lines.length > 4 ? `<p class="note">The first 4 of ${lines.length} ranks.</p>` : ''}`);
}

/** What is not to be seen of a run, before anything else is believed. */
function leftOut() {
  $('shown').innerHTML = look.shown.flatMap((r, i) => {
    const run = runs[r], which = look.shown.length > 1 ? `${'AB'[i]}: ` : '';
    return [run.recorded < run.ranks ? `<span data-thinned="ranks">${which}Events of ${run.recorded} of ${run.ranks} ranks were recorded, and are what is added up; the ledgers are of all.</span>` : '',
      run.drawn < run.recorded ? `<span data-thinned="lanes">${which}Every event of ${run.drawn} of ${run.recorded} ranks is drawn, of the others their shares of time; sums are of all.</span>` : ''];
  }).filter(Boolean).join(' ');
}

function panels() {
  const shown = look.shown.map(r => runs[r]), both = shown.length > 1;
  document.title = shown.map(run => run.title).join(' and ');
  $('title').textContent = document.title;
  const lines = (words, one) => one.map((run, i) => words(run) && (both ? `${'AB'[i]}: ` : '') + words(run)).filter(Boolean).join('\n');
  $('about').textContent = lines(run => run.about, shown);
  $('lead').textContent = lines(leadOf, shown);
  leftOut();
  key();
  const said = run => run.stopped && run.stuck.length > 0 ? run.stopped : run.stopped + run.message.slice(run.message.split('\n')[0].length);  // a table says the rest
  const failed = shown.filter(run => run.verdict && run.verdict !== 'PASS');
  $('verdict').innerHTML = failed.map(run => run.stopped ? `stopped ${escaped(said(run)).replace(run.verdict, '<b>$&</b>')}` : `<b>${escaped(run.verdict)}</b> ${escaped(run.message)}`).join('\n');
  delete $('holdings').dataset.step;
  for (const panel of [picked, legend, stuck, race, holdings, diff, why, memory, links]) panel();
}
