// Pipelines: every schedule at one scale, and one of your own.

const kNames = { naive: 'naive', gpipe: 'GPipe', '1f1b': '1F1B', interleaved: 'interleaved 1F1B', 'zb-h1': 'ZB-H1', 'zb-h2': 'ZB-H2', 'zb-v': 'ZB-V', dualpipev: 'DualPipeV' };
const kKind = { F: 'f', B: 'b', I: 'i', W: 'w' };

/** A row for each stage; `longest` is the time that the whole width stands for. */
function timeline(name, s, longest) {
  const left = 22, height = s.stages > 8 ? 14 : 20, unit = (across() - left - 2) / longest;
  let out = '';
  s.steps.forEach((steps, stage) => {
    const y = stage * (height + 2);
    out += `<text x="0" y="${y + height - 5}">${stage}</text><rect class="idle" x="${left}" y="${y}" width="${(s.makespan * unit).toFixed(1)}" height="${height}"/>`;
    for (const [step, begin, end] of steps) {
      const x = left + begin * unit, width = (end - begin) * unit, kind = kKind[step[0]], room = width > 7 * step.length + 2;
      if (end > begin) out += `<rect class="${kind}" x="${x.toFixed(1)}" y="${y}" width="${Math.max(0.5, width - 0.7).toFixed(1)}" height="${height}"><title>${step}: ${short(begin)} to ${short(end)}</title></rect>`;
      if (room) out += `<text class="on ${kind === 'w' || kind === 'i' ? 'plain' : ''}" x="${(x + width / 2).toFixed(1)}" y="${y + height - 5}" text-anchor="middle">${step}</text>`;
    }
  });
  const high = s.stages * (height + 2);
  return `<svg width="${across()}" height="${high}" viewBox="0 0 ${across()} ${high}" role="img" aria-label="${name}: the steps of ${s.stages} stages over time; the table says the same in numbers">${out}</svg>`;
}

const kLegend = [['f', 'F forward'], ['b', 'B whole backward: I and W'], ['i', 'I gradient of the input'], ['w', 'W gradients of the weights'], ['idle', 'idle']];
/** Of the kinds of steps that are drawn. */
function stepKey(drawn) {
  const has = new Set(['idle', ...drawn.flatMap(s => s.steps.flatMap(steps => steps.map(([step]) => kKind[step[0]])))]);
  return `<p>${kLegend.filter(([kind]) => has.has(kind)).map(([kind, text]) => `<span style="white-space: nowrap; margin-right: .9rem"><svg width="22" height="13" style="display: inline; vertical-align: -2px" aria-hidden="true"><rect class="${kind}" x=".5" y=".5" width="21" height="12"/></svg> ${text}</span>`).join(' ')}</p>`;
}

/** Each in a sentence. */
const kWhat = {
  naive: 'One microbatch at a time goes through all stages and back.',
  gpipe: 'All forwards, then all backwards, so every stage holds all microbatches.',
  '1f1b': 'Stage s does p − s forwards, then a backward and a forward in turn: a microbatch is released before another comes.',
  interleaved: 'The model goes around the stages v times, in chunks. Microbatches go through the chunks in groups of p, so p must divide m.',
  'zb-h1': '1F1B with a split backward: the stage before waits only for I, and W fills gaps. No stage holds more than the fullest of 1F1B.',
  'zb-h2': 'As ZB-H1, but stage 0 does up to 2p − 1 whole forwards before its first backward. That is the memory that it needs more. It pays where hops or unequal times would make a stage wait; the slanted start and end count as bubble here.',
  'zb-v': 'Two chunks per stage, placed in a V: stage 0 has the first and the last. It also does up to 2p − 1 forwards ahead, but of half a stage each, and a chunk 1 is released at once.',
  dualpipev: 'The same placement in another order: each steady forward is paired with a whole backward of the other chunk. DeepSeek runs a pair as one step, to hide experts\' messages; here it is two steps, one after the other.',
};

const kSplit = ', whose W steps, which no other stage waits for, fill gaps';
/** What makes a schedule the shortest. */
const kWhy = { interleaved: ', whose short chunks reach the last stage sooner', 'zb-h1': kSplit, 'zb-h2': kSplit, 'zb-v': kSplit, dualpipev: kSplit };

/** Why there is no such schedule. */
const lacksWhy = s => s.error.replace(/^interleaving: /, '') + (s.name === 'interleaved' && state.m % state.p ? ', and they go through its chunks in groups of p' : '');

/** Of chunks of 1/v of a stage each. */
const inStages = s => Math.max(...s.peak) / s.chunks;

views.pipeline = {
  name: 'pipeline',
  title: 'Pipeline schedules',
  purpose: 'p stages work on m microbatches. How long do they wait for each other, and how many microbatches does a stage hold? Times are of a whole stage, in any unit; papers also write B for the time of I.',
  controls: () => [
    { id: 'p', label: 'stages p', min: 2, max: 16, step: 1, value: 4 },
    { id: 'm', label: 'microbatches m', min: 1, max: 64, step: 1, value: 8 },
    { id: 'v', label: 'chunks per stage v (interleaved)', min: 1, max: 4, step: 1, value: 2 },
    { id: 'f', label: 'time of F, forward', min: 0.1, max: 4, step: 0.1, value: 1 },
    { id: 'b', label: 'time of I, gradient of the input', min: 0, max: 4, step: 0.1, value: 1 },
    { id: 'w', label: 'time of W, gradients of the weights', min: 0, max: 4, step: 0.1, value: 1 },
    { id: 'hop', label: 'time of a hop between stages', min: 0, max: 4, step: 0.05, value: 0 },
    { id: 'of', label: 'the question is about', options: Object.entries(kNames), value: '1f1b' },
    { id: 'shown', label: 'drawn', boxes: Object.keys(kNames), names: kNames, value: 'gpipe,1f1b,interleaved,zb-h1,zb-v' },
  ],
  more: [{ id: 'text', value: 'F0 F1 B0 F2 B1 B2\nF0 B0 F1 B1 F2 B2' }, { id: 'limit', value: 0 }],

  answer() {
    const { p, m, v, f, b, w, hop } = state;
    const answer = ask('pipeline', { p, m, v, f, b, w, hop }), never = (answer.schedules || []).find(s => s.name === 'naive' && s.error);
    return never ? { error: never.error } : answer; // what no schedule can be of
  },
  of: answer => answer.schedules.find(s => s.name === state.of),
  question(answer) {
    const s = this.of(answer), text = `${kNames[state.of]}, ${state.p} stages, ${state.m} microbatches: which share of the time is bubble?`;
    return s.error ? { text: `${kNames[s.name]} has no schedule here: ${lacksWhy(s)}.`, none: true } : { text, unit: '%', value: 100 * s.of_total, close: 0.5, words: `${percent(s.of_total)}, and a stage holds up to ${short(inStages(s))} microbatches` };
  },
  says(answer) {
    const by = Object.fromEntries(answer.schedules.map(s => [s.name, s])), fine = answer.schedules.filter(s => !s.error);
    const best = fine.reduce((a, b) => b.makespan < a.makespan - 1e-9 ? b : a), same = Math.abs(by.gpipe.makespan - by['1f1b'].makespan) < 1e-9;
    const order = same
      ? `GPipe and 1F1B wait equally long, since both fill the pipeline once and drain it once. ${inStages(by.gpipe) === inStages(by['1f1b']) ? `With so few microbatches both hold up to ${inStages(by.gpipe)}.` : `But a stage of GPipe holds up to ${inStages(by.gpipe)} microbatches, and one of 1F1B ${inStages(by['1f1b'])}.`}`
      : `GPipe takes ${short(by.gpipe.makespan)} and 1F1B ${short(by['1f1b'].makespan)}: ${state.hop > 0 ? '1F1B waits for a round trip of hops again after every p microbatches' : 'their order differs'}.`;
    const chunked = by.interleaved.error || by.interleaved.chunks < 2 ? '' : ` Interleaved, with chunks of 1/${by.interleaved.chunks} of a stage, has ${percent(by.interleaved.of_total)} bubble instead of 1F1B's ${percent(by['1f1b'].of_total)}, holds up to ${short(inStages(by.interleaved))} microbatches, and passes ${by.interleaved.chunks * state.p - 1} boundaries instead of ${state.p - 1}.${by.interleaved.makespan > by['1f1b'].makespan + 1e-9 ? ' It takes longer than 1F1B here: the step of a chunk is too short to hide a hop.' : ''}`;
    return `${order}${chunked} The shortest here is ${kNames[best.name]}${kWhy[best.name] || ''}: ${short(best.makespan)}, with ${percent(best.of_total)} bubble and up to ${short(inStages(best))} microbatches held.`;
  },
  figure(answer) {
    const rows = answer.schedules.map(s => `<tr class="${s.name === state.of ? 'asked' : ''}"><th scope="row">${kNames[s.name]}</th>${s.error ? `<td colspan="5">${escaped(lacksWhy(s))}</td>` : `<td class="n" data-of="${s.name}">${(100 * s.of_total).toFixed(2)}</td><td class="n">${(100 * s.of_ideal).toFixed(2)}</td><td class="n">${short(s.makespan)}</td><td class="n">${short(s.least)}</td><td class="n" data-peak="${s.name}">${short(inStages(s))}</td>`}</tr>`).join('');
    const shown = state.shown.split(','), drawn = answer.schedules.filter(s => !s.error && shown.includes(s.name)), longest = Math.max(...drawn.map(s => s.makespan));
    return `<table><tr><th scope="col">schedule</th><th scope="col" class="n">bubble, % of the total</th><th scope="col" class="n">% of the ideal</th><th scope="col" class="n">make&shy;span</th><th scope="col" class="n">at least</th><th scope="col" class="n">held at most</th></tr>${rows}</table>
      <p class="note">Bubble: the time that stages wait. The total is the makespan, from the first step to the last; the ideal is m · (F + I + W), so 25 % of the ideal means 1.25 times as long as a perfect division among p stages. One GPU alone would take p times the ideal. “At least”: no schedule of this shape is shorter. “Held at most”: microbatches on a stage between F and the end of their backward; a chunk counts 1/v. Stages are equal here; in a model the first also has the embedding, and the last the head and its logits.</p>
      ${drawn.length > 0 ? stepKey(drawn) : ''}${drawn.map(s => `<h3>${kNames[s.name]}</h3><p class="note">Held by stage: ${s.peak.map(n => short(n / s.chunks)).join(', ')}. ${kWhat[s.name]}</p>${timeline(kNames[s.name], s, longest)}`).join('')}`;
  },

  /** What the limit costs any schedule. */
  ofLimit(own) {
    const { f, b, w, hop } = state, free = ask('schedule', { f, b, w, hop, limit: 0, text: state.text }).least, room = `With room for ${state.limit}`;
    return own.least > free + 1e-9 ? ` ${room}, round trips decide, not work: a microbatch keeps its place from F to the end of its backward. Without a limit: at least ${short(free)}.` : ` ${room}, the bound is as without a limit.`;
  },

  besideHtml: `<h2>Your own schedule</h2>
    <p>One line per stage. F0 is microbatch 0's forward, B0 its whole backward; I0 and W0 are the two halves. F0.1 is chunk 1's. Times are those of the sliders.</p>
    <p><label>begin with <select id="from"><option value="">…</option>${Object.entries(kNames).map(([v, text]) => `<option value="${v}">${text}</option>`).join('')}</select></label>
    <label>most microbatches in flight (0: no limit) <input id="limit" type="number" min="0" max="1000" style="width: 5em"></label></p>
    <p><label for="text">steps</label><textarea id="text" rows="6" spellcheck="false" autocapitalize="characters"></textarea></p>
    <p id="verdict_of_own" class="verdict" role="status"></p>
    <div id="own" tabindex="0" role="region" aria-label="your schedule, drawn"></div>`,
  beside() {
    const text = $('text'), limit = $('limit');
    if (!text.dataset.ready) {
      text.dataset.ready = 'yes';
      text.value = state.text;
      limit.value = state.limit;
      const changed = () => {
        state.text = text.value;
        state.limit = Math.max(0, Math.floor(Number(limit.value) || 0));
        refresh();
      };
      text.addEventListener('input', changed);
      limit.addEventListener('input', changed);
      $('from').addEventListener('change', () => {
        const s = (this.answer().schedules || []).find(each => each.name === $('from').value);
        if (!s || s.error) return;
        text.value = (s.name === 'zb-v' || s.name === 'dualpipev' ? 'placement v\n' : '') + s.steps.map(steps => steps.map(([step]) => step).join(' ')).join('\n');
        text.rows = Math.min(18, s.stages + 2);
        changed();
      });
    }
    const { f, b, w, hop } = state, own = ask('schedule', { f, b, w, hop, limit: state.limit, text: state.text });
    $('verdict_of_own').className = `verdict ${own.error ? 'wrong' : 'right'}`;
    $('verdict_of_own').textContent = own.error ? `✗ ${own.error}` : `✓ It can run: ${percent(own.of_total)} bubble, makespan ${short(own.makespan)} (at least ${short(own.least)}), held at most ${short(inStages(own))}.${state.limit > 0 ? this.ofLimit(own) : ''}`;
    put('own', own.error ? '' : stepKey([own]) + timeline('your schedule', own, own.makespan));
  },
};
