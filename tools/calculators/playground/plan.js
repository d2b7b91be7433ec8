// The best layouts of a small cluster, by the planner.

/** A step's parts, as the core lists them, and how each is drawn. */
const kParts = [['compute', 'k0'], ['recomputation', 'b'], ['tensor parallelism', 'k3'], ['bubble', 'idle'], ['pipeline hops', 'k1'], ['data parallelism', 'best'], ['optimizer', 'k4']];
const kHeld = [['parameters', 'k0'], ['gradients', 'k1'], ['optimizer state', 'k2'], ['activations and buffers', 'k3']];
/** The class of a number on a colour. */
const inkOn = kind => ['idle', 'best', 'k1', 'k4'].includes(kind) ? 'plain' : kind === 'k3' ? 't3' : '';
const meshOf = l => `dp ${l.dp} · tp ${l.tp} · pp ${l.pp}`;

/** Shares side by side, each with its number where there is room; what is beyond `most` is cut, with ▸. */
function stacked(shares, kinds, most, high, unit, says) {
  let at = 0, out = '';
  shares.forEach((share, k) => {
    const x = Math.min(at, most) * unit, end = Math.min(at + share, most) * unit;
    at += share;
    if (end > x) out += `<rect class="${kinds[k][1]}" x="${x.toFixed(1)}" y="0" width="${Math.max(0.5, end - x - 0.7).toFixed(1)}" height="${high}"><title>${kinds[k][0]}: ${says(share)}</title></rect>`;
    if (end - x > 16) out += `<text class="on ${inkOn(kinds[k][1])}" x="${((x + end) / 2).toFixed(1)}" y="${high - 4}" text-anchor="middle">${k + 1}</text>`;
  });
  return out + (at > most ? `<text x="${(most * unit + 1).toFixed(1)}" y="${high - 4}">▸</text>` : '');
}
const partsKey = (title, kinds) => `<p>${title}: ${kinds.map(([name, kind], k) => `<span class="keyed"><svg width="20" height="14" aria-hidden="true"><rect class="${kind}" width="20" height="14"/><text class="on ${inkOn(kind)}" x="10" y="11" text-anchor="middle">${k + 1}</text></svg> ${name}</span>`).join(' ')}</p>`;

views.plan = {
  name: 'plan',
  title: 'How to divide training over a cluster',
  purpose: 'Data, tensor and pipeline parallelism (dp · tp · pp), ZeRO, microbatches, recomputation: which layouts fit, which is the fastest, and what does each lose its time to?',
  controls: () => [
    { id: 'model', label: 'model', options: data.planned.map(name => data.models.find(m => m.name === name)).map(m => [m.name, `${m.name}, ${scaled(m.parameters, 1000, ['', 'k', 'M', 'B', 'T'])} parameters`]), value: 'gpt3-13b' },
    { id: 'machine', label: 'nodes and network', options: data.machines.map(c => [c.file, c.name]), value: 'dgx-a100-hdr' },
    { id: 'gpus', label: 'GPUs', values: powers(32), value: 16 },
    { id: 'batch', label: 'sequences per step', values: powers(256), value: 64 },
    { id: 'zero', label: 'ZeRO', options: [['any', 'the fastest that fits'], ...[0, 1, 2, 3].map(s => [s, `stage ${s}`])], value: 'any' },
    { id: 'again', label: 'recomputation', options: [['any', 'where it is faster'], [0, 'none'], [1, 'of every block']], value: 'any' },
    { id: 'of', label: 'question', options: [['fastest', 'the fastest layout'], ['stage', 'ZeRO stage for dp alone'], ['loss', 'the largest loss']], value: 'fastest' },
  ],
  asks() {
    const { model, machine, gpus, batch, zero, again } = state;
    return { model, machine, gpus, batch, zero, again };
  },
  /** All that there are, for a guess. */
  meshes() {
    const all = [], gpus = Math.min(state.gpus, 32);
    for (let pp = 1; pp <= gpus; pp *= 2)
      for (let tp = 1; tp * pp <= gpus; tp *= 2)
        if (gpus % (tp * pp) === 0) all.push({ dp: gpus / tp / pp, tp, pp });
    return all;
  },
  fitting: answer => answer.layouts.filter(l => l.fits),
  where: () => `${state.model} on ${state.gpus} ${state.gpus === 1 ? 'GPU' : 'GPUs'}, ${state.batch} ${state.batch === 1 ? 'sequence' : 'sequences'} per step`,
  /** Without `answer` before it is computed: what is asked, and what there is to choose from. */
  question(answer) {
    const [best] = answer ? this.fitting(answer) : [];
    if (state.of === 'stage') {
      const value = !answer || answer.first_stage < 0 ? 'none of them' : `stage ${answer.first_stage}`;
      return { text: `${this.where()}: from which ZeRO stage on does data parallelism alone fit (dp ${state.gpus})?`, options: [0, 1, 2, 3].map(s => `stage ${s}`).concat('none of them'), value, words: value };
    }
    if (state.of === 'loss') {
      const value = best ? best.to : 'none: nothing fits';
      return { text: `${this.where()}: what does the fastest layout lose most of its time to?`, options: kParts.slice(1).map(([name]) => name).concat('none: nothing fits'), value, words: best ? `${value}, ${percent(best.lost)} of the step` : value };
    }
    const value = best ? meshOf(best) : 'none: nothing fits';
    return { text: `${this.where()}: which layout takes the least time for a step, of those that fit?`, options: this.meshes().map(meshOf).concat('none: nothing fits'), value, words: best ? `${value}, ${seconds(best.seconds)} per step` : value };
  },
  says(answer) {
    const fits = this.fitting(answer), [best] = fits, valid = answer.layouts.filter(l => l.seconds), limit = gigabytes(answer.limit);
    if (!best) return valid.length > 0 ? `Nothing fits: the smallest, ${valid[0].words}, needs ${gigabytes(valid[0].bytes)} of ${limit} GB. More GPUs, recomputation or a higher ZeRO stage would have to help.` : 'No layout is valid here; below is why.';
    const last = fits[fits.length - 1];
    return `${fits.length} of ${valid.length} ${valid.length === 1 ? 'layout' : 'layouts'} ${fits.length === 1 ? 'fits' : 'fit'} in ${limit} GB.${last === best ? '' : ` ${meshOf(last)} takes ${short(last.seconds / best.seconds)} times as long as the fastest.`} The fastest is ${best.words}: ${percent(best.parts[0] / best.seconds)} of its step is compute, and its largest loss, ${percent(best.lost)}, is ${best.loss}.`;
  },
  /** Two rows: numbers; then the strategy in words, its bars, and what limits it. */
  layoutHtml(l, place, most, limit) {
    const width = across() - 34, high = 16, unit = (width - 12) / most, full = (width - 12) / Math.max(2 * limit, 1);
    const name = place === '' ? '<td rowspan="2"></td>' : `<th scope="rowgroup" rowspan="2" class="n">${place}</th>`, mesh = `<td class="n">${l.dp}</td><td class="n">${l.tp}</td><td class="n">${l.pp}</td>`;
    if (!l.seconds) return `<tbody><tr>${name}${mesh}<td class="n" colspan="3">not valid</td></tr><tr><td colspan="6" class="why">${escaped(l.refused)}.</td></tr></tbody>`;
    const time = l.fits ? `<svg width="${width}" height="${high}" viewBox="0 0 ${width} ${high}" role="img" aria-label="where a step's time goes: ${l.parts.map((s, k) => `${kParts[k][0]} ${seconds(s)}`).join(', ')}">${stacked(l.parts, kParts, most, high, unit, seconds)}</svg>` : '';
    const held = `<svg width="${width}" height="${high}" viewBox="0 0 ${width} ${high}" role="img" aria-label="memory: ${l.memory.map((b, k) => `${kHeld[k][0]} ${gigabytes(b)} GB`).join(', ')}, of ${gigabytes(limit)} GB">${stacked(l.memory, kHeld, 2 * limit, high, full, b => `${gigabytes(b)} GB`)}<line class="limit" x1="${(limit * full).toFixed(1)}" x2="${(limit * full).toFixed(1)}" y1="0" y2="${high}"/></svg>`;
    const why = l.fits ? `Loses ${percent(l.lost)} to ${escaped(l.loss)}.` : `Does not fit: ${escaped(l.refused)}.`;
    return `<tbody data-mesh="${l.dp},${l.tp},${l.pp}"><tr>${name}${mesh}<td class="n">${l.fits ? seconds(l.seconds) : '–'}</td><td class="n">${l.fits ? scaled(l.tokens_per_second, 1000, ['', 'k', 'M']) : '–'}</td><td class="n ${l.fits ? '' : 'bad'}">${gigabytes(l.bytes)}</td></tr>
      <tr><td colspan="6" class="why">${escaped(l.words.replace(/^.*(?=microbatch)/, ''))}${time}${held}${why}</td></tr></tbody>`;
  },
  figure(answer) {
    const fits = this.fitting(answer), large = answer.layouts.filter(l => l.seconds && !l.fits), invalid = answer.layouts.filter(l => !l.seconds);
    const most = fits.length > 0 ? Math.min(fits[fits.length - 1].seconds, 4 * fits[0].seconds) : 1;
    const table = (layouts, first) => `<table class="layouts"><thead><tr><th scope="col"><span class="unseen">place</span></th><th scope="col" class="n">dp</th><th scope="col" class="n">tp</th><th scope="col" class="n">pp</th><th scope="col" class="n">step</th><th scope="col" class="n">tokens/s</th><th scope="col" class="n">GB of ${gigabytes(answer.limit)}</th></tr></thead>${layouts.map((l, i) => this.layoutHtml(l, first ? first + i : '', most, answer.limit)).join('')}</table>`;
    const more = (one, several, layouts, first) => layouts.length > 0 ? `<details><summary>${layouts.length} ${layouts.length === 1 ? one : several}</summary>${table(layouts, first)}</details>` : '';
    const shown = 6;
    return `${partsKey('Time', kParts)}${partsKey('Memory, with the limit dashed', kHeld)}${fits.length > 0 ? table(fits.slice(0, shown), 1) : ''}
      ${more('more that fits', 'more that fit', fits.slice(shown), shown + 1)}${more('that does not fit', 'that do not fit', large, 0)}${more('that is not valid', 'that are not valid', invalid, 0)}
      <p class="note">Each row is the best that the planner finds for its dp · tp · pp. It adds up dry runs of the model's layers and the formulas of 25.3 and 25.6, as <code>./lab plan --fast</code> does. Left out is what only the simulator finds: messages that wait for each other where links are shared, which on Ethernet can multiply a step's time. All of a GPU's memory counts, and sequences are as long as the model's context.</p>`;
  },
};
