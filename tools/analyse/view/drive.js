// Drives a page as its reader would, in browser_test.sh, and leaves what it saw in an element of its own.
'use strict';

(async () => {
  const seen = document.createElement('pre');
  seen.id = 'drive';
  seen.style.cssText = 'white-space: pre-wrap; overflow-wrap: anywhere';
  document.body.append(seen);
  const say = (fine, what) => { seen.textContent += `${fine ? 'ok' : 'FAIL'} ${what}\n`; };
  const press = key => document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
  const part = name => Number(document.querySelector(`#legend tr[data-part="${name}"] td[data-ns]`).dataset.ns);
  const run = runs[look.shown[0]];

  try {
    // The legend, for the shell to compare with the ledgers; and the drawn blocks add up to it.
    const sums = document.querySelector('tr[data-sums]').dataset.sums.split(' ');
    const ledgers = run.ledger.filter(row => run.recorded === run.ranks || run.legend.ranks.some(r => r[0] === row[0]));
    seen.textContent += `legend ${part('computing')} ${part('exposed') + part('bubble')} ${sums[3]} ${sums[4]}\n`;
    say(document.querySelector('[data-agrees="true"]') !== null, 'the page says that its sums are the ledgers\'');
    const drawn = [0, 0, 0];
    for (const l of run.lanes)
      if (l.queue === 'main' && l.kind === 'w')
        for (let i = 0; i < l.count; ++i) if (l.type[i] < 3) drawn[l.type[i]] += l.end[i] - l.begin[i];
    const rounding = 2 * run.lanes.reduce((sum, l) => sum + l.count, 0) + 2 * ledgers.length;
    if (run.drawn === run.recorded)
      say(['computing', 'exposed', 'bubble'].every((name, type) => Math.abs(drawn[type] - part(name)) <= rounding), `what is drawn adds up to the legend: ${drawn}`);
    else
      say(document.querySelector('[data-thinned="lanes"]') !== null, 'it says how many ranks are drawn');
    if (run.recorded < run.ranks) say(document.querySelector('[data-thinned="ranks"]') !== null, 'it says how many ranks were recorded');

    // Something is to be seen.
    const pixels = ink.getImageData(0, 0, canvas.width, canvas.height).data, shades = new Set();
    for (let i = 0; i < pixels.length; i += 4) shades.add(pixels[i] << 16 | pixels[i + 1] << 8 | pixels[i + 2]);
    say(shades.size > 4, `${shades.size} colours on the lanes`);

    // Keys.
    const span = () => look.end - look.begin;
    // It opens at the begin, except where something went wrong at the end.
    const wrong = run.stopped || run.race;
    say(look.now === (wrong ? endOfSteps() : start()) && look.begin === start(), `it opens ${wrong ? 'where the run stopped' : 'at the begin'}: ${look.now}`);
    say($('title').textContent !== '' && /\d ranks? · (simulated|emulated|measured|modelled)/.test($('about').textContent), `what ran, and how: ${$('about').textContent}`);
    say(wrong ? $('lead').textContent === '' : /^(A: )?\d+ % of (this run|the step|steps 1 to \d+) is /.test($('lead').textContent), `the lead: ${$('lead').textContent.split('\n')[0]}`);
    say($('key').querySelectorAll('.key').length >= 1 && $('key').getBoundingClientRect().bottom <= canvas.getBoundingClientRect().top + 1, 'the colours are explained above the lanes');
    const across = canvas.clientWidth;
    window.dispatchEvent(new Event('beforeprint'));
    const paper = canvas.clientWidth; // 700, without a scroll bar where there is one
    say(paper > 670 && paper <= 700 && paper === frame.clientWidth && canvas.width === Math.round(paper * devicePixelRatio), `on paper it is drawn 700 wide, and nothing is squeezed: ${paper}`);
    window.dispatchEvent(new Event('afterprint'));
    say(canvas.clientWidth === across, `then as wide as the window again: ${canvas.clientWidth} of ${across}`);
    say(document.documentElement.scrollWidth <= window.innerWidth, `nothing is wider than the window: ${document.documentElement.scrollWidth} of ${window.innerWidth}`);
    const low = [...document.querySelectorAll('#tools button')].filter(button => button.offsetHeight > 0 && button.offsetHeight < 44);
    if (window.innerWidth <= 600) say(low.length === 0 && $('extra').offsetParent === null, `buttons are 44 pixels high: ${low.map(button => button.id)}`);

    press('0');
    const whole = span();
    press('+');
    say(Math.abs(span() * 1.5 - whole) < 1e-6 * whole, '+ zooms in');
    const before = look.begin;
    press(',');
    say(look.begin <= before, ', pans back');
    press('Home');
    say(look.begin === axisBegin() && look.now === axisBegin(), 'Home goes to the begin');
    press('ArrowRight');
    const first = look.now;
    say(run.stuck.length > 0 || first > axisBegin(), `→ goes to the next instant, ${first} ns`);
    press('ArrowRight');
    press('ArrowLeft');
    say(look.now === first || run.stuck.length > 0, '← goes back to it');
    press('0');
    say(span() === whole, '0 shows the whole run');
    press(']');
    say($('speed').textContent === '× 2', '] is twice as fast');
    press('[');
    press('a');
    say(!look.arrows && $('arrows').getAttribute('aria-pressed') === 'false', 'a hides messages');
    press('a');
    const level = look.detail;
    press('d');
    say(look.detail !== level && rows.length > 0, 'd shows other lanes');
    for (let i = 1; i < levels().length; ++i) press('d');
    say(look.detail === level, `d comes back after ${levels().length} times`);
    const groups = runs[look.shown[0]].recorded > kGroup;
    if (groups) {
      setDetail(0);
      const inGroups = new Set(rows.flatMap(row => (row.group || []).map(l => l.rank)));
      say(rows.length < run.recorded && inGroups.size === run.recorded, `${rows.filter(row => row.group).length} lines show ${inGroups.size} of ${run.recorded} ranks`);
      setDetail(level);
    }
    press('Home');
    press('0');
    const played = look.now;
    press(' ');
    say(play.running, 'space plays');
    tick(1e9);  // frames of a loaded computer come when they like: these two are a second apart
    tick(1e9 + 1000);
    say(Math.abs(look.now - played - span() / 10) < 1e-6 * span(), `a second plays a tenth of what is in sight, ${look.now} ns`);
    press(' ');
    const paused = look.now;
    tick(1e9 + 2000);
    say(look.now === paused && !play.running, 'space pauses');
    // Frames, all lanes and zoomed in: reported, since computers differ.
    const play120 = what => {
      frames.took.length = 0;
      press('Home');
      press(' ');
      for (let i = 0; i < 120; ++i) tick(2e9 + 16 * i);
      press(' ');
      const f = frameTimes();
      seen.textContent += `frames ${what}: ${f.count}, median ${f.median.toFixed(2)} ms, worst ${f.worst.toFixed(2)} ms\n`;
    };
    const events = look.shown.reduce((sum, r) => sum + runs[r].lanes.reduce((all, l) => all + l.count, 0), 0);
    play120(`of ${events} events`);
    for (let i = 0; i < 8; ++i) press('+');
    play120('zoomed in');
    press('0');
    press('f');
    say(/frames took/.test($('status').textContent), 'f says what frames take');
    press('f');
    // The slider.
    $('scrub').value = 500;
    $('scrub').dispatchEvent(new Event('input'));
    say(Math.abs(look.now - (start() + endOfSteps()) / 2) <= 1 + 1e-6 * Math.abs(endOfSteps()), `the slider goes to the middle, ${look.now} ns`);

    // A click on an operation, and on a message, shows its code; a finger's, a tip, too.
    setDetail(3);
    press('0');
    const at = (px, py, type, pointerId = 1, pointerType = 'mouse') => {
      const box = canvas.getBoundingClientRect();
      canvas.dispatchEvent(new PointerEvent(type, { clientX: box.left + px, clientY: box.top + py, pointerId, pointerType, bubbles: true }));
    };
    const clickAt = (px, py, pointerType) => { at(px, py, 'pointerdown', 1, pointerType); at(px, py, 'pointerup', 1, pointerType); };
    look.arrows = false;
    refresh();
    const row = rows.find(r => r.lane && r.lane.kind === 'w' && r.lane.count > 0 && r.y + r.height + look.axisHeight < look.height);
    if (row) {
      // The longest of those whose code the page has (of a lab's reference it has none), else the longest.
      const weight = event => [run.sources[run.names[row.lane.where[event]]] ? 1 : 0, row.lane.end[event] - row.lane.begin[event]];
      const longest = Array.from(row.lane.begin.keys()).sort((a, b) => weight(b)[0] - weight(a)[0] || weight(b)[1] - weight(a)[1])[0];
      const [px, py] = [(x(row.lane.begin[longest]) + x(row.lane.end[longest])) / 2, row.y - frame.scrollTop + look.axisHeight + row.height / 2];
      clickAt(px, py, 'touch');
      say(look.picked && look.picked.event === longest && look.rank === row.lane.rank, `a tap takes event ${longest} of rank ${row.lane.rank}`);
      say(!$('tip').hidden && $('tip').getBoundingClientRect().right <= window.innerWidth, 'and shows a tip within the window');
      const code = $('picked').querySelector('.code');
      const where = run.names[row.lane.where[longest]];
      say(code ? code.querySelectorAll('span').length >= 3 && code.querySelector('.at i').textContent === code.dataset.line : !run.sources[where], `its line of code has neighbours: ${where}`);
      seen.textContent += `code ${code ? code.querySelector('.at').textContent : 'none'}\n`;
    }
    look.arrows = true;
    refresh();
    const arrow = arrows.find(a => Math.hypot(a.x1 - a.x0, a.y1 - a.y0) > 12 && Math.max(a.y0, a.y1) < look.height && Math.min(a.x0, a.x1) > look.labelWidth);
    if (arrow) {
      clickAt((arrow.x0 + arrow.x1) / 2, (arrow.y0 + arrow.y1) / 2);
      say(look.picked && look.picked.message !== undefined && /sent by rank \d+ at .*received by rank \d+ at /s.test($('picked').textContent), 'a click on a message shows where it was sent and received');
    }

    // Two fingers.
    press('0');
    const wide = span(), middle = look.labelWidth + plotWidth() / 2, held = timeAt(middle);
    at(middle - 40, 60, 'pointerdown', 1, 'touch');
    at(middle + 40, 60, 'pointerdown', 2, 'touch');
    at(middle - 80, 60, 'pointermove', 1, 'touch');
    at(middle + 80, 60, 'pointermove', 2, 'touch');
    say(Math.abs(span() - wide / 2) < 1e-3 * wide && Math.abs(timeAt(middle) - held) < 1e-3 * wide, `two fingers apart halve what is in sight: ${span()} of ${wide}`);
    at(middle - 80, 60, 'pointerup', 1, 'touch');
    at(middle + 80, 60, 'pointerup', 2, 'touch');

    // The address keeps the visible part.
    const state = () => [look.now, look.begin, look.end].map(Math.round).concat(look.detail, look.rank, JSON.stringify(look.picked)).join(), kept = state();
    await new Promise(done => setTimeout(done, 400));
    const address = location.hash;
    say(/^#t=-?\d+/.test(address), `the address says it: ${address}`);
    choose(look.shown);
    takeState(address);
    say(state() === kept, `and brings it back: ${kept} is ${state()}`);
    takeState('#t=nonsense&rank=-7&from=9&to=1&lanes=99&event=9.9.9&message=1.x&run=77');
    say(rows.length > 0 && look.picked === null, 'an address without sense does no harm');
    choose(look.shown);

    // Pictures to keep.
    const svg = pictureOf(), parsed = new DOMParser().parseFromString(svg, 'image/svg+xml');
    say(!parsed.querySelector('parsererror') && parsed.querySelectorAll('rect').length > rows.length && svg.includes(escaped(document.title)) && svg.includes(escaped($('about').textContent.split('\n')[0])), `an SVG of ${svg.length} characters, with its title`);
    say(ink === screenInk && !/NaN|undefined/.test(svg), 'and the page is drawn on the screen again');
    let png = null;
    pixelsOf(svg).then(made => { png = made; });
    for (let i = 0; i < 20_000 && !png; ++i) await new Promise(done => setTimeout(done, 1));  // Chromium's time is virtual: it does not wait for the picture
    say(png && png.type === 'image/png' && png.size > 1000, `a PNG of ${png ? png.size : 'no'} bytes`);

    if (look.shown.length === 2) {
      setDetail(1);
      const ghosts = () => rows.filter(row => row.ghost).length, had = ghosts();
      press('g');
      say((had === 0) === (ghosts() > 0), `g shows or hides B below A: ${had}, ${ghosts()} thin lanes`);
      press('g');
    }

    setDetail(level);
    press('End');
    say(look.now === end(), 'End goes to the end');

    // Pictures.
    if (run.stuck.length > 0) {
      const lit = document.querySelectorAll('#stuck path[data-lit="true"]').length;
      say(lit === run.stuck.filter(s => s[4] >= 0).length, `${lit} links of the cycle are lit`);
    }
    if (run.race && look.shown.length === 1) {
      say(document.querySelectorAll('#race tr[data-access]').length === 2, 'both accesses of the race have a row');
      const pen = document.createElement('canvas').getContext('2d');
      pen.fillStyle = colours.exposed;
      pen.fillRect(0, 0, 1, 1);
      const lit = pen.getImageData(0, 0, 1, 1).data.join();
      for (const access of run.race.accesses) {
        const [queue, , , , , begin] = access, { kind, below } = placeOfAccess(look.shown[0], access);
        const row = rows.find(r => r.lane && r.lane.rank === run.race.rank && r.lane.queue === queue && r.lane.kind === kind);
        const scale = canvas.width / canvas.clientWidth, y = row.y + (below ? row.height / 2 : 0) - frame.scrollTop + look.axisHeight + 1;
        const pixel = ink.getImageData(Math.round((x(begin) + 4) * scale), Math.round(y * scale), 1, 1).data.join();
        say(pixel === lit, `the access on ${queue} is lit in its lane: ${pixel}`);
      }
    }
    if (run.holdings && !run.holdings.none) {
      const full = document.querySelectorAll('#holdings td.full').length, all = document.querySelectorAll('#holdings .holds td').length;
      seen.textContent += `holdings ${full} ${all}\n`;
    }
    seen.textContent += 'driven\n';
  } catch (error) {
    say(false, `${error} ${error.stack}`);
  }
})();
