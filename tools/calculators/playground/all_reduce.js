// All-reduces: where their costs cross, and who holds what after each step.

const kPlayed = { ring: 'ring', 'recursive doubling': 'doubling', Rabenseifner: 'rabenseifner' }; // as the cluster calls them
const plays = {}; // those that have run
const played = (name, p) => plays[`${name} ${p}`] ||= ran({ program: kPlayed[name], p, elements: p }).steps;
const kColumns = ['naive', 'ring', 'recursive doubling', 'Rabenseifner'];
const tens = (from, to, per) => Array.from({ length: per * (to - from) + 1 }, (_, k) => Number((10 ** (from + k / per)).toPrecision(2)));
const counts = n => Array.from({ length: n }, (_, k) => k);

views.all_reduce = {
  name: 'all_reduce',
  title: 'All-reduce: which algorithm, for how many bytes?',
  purpose: 'A message of n bytes takes α + nβ seconds, and adding n bytes γn. Small arrays pay for steps, large ones for bytes.',
  controls: () => [
    { id: 'on', label: 'links of', options: [['', 'your choice'], ...data.links.map(l => [l.name, l.name])], value: '' },
    { id: 'p', label: 'ranks p', min: 2, max: 64, step: 1, value: 8 },
    { id: 'alpha', label: 'α, of a message', values: tens(-1, 3, 9), value: 10, words: v => `${short(v)} µs` },
    { id: 'link', label: '1/β, of a link', values: tens(-1, 3, 9), value: 10, words: v => `${short(v)} GB/s` },
    { id: 'add', label: '1/γ, of additions', values: tens(0, 4, 9), value: 1000, words: v => `${short(v)} GB/s` },
    { id: 'launch', label: 'launch of an addition', min: 0, max: 20, step: 0.5, value: 0, words: v => `${v} µs` },
    { id: 'n', label: 'bytes n of the array', values: counts(25).map(k => 1024 * 2 ** k), value: 1048576, words: binary },
  ],
  /** A machine's numbers take their places; a slider that is moved leaves it. */
  picked(name) {
    const link = data.links.find(l => l.name === state.on);
    if (name !== 'on' && name !== 'n') state.on = '';
    else if (link) for (const [key, value] of Object.entries(link)) if (key !== 'name') state[key] = value;
  },
  more: [{ id: 'play', value: 'ring' }, { id: 'step', value: 0 }],

  answer() {
    const { p, alpha, link, add, launch, n } = state;
    return ask('all_reduce', { p, alpha, link, add, launch, n });
  },
  question(answer) {
    const best = answer.algorithms.reduce((a, b) => b.at < a.at ? b : a);
    return { text: `Which all-reduce of ${binary(state.n)} among ${state.p} ranks is the fastest?`, options: kColumns, value: best.name, words: `${best.name}: ${seconds(best.at)}` };
  },
  says(answer) {
    const parts = answer.wins.map(([k, from], i) => `${answer.algorithms[k].name}${i > 0 ? ` from ${binary(from)} on` : ''}`);
    return `The fastest is ${parts.join(', then ')}. ${state.p & (state.p - 1) ? 'p is no power of two: recursive doubling and Rabenseifner first fold spare ranks in, which costs two more messages of the whole array.' : 'p is a power of two: Rabenseifner sends as few bytes as the ring, in fewer steps.'}`;
  },
  figure(answer) {
    const width = across(), height = 300, left = 58, right = 10, top = 8, bottom = 40, sizes = answer.sizes;
    const all = answer.algorithms.flatMap(a => a.seconds), low = Math.log10(Math.min(...all)), high = Math.log10(Math.max(...all));
    const x = n => left + Math.log2(n / sizes[0]) / Math.log2(sizes[sizes.length - 1] / sizes[0]) * (width - left - right);
    const y = s => top + (high - Math.log10(s)) / (high - low) * (height - top - bottom);
    let out = '';
    const each = width < 600 ? 6 : 3;
    for (let k = 0; k <= 24; k += each) out += `<line class="grid" x1="${x(1024 * 2 ** k)}" x2="${x(1024 * 2 ** k)}" y1="${top}" y2="${height - bottom}"/><text x="${x(1024 * 2 ** k)}" y="${height - bottom + 16}" text-anchor="${k === 24 ? 'end' : 'middle'}">${binary(1024 * 2 ** k)}</text>`;
    for (let k = Math.ceil(low); k <= high; ++k) out += `<line class="grid" x1="${left}" x2="${width - right}" y1="${y(10 ** k)}" y2="${y(10 ** k)}"/><text x="${left - 5}" y="${y(10 ** k) + 4}" text-anchor="end">${seconds(10 ** k)}</text>`;
    answer.algorithms.forEach((a, k) => { out += `<polyline class="curve k${k}" points="${sizes.map((n, i) => `${x(n).toFixed(1)},${y(a.seconds[i]).toFixed(1)}`).join(' ')}"><title>${a.name}</title></polyline>`; });
    answer.wins.forEach(([k, from], i) => {
      const to = i + 1 < answer.wins.length ? answer.wins[i + 1][1] : sizes[sizes.length - 1], x0 = x(from), x1 = x(to), name = answer.algorithms[k].name;
      out += `<rect class="best" x="${x0}" y="${height - 20}" width="${Math.max(0, x1 - x0 - 1)}" height="19"/>${x1 - x0 > 7 * name.length ? `<text x="${(x0 + x1) / 2}" y="${height - 6}" text-anchor="middle">${name}</text>` : ''}`;
    });
    out += `<text x="0" y="${height - 6}">fastest</text><line class="limit" x1="${x(state.n)}" x2="${x(state.n)}" y1="${top}" y2="${height - bottom}"/>`;
    const rows = answer.algorithms.map((a, k) => `<tr class="${a.name === this.question(answer).value ? 'asked' : ''}"><th scope="row"><svg width="34" height="10" style="display: inline" aria-hidden="true"><path class="curve k${k}" d="M0 5H34"/></svg> ${a.name}</th><td class="n" data-at="${a.name}">${seconds(a.at)}</td><td class="n">${short(a.algbw / 1e9)} GB/s</td><td class="n">${short(a.busbw / 1e9)} GB/s</td></tr>`).join('');
    return `<svg width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-label="time of four all-reduces over the bytes of the array, both axes logarithmic; the sentence above says where they cross, the table below what they take at the dashed line">${out}</svg>
      <table><tr><th scope="col">at ${binary(state.n)} (dashed line)</th><th scope="col" class="n">takes</th><th scope="col" class="n">algbw</th><th scope="col" class="n">busbw</th></tr>${rows}</table>
      <p class="note">algbw: the array's bytes divided by the time. busbw: 2(p − 1)/p times that, for the bytes that each rank has to send at least. Compare it with the link's.</p>`;
  },

  besideHtml: `<h2>Step by step</h2>
    <p>Each rank has begun with its own values. 0+1 is the sum of what ranks 0 and 1 began with. How many steps does it take until every rank holds every sum? Guess, then move the slider.</p>
    <p><label>algorithm <select id="play"><option>ring</option><option>recursive doubling</option><option>Rabenseifner</option></select></label>
    <label>ranks <select id="ranks">${counts(7).map(k => `<option>${k + 2}</option>`).join('')}</select></label></p>
    <p><label><span id="at"></span> <input id="step" type="range" min="0" step="1"></label></p>
    <div id="held" style="overflow-x: auto" tabindex="0" role="region" aria-label="who holds what"></div>`,
  beside() {
    const select = $('play');
    if (!select.dataset.ready) {
      select.dataset.ready = 'yes';
      select.value = state.play;
      $('ranks').value = Math.max(2, Math.min(8, state.p));
      const anew = () => { state.play = select.value; state.step = 0; refresh(); };
      select.addEventListener('change', anew);
      $('ranks').addEventListener('change', anew);
      $('step').addEventListener('input', () => { state.step = Number($('step').value); refresh(); });
    }
    if (!cluster) return;
    const p = Number($('ranks').value), steps = played(state.play, p), last = steps.length - 1;
    const now = Math.min(state.step, last), complete = counts(p).join('+');
    $('step').max = last;
    $('step').value = now;
    const full = steps[now].every(row => row.every(sum => sum === complete));
    $('at').textContent = now === 0 ? 'at the beginning' : `after step ${now}${full ? ': every rank holds every sum' : ''}`;
    $('step').setAttribute('aria-valuetext', $('at').textContent);
    const rows = steps[now].map((row, rank) => `<tr><th scope="row">rank ${rank}</th>${row.map((sum, c) => `<td class="${sum === complete ? 'full' : ''} ${now > 0 && steps[now - 1][rank][c] !== sum ? 'new' : ''}">${sum === complete ? 'all' : sum}</td>`).join('')}</tr>`).join('');
    put('held', `<table class="holds"><tr><th scope="row">chunk</th>${counts(p).map(c => `<th scope="col">${c}</th>`).join('')}</tr>${rows}</table><p class="note">A thick border: new in this step. Filled: the sum of all ranks.</p>`);
  },
};
