'use strict';

// What all views share: their settings, which the address keeps; the guess before the numbers; and the question to the
// C++ core, which alone computes.

const $ = id => document.getElementById(id);
const escaped = text => String(text).replace(/[&<>"]/g, c => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c]);
const views = {}; // by name; each file below adds one
let core, cluster, view, state = {}; // cluster: the second core, which comes later; state: by control, and `show`: whether the numbers are in sight; `guess`

/** Three digits that count: 0.0123, 1.23, 12.3, 123. */
const short = value => {
  if (value === 0) return '0';
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  const text = value.toFixed(Math.min(digits, 6));
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
};
const percent = share => `${(100 * share).toFixed(2)} %`;
const scaled = (value, base, names) => {
  let k = 0;
  while (value >= base && k + 1 < names.length) value /= base, ++k;
  return `${short(value)} ${names[k]}`;
};
const binary = bytes => scaled(bytes, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB']);
const decimal = bytes => scaled(bytes, 1000, ['B', 'kB', 'MB', 'GB', 'TB', 'PB']);
const seconds = value => scaled(value * 1e6, 1000, ['µs', 'ms', 's']);

/** What the C++ core that knows the view answers, in JSON. */
function answered(question) {
  if (!question.startsWith('cluster?')) return core.ccall('playground_answer', 'string', ['string'], [question]);
  cluster.ccall('cluster_run', null, ['string'], [question]); // its fibers leave this call before they are done
  return cluster.ccall('cluster_answer', 'string', [], []);
}

/** The answer to a question, such as ask('pipeline', { p: 4, m: 8, … }). */
function ask(name, fields) {
  const query = Object.entries(fields).map(([key, value]) => `${key}=${encodeURIComponent(value)}`).join('&');
  return JSON.parse(answered(`${name}?${query}`));
}

let planned = {}; // the last answer to a question that takes long, and the fields of that question

/** The view's answer. What takes long (view.asks) is null until the reader wants to see it, and undefined while it is computed. */
function answer() {
  if (!view.asks) return view.answer();
  if (!state.show) return null;
  const of = JSON.stringify(view.asks());
  if (planned.of === of) return planned.answer;
  setTimeout(() => { // after the browser has drawn "computing …"
    if (!view.asks || !state.show || planned.of === of || JSON.stringify(view.asks()) !== of) return;
    planned = { of, answer: ask(view.name, view.asks()) };
    refresh();
    if (document.activeElement === document.body) $('again').focus({ preventScroll: true });
  }, 30);
  return undefined;
}

/** An element's HTML, where it differs: what is typed in stays. */
function put(id, html) {
  if ($(id).dataset.html === html) return;
  $(id).dataset.html = html;
  $(id).innerHTML = html;
}

// A control is {id, label} and one of: {min, max, step}: a slider; {values}: a slider over a list; {options}: a choice of
// [value, text]; {boxes}: any of several, called `names`. `value` is its first one, `words` how it is shown.

const control = id => view.controls().find(c => c.id === id);
const words = c => String(c.words ? c.words(state[c.id]) : state[c.id]);
/** Where a slider over a list stands: at the nearest. */
const place = c => c.values.reduce((best, v, i) => Math.abs(v - state[c.id]) < Math.abs(c.values[best] - state[c.id]) ? i : best, 0);

function controlHtml(c) {
  if (c.boxes)
    return `<fieldset><legend>${c.label}</legend>${c.boxes.map(b => `<label><input type="checkbox" name="${c.id}" value="${b}">${escaped(c.names[b])}</label>`).join('')}</fieldset>`;
  if (c.options)
    return `<label class="choice">${c.label}<select name="${c.id}">${c.options.map(([v, text]) => `<option value="${v}">${escaped(text)}</option>`).join('')}</select></label>`;
  const range = c.values ? `min="0" max="${c.values.length - 1}" step="1"` : `min="${c.min}" max="${c.max}" step="${c.step}"`;
  return `<label>${c.label} <b></b><input type="range" name="${c.id}" ${range}></label>`;
}

function showControls() {
  put('controls', view.controls().map(controlHtml).join(''));
  for (const c of view.controls()) {
    const inputs = [...$('controls').querySelectorAll(`[name="${c.id}"]`)];
    if (c.boxes) {
      for (const input of inputs) input.checked = state[c.id].split(',').includes(input.value);
      continue;
    }
    inputs[0].value = c.values ? place(c) : state[c.id];
    if (c.options) continue;
    inputs[0].previousElementSibling.textContent = words(c);
    inputs[0].setAttribute('aria-valuetext', words(c));
  }
}

function readControls() {
  for (const c of view.controls()) {
    const inputs = [...$('controls').querySelectorAll(`[name="${c.id}"]`)];
    if (c.boxes) state[c.id] = inputs.filter(input => input.checked).map(input => input.value).join(',');
    else if (c.options) state[c.id] = inputs[0].value;
    else if (!c.values) { if (inputs[0].value !== String(clamped(c))) state[c.id] = Number(inputs[0].value); }
    else if (Number(inputs[0].value) !== place(c)) state[c.id] = c.values[inputs[0].value];
  }
}
/** What a slider shows of a number from the address, which may be any. */
function clamped(c) {
  const probe = document.createElement('input');
  Object.assign(probe, { type: 'range', min: c.min, max: c.max, step: c.step, value: state[c.id] });
  return probe.value;
}

// The address: #pipeline?p=4&m=8&show=1.

function readAddress() {
  const [name, query] = location.hash.slice(1).split('?');
  view = views[name] || views.pipeline;
  const given = new URLSearchParams(query || '');
  state = { show: given.get('show') === '1', guess: given.get('guess') || '' };
  for (const c of [...view.controls(), ...(view.more || [])]) {
    const text = given.get(c.id), number = typeof c.value === 'number';
    const fine = text !== null && (!number || (text !== '' && isFinite(text))) && (!c.options || c.options.some(([v]) => String(v) === text));
    state[c.id] = fine ? number ? Number(text) : text : c.value;
  }
}

function writeAddress() {
  const query = [];
  for (const c of [...view.controls(), ...(view.more || [])])
    if (state[c.id] !== c.value) query.push(`${c.id}=${encodeURIComponent(state[c.id])}`);
  if (state.show) query.push('show=1');
  if (state.show && state.guess) query.push(`guess=${encodeURIComponent(state.guess)}`);
  history.replaceState(null, '', `#${view.name}${query.length > 0 ? '?' + query.join('&') : ''}`);
}

// Predict, then compare.

function showGuess(question) {
  $('guess').hidden = state.show;
  $('question').textContent = question.text;
  $('number').hidden = Boolean(question.options || question.none);
  $('compare').hidden = Boolean(question.none);
  $('choice').hidden = !question.options;
  $('unit').textContent = question.unit || '';
  if (question.options) put('option', question.options.map(o => `<option>${escaped(o)}</option>`).join(''));
}

function compared(question) {
  if (question.none) return question.text;
  const is = `It is ${question.words}.`;
  if (!state.guess) return `${question.text} ${is}`;
  const guess = question.options ? state.guess : `${state.guess} ${question.unit}`;
  if (question.options) return `${state.guess === question.value ? 'Right' : 'Not quite'}: you guessed ${guess}. ${is}`;
  const off = Number(state.guess) - question.value, near = Math.abs(off) <= Math.max(0.02 * Math.abs(question.value), question.close || 0);
  return `${near ? 'Right' : off > 0 ? 'Too much' : 'Too little'}: you guessed ${guess}. ${is}`;
}

function refresh() {
  showControls();
  const now = answer(), waits = now === undefined, wrong = now && now.error;
  $('wait').textContent = waits ? 'computing …' : wrong ? `${wrong}` : '';
  $('guess').hidden = $('result').hidden = Boolean(waits || wrong);
  if (!waits && !wrong) {
    const question = view.question(now);
    showGuess(question);
    $('result').hidden = !state.show;
    if (state.show) {
      $('compared').textContent = compared(question);
      $('said').textContent = view.says(now);
      put('figure', view.figure(now));
    }
  }
  if (view.beside) view.beside(now);
  writeAddress();
}

function open() {
  readAddress();
  for (const link of document.querySelectorAll('nav a'))
    link.hash === `#${view.name}` ? link.setAttribute('aria-current', 'page') : link.removeAttribute('aria-current');
  document.title = `Lockstep playground: ${view.title}`;
  $('heading').textContent = view.title;
  $('purpose').textContent = view.purpose;
  $('hint').textContent = '';
  $('value').value = '';
  $('compare').textContent = view.asks ? 'Plan' : 'Compare';
  $('skip').textContent = view.asks ? 'Plan without a guess' : 'Show without a guess';
  put('beside', view.besideHtml || '');
  refresh();
}

function start() {
  $('controls').addEventListener('input', event => {
    readControls();
    if (view.asks) state.show = false, state.guess = ''; // another question: another guess
    if (view.picked) view.picked(event.target.name);
    refresh();
  });
  $('controls').addEventListener('submit', event => event.preventDefault());
  $('guess').addEventListener('submit', event => {
    event.preventDefault();
    const number = $('value').value.trim().replace(',', '.').replace(/\s*%$/, '');
    if ($('choice').hidden && (number === '' || !isFinite(number))) return void ($('hint').textContent = 'A number, please: a rough one will do.');
    state.guess = $('choice').hidden ? number : $('option').value;
    state.show = true;
    $('hint').textContent = '';
    refresh();
    $('again').focus();
  });
  $('skip').addEventListener('click', () => { state.guess = ''; state.show = true; refresh(); $('again').focus(); });
  $('again').addEventListener('click', () => { state.show = false; state.guess = ''; $('value').value = ''; refresh(); $($('compare').hidden ? 'skip' : $('choice').hidden ? 'value' : 'option').focus(); });
  addEventListener('hashchange', open);
  addEventListener('resize', () => { if (state.show) refresh(); });
  open();
}

/** How wide a figure may be. */
const across = () => Math.max(280, Math.min(1160, $('controls').clientWidth || 340));
