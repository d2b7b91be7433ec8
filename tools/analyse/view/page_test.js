// node page_test.js PAGE.html CHECKS…: runs a page's script with a made-up document, and checks what it makes of its
// data. Drawing is tested in browser_test.sh.
'use strict';

const fs = require('fs'), vm = require('vm');
const html = fs.readFileSync(process.argv[2], 'utf8');
const between = (begin, end) => html.slice(html.indexOf(begin) + begin.length, html.indexOf(end, html.indexOf(begin)));
const data = between('<script type="application/json" id="data">', '</script>'), script = between('<script>', '</script>');

/** Takes whatever is done to it. */
const anything = known => new Proxy(known, { get: (of, name) => (name in of ? of[name] : () => undefined) });
const elements = {};
const element = id => elements[id] ||= anything({ id, style: {}, dataset: {}, clientWidth: 900, clientHeight: 400, scrollTop: 0, innerHTML: '', textContent: id === 'data' ? data : '',
  getContext: () => anything({ measureText: words => ({ width: 6 * words.length }) }), getAttribute: () => null });
const sandbox = { document: { getElementById: element, createElement: element, documentElement: {}, addEventListener() {} }, performance, getComputedStyle: () => ({ getPropertyValue: () => '#000' }),
  location: { hash: '' }, history: { replaceState() {} }, setTimeout() {}, URLSearchParams,
  matchMedia: () => ({ addEventListener() {} }), requestAnimationFrame() {}, addEventListener() {}, devicePixelRatio: 1, innerHeight: 900, innerWidth: 1200 };
sandbox.window = sandbox;
const page = vm.runInNewContext(`${script};({ runs, look, draw, refresh, toggle, tick, actions, axisBegin, end, endOfSteps })`, sandbox);

let failed = 0;
const say = (fine, what) => {
  console.log(`${fine ? 'ok' : 'FAIL'} ${what}`);
  if (!fine) failed = 1;
};
const checks = {
  /** It opens at the steps, which begin at 0; set-up and sample are beside them. */
  steps() {
    const run = page.runs[0], last = run.steps[run.steps.length - 1][1];
    say(run.steps.length === 3 && run.steps[0][0] === 0, `3 steps from 0: ${JSON.stringify(run.steps)}`);
    say(run.begin < 0 && run.end > last, `set-up from ${run.begin}, and a sample until ${run.end}`);
    say(page.look.begin === 0 && page.look.end >= last && page.look.end < 1.1 * last, `in sight: ${page.look.begin} to ${page.look.end}`);
    say(page.look.now === 0, 'it opens where the steps begin');
    say(/steps 1 to 3/.test(element('legend').innerHTML), 'the legend has sums of the steps');
    const [, seconds, computing, exposed, bubble, other] = run.steps_share;
    say(Math.abs(seconds - computing - exposed - bubble - other) < 1e3 && seconds <= 2.1 * last, `of 2 ranks: ${run.steps_share}`);
    page.actions['0']();
    say(page.look.begin === run.begin && page.look.end >= run.end, '0 shows the whole run');
    page.actions.Home();
    page.toggle(true);
    page.tick(0), page.tick(1e6);
    say(page.look.now === last, 'it plays to the end of the steps');
  },
  together() {
    say(/A step takes .* in A and .* in B \(the mean of steps 1 to 3\)/.test(element('diff').innerHTML), 'steps are compared with steps');
    say(page.look.end <= 1.05 * Math.max(...page.runs.map(run => run.steps[2][1])), 'both open at their steps');
  },
  /** The profiler knows of no ledger, message or allocation: the page shows no empty tables of them. */
  pytorch() {
    say(/Where the time goes/.test(element('legend').innerHTML), 'the legend has its sums');
    say(!/ledger/i.test(element('legend').innerHTML), 'and nothing about ledgers');
    for (const id of ['links', 'memory']) say(element(id).innerHTML === '', `nothing in ${id}: ${element(id).innerHTML}`);
  },
  narrow() {
    for (const width of [90, 118, 119, 130]) {
      for (const id of ['lanes', 'frame']) element(id).clientWidth = width;
      page.refresh();
      say(true, `${width} pixels are drawn on`);
    }
  },
};
for (const name of process.argv.slice(3)) checks[name]();
process.exit(failed);
