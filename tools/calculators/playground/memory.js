// GPU memory by ZeRO stage, beside a GPU's.

const kRecipes = [['bf16', '16 bits and an fp32 copy'], ['f32', 'fp32'], ['bf16-only', '16 bits, no fp32 copy'], ['fp32-grads', '16 bits, gradients in fp32'], ['megatron', 'Megatron-LM, bf16'], ['deepspeed', 'DeepSpeed'], ['fsdp2', 'PyTorch fully_shard'], ['nanotron', 'nanotron']];
const powers = most => Array.from({ length: Math.log2(most) + 1 }, (_, k) => 2 ** k);
/** "120", "52.5", "1.88" GB, as `./lab memory` prints. */
const gigabytes = bytes => { const v = bytes / 1e9; return v >= 100 ? v.toFixed(0) : v.toFixed(v >= 10 ? 1 : v >= 1 ? 2 : 3); };

views.memory = {
  name: 'memory',
  title: 'Memory of a GPU in training',
  purpose: 'Parameters, gradients, optimizer state and activations: what does each GPU hold, and what does each ZeRO stage divide by the number of GPUs?',
  controls: () => [
    { id: 'model', label: 'model', options: data.models.map(m => [m.name, `${m.name}, ${scaled(m.parameters, 1000, ['', 'k', 'M', 'B', 'T'])} parameters`]), value: 'gpt3-13b' },
    { id: 'recipe', label: 'recipe', options: kRecipes, value: 'bf16' },
    { id: 'p', label: 'GPUs that share the state, p', values: powers(4096), value: 8 },
    { id: 'gpu', label: 'GPU', options: data.gpus.map(g => [g.name, `${g.name}: ${gigabytes(g.bytes)} GB`]), value: 'A100, 80 GB' },
    { id: 'b', label: 'sequences per GPU', values: [0, ...powers(64)], value: 0 },
    { id: 's', label: 'tokens per sequence', values: powers(131072).slice(6), value: 2048 },
    { id: 'keep', label: 'activations', options: [['kept', 'all kept'], ['recomputed', 'recomputed in the backward']], value: 'kept' },
    { id: 'of', label: 'the question is about', options: [0, 1, 2, 3].map(s => [s, `stage ${s}`]), value: '2' },
  ],
  gpu: () => data.gpus.find(g => g.name === state.gpu),
  answer() {
    const model = data.models.find(m => m.name === state.model), { p, b, s, recipe } = state;
    return ask('memory', { parameters: model.parameters, largest: model.largest, token_bytes: model[state.keep], p, b, s, recipe, gpu: this.gpu().bytes });
  },
  question(answer) {
    const stage = answer.stages.find(s => s.stage === Number(state.of)) || answer.stages[answer.stages.length - 1];
    return { text: `${state.model} on ${state.p} GPUs, ZeRO stage ${stage.stage}: how much does each hold?`, unit: 'GB', value: stage.total / 1e9, words: `${gigabytes(stage.total)} GB, which ${stage.fits ? 'fits' : 'does not fit'} on the ${this.gpu().name}` };
  },
  says(answer) {
    const fits = answer.stages.find(s => s.fits), first = answer.stages[0], last = answer.stages[answer.stages.length - 1];
    const where = fits ? `From stage ${fits.stage} on it fits on the ${this.gpu().name}` : `No stage fits on the ${this.gpu().name}: more GPUs, fewer tokens, recomputation or another parallelism would have to help`;
    const ratio = first === last ? '' : ` Stage ${last.stage} holds ${short(first.total / last.total)} times less than stage ${first.stage} on ${state.p} GPUs${answer.stages[0].bytes[answer.stages[0].bytes.length - 1] > 0 ? ' (no stage divides activations)' : ''}.`;
    const none = state.b === 0 ? ' With 0 sequences per GPU there are no activations: move that slider to add them.' : '';
    return `${where}.${ratio} ${answer.source}.${none}`;
  },
  figure(answer) {
    const gpu = this.gpu(), most = Math.min(Math.max(...answer.stages.map(s => s.total), gpu.bytes) * 1.02, 6 * gpu.bytes);
    const left = 56, right = 70, width = across(), unit = (width - left - right) / most, high = 30;
    let out = '', totals = ''; // above the line of the GPU's memory
    answer.stages.forEach((stage, row) => {
      const y = row * (high + 8) + 20;
      let at = 0;
      out += `<text x="0" y="${y + 20}">stage ${stage.stage}</text>`;
      stage.bytes.forEach((bytes, k) => {
        const x = left + Math.min(at, most) * unit, end = left + Math.min(at + bytes, most) * unit;
        if (end > x) out += `<rect class="k${k % 6}" x="${x.toFixed(1)}" y="${y}" width="${Math.max(0.5, end - x - 1).toFixed(1)}" height="${high}"><title>${answer.kinds[k]}: ${gigabytes(bytes)} GB</title></rect>${end - x > 16 ? `<text class="on t${k % 6}" x="${((x + end) / 2).toFixed(1)}" y="${y + 19}" text-anchor="middle">${k + 1}</text>` : ''}`;
        at += bytes;
      });
      totals += `<text class="over" x="${(left + Math.min(at, most) * unit + 4).toFixed(1)}" y="${y + 20}">${at > most ? '▸ ' : ''}${gigabytes(stage.total)} GB</text>`;
    });
    const bottom = answer.stages.length * (high + 8) + 20, x = left + gpu.bytes * unit;
    out += `<line class="limit" x1="${x}" x2="${x}" y1="14" y2="${bottom}"/><text x="${x}" y="11" text-anchor="middle">${escaped(gpu.name)}</text>${totals}`;
    const head = answer.stages.map(s => `<th scope="col" class="n">stage ${s.stage}</th>`).join('');
    const rows = answer.kinds.map((kind, k) => `<tr><th scope="row"><svg width="20" height="14" style="display: inline; vertical-align: -2px" aria-hidden="true"><rect class="k${k % 6}" width="20" height="14"/><text class="on t${k % 6}" x="10" y="11" text-anchor="middle">${k + 1}</text></svg> ${escaped(kind)}</th>${answer.stages.map(s => `<td class="n">${gigabytes(s.bytes[k])}</td>`).join('')}</tr>`).join('');
    return `<svg width="${width}" height="${bottom}" viewBox="0 0 ${width} ${bottom}" role="img" aria-label="a bar for each ZeRO stage beside the memory of the GPU; the table says the same in numbers">${out}</svg>
      <table><tr><th scope="col">GB on each GPU</th>${head}</tr>${rows}<tr><th scope="row">together</th>${answer.stages.map(s => `<td class="n" data-stage="${s.stage}"><b>${gigabytes(s.total)}</b></td>`).join('')}</tr><tr><th scope="row">fits</th>${answer.stages.map(s => `<td class="n">${s.fits ? 'yes' : 'no'}</td>`).join('')}</tr></table>
      <p class="note">Not included: units that stage 3 gathers, gradients being reduced, and the head's logits. <code>./lab memory</code> has the same formulas for any number of parameters.</p>`;
  },
};
