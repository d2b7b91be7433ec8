// A virtual cluster: a program on p ranks of the simulator, its verdict and its timeline.

const kVerdicts = ['PASS', 'DEADLOCK', 'RACE', 'MISMATCH', 'UNREAD'];
/** A run with easy numbers, but for what `fields` says. */
const ran = fields => ask('cluster', { alpha: 10, link: 1, add: 10, launch: 0, eager: 8192, ...fields });
/** Small sizes to the byte, since a buffer's last byte decides. */
const sized = bytes => bytes < 65536 ? `${bytes} B` : binary(bytes);
const program = () => data.programs.find(each => each.name === state.program);

views.cluster = {
  name: 'cluster',
  title: 'A virtual cluster: how does this program end?',
  purpose: 'Each of p ranks runs the program below. They are ranks of the suite\'s simulator, here in your browser, which finds deadlocks and races as ./lab check does. A send of more bytes than a buffer holds waits for its receive.',
  controls: () => [
    { id: 'program', label: 'program', options: data.programs.map(each => [each.name, each.title]), value: 'send_first' },
    { id: 'p', label: 'ranks p', min: 2, max: 16, step: 1, value: 4 },
    { id: 'elements', label: 'numbers n', values: [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 100, 1000, 2000, 2048, 2049, 4096, 10000, 100000, 1000000], value: 4096, words: v => `${v} (${sized(4 * v)})` },
    { id: 'eager', label: 'sends wait above', values: [0, 1024, 8192, 65536, 1048576], value: 8192, words: sized },
    { id: 'alpha', label: 'α, of a message', values: tens(-1, 3, 9), value: 10, words: v => `${short(v)} µs` },
    { id: 'link', label: '1/β, of a link', values: tens(-1, 3, 9), value: 1, words: v => `${short(v)} GB/s` },
    { id: 'add', label: '1/γ, of additions', values: tens(0, 4, 9), value: 10, words: v => `${short(v)} GB/s` },
  ],

  answer() {
    if (!cluster) return undefined;
    const { program, p, elements, eager, alpha, link, add } = state;
    return ran({ program, p, elements, eager, alpha, link, add });
  },
  question: answer => ({ text: `${state.p} ranks run "${program().title}" with arrays of ${sized(4 * state.elements)}. How does it end?`, options: kVerdicts, value: answer.verdict, words: answer.verdict === 'PASS' ? `PASS, after ${seconds(answer.seconds)}` : answer.verdict }),
  says(answer) {
    if (answer.verdict !== 'PASS') return '';
    const sent = `The busiest rank sends ${binary(answer.sent)}, and there are ${answer.messages} messages in all.`;
    if (answer.predicted === 0) return sent;
    const off = answer.seconds / answer.predicted - 1;
    return `${sent} The formula of 21.5 predicts ${seconds(answer.predicted)}${Math.abs(off) < 5e-4 ? ', the same' : `, and the run takes ${percent(Math.abs(off))} ${off > 0 ? 'more' : 'less'}: the formula divides the array into equal parts, and lets every message wait for its turn`}.`;
  },
  figure(answer) {
    const left = 58, width = across(), high = 26, bars = answer.ranks.flat(), last = Math.max(answer.seconds, ...bars.map(b => b[2]), 1e-12);
    const stuck = bars.some(b => b[0] === 2), right = stuck ? width * 0.3 : 4, x = t => left + t / last * (width - left - right);
    const rows = answer.ranks.map((row, rank) => `<text x="0" y="${rank * high + 16}">rank ${rank}</text>${row.map(([kind, begin, end, what, where]) => {
      const from = x(begin), to = kind === 2 ? width - 2 : x(end);
      return `<rect class="${['f', 'a', 'idle'][kind]}" x="${from.toFixed(1)}" y="${rank * high + 2}" width="${Math.max(1, to - from - 0.7).toFixed(1)}" height="20"><title>${escaped(`${what}, ${kind === 2 ? 'for ever' : `${seconds(begin)} to ${seconds(end)}`} (${where})`)}</title></rect>`;
    }).join('')}`).join('');
    const ticks = (last > 1e-12 ? [0, 1] : [0]).map(k => `<text x="${x(k * last)}" y="${answer.ranks.length * high + 14}" text-anchor="${k === 0 ? 'start' : 'end'}">${seconds(k * last)}</text>`).join('');
    const box = kind => `<svg width="14" height="12" aria-hidden="true"><rect class="${kind}" width="14" height="12"/></svg>`;
    const timeline = bars.length === 0 ? '' : `<svg width="${width}" height="${answer.ranks.length * high + 20}" viewBox="0 0 ${width} ${answer.ranks.length * high + 20}" role="img" aria-label="a row for each rank, with its messages and additions over time${stuck ? ', and where it waits forever' : ''}">${rows}${ticks}</svg>
      <p class="note"><span class="keyed">${box('a')} messages</span><span class="keyed">${box('f')} additions</span>${stuck ? `<span class="keyed">${box('idle')} waits forever</span>` : ''} With a mouse, a bar says its line.</p>`;
    return `${answer.message ? `<pre class="message">${escaped(answer.message)}</pre>` : ''}${timeline}`;
  },

  besideHtml: '<h2>The program</h2><p class="note" id="program_note"></p><pre id="program_text" tabindex="0"></pre>',
  beside() {
    const { line, text } = program();
    $('program_note').textContent = 'Every rank runs it. mine and theirs are two arrays of the size you chose; next(me) and previous(me) are its neighbours in a circle. A message names the lines by these numbers.';
    put('program_text', escaped(text.trim().split('\n').map((each, i) => `${String(line + i).padStart(3)}  ${each}`).join('\n')));
  },
};
