// Buckets: gradients averaged during the backward pass.

views.overlap = {
  name: 'overlap',
  title: 'Buckets: communication behind the backward pass',
  purpose: 'p replicas average their gradients in k buckets, each as soon as it is ready. How much of the communication does the step still wait for?',
  controls: () => [
    { id: 'k', label: 'buckets k', values: powers(1024), value: 8 },
    { id: 'p', label: 'ranks p', min: 2, max: 64, step: 1, value: 4 },
    { id: 'n', label: 'bytes n of all gradients', values: powers(2 ** 34).slice(16), value: 2 ** 30, words: binary },
    { id: 'f', label: 'forward', min: 0, max: 200, step: 1, value: 40, words: v => `${v} ms` },
    { id: 'b', label: 'backward', min: 1, max: 400, step: 1, value: 80, words: v => `${v} ms` },
    { id: 'alpha', label: 'α, of a message', values: tens(-1, 4, 9), value: 20, words: v => `${short(v)} µs` },
    { id: 'link', label: '1/β, of a link', values: tens(-1, 3, 9), value: 25, words: v => `${short(v)} GB/s` },
    { id: 'add', label: '1/γ, of additions', values: tens(0, 4, 9), value: 1000, words: v => `${short(v)} GB/s` },
  ],
  answer() {
    const { k, p, n, f, b, alpha, link, add } = state;
    return ask('overlap', { k, p, n, f, b, alpha, link, add, launch: 0 });
  },
  question: answer => ({ text: `The averages take ${seconds(answer.communication)} in ${state.k} bucket${state.k === 1 ? '' : 's'}. How much is exposed?`, unit: 'ms', value: 1e3 * answer.exposed, close: 0.5, words: `${seconds(answer.exposed)}, and the step takes ${seconds(answer.step)} instead of ${seconds(answer.sequential)}` }),
  says(answer) {
    const one = answer.communication / state.k, limited = answer.exposed > one * 1.0001;
    const best = answer.by_count.reduce((a, b) => b[1] < a[1] * (1 - 1e-9) ? b : a);
    return `${limited ? 'The link decides: buckets queue for it' : 'The link keeps up, so only the last bucket is exposed: nothing is left to hide it behind'}. Of these numbers of buckets ${best[0]} is the best: ${seconds(best[1])}. Fewer have a larger last one, more pay α more often.`;
  },
  figure(answer) {
    const left = 82, width = across(), longest = Math.max(answer.sequential, answer.step), unit = (width - left - 4) / longest, forward = state.f / 1e3;
    const bar = (kind, begin, end, y, name) => end > begin ? `<rect class="${kind}" x="${(left + begin * unit).toFixed(1)}" y="${y}" width="${Math.max(0.5, (end - begin) * unit - 0.7).toFixed(1)}" height="22"><title>${name}: ${seconds(begin)} to ${seconds(end)}</title></rect>${(end - begin) * unit > 7 * name.length ? `<text class="on ${kind === 'a' ? 't3' : ''}" x="${(left + (begin + end) / 2 * unit).toFixed(1)}" y="${y + 15}" text-anchor="middle">${name}</text>` : ''}` : '';
    const main = y => bar('f', 0, forward, y, 'forward') + bar('b', forward, answer.compute, y, 'backward');
    const end = left + answer.compute * unit;
    const rows = answer.by_count.map(([k, s]) => `<tr class="${k === state.k ? 'asked' : ''}"><td class="n">${k}</td><td class="n">${seconds(s)}</td><td class="n">${seconds(Math.max(0, s - answer.compute))}</td></tr>`).join('');
    return `<svg width="${width}" height="138" viewBox="0 0 ${width} 138" role="img" aria-label="the step on one time axis, with its averages during and after the backward pass; the table says the same in numbers">
      <text x="0" y="15">overlapped</text>${main(0)}${answer.buckets.map(([, begin, stop], i) => bar('a', begin, stop, 25, String(i + 1))).join('')}<text x="0" y="41">averages</text>
      <text x="0" y="91">one by one</text>${main(76)}${answer.buckets.map(([, begin, stop], i) => bar('a', answer.compute + i * (stop - begin), answer.compute + (i + 1) * (stop - begin), 101, String(i + 1))).join('')}
      <text x="0" y="117">averages</text><line class="limit" x1="${end}" x2="${end}" y1="0" y2="126"/><text x="${end > width - 160 ? end - 6 : end + 6}" y="66" text-anchor="${end > width - 160 ? 'end' : 'start'}">end of the backward pass </text></svg>
      <table><tr><th scope="col" class="n">buckets</th><th scope="col" class="n">step</th><th scope="col" class="n">exposed</th></tr>${rows}</table>
      <p class="note">By the ring's formula (21.5), with equal buckets and a backward pass that messages do not slow down.</p>`;
  },
};
