// Drives a page as its reader would, in browser_test.sh, and leaves what it saw in an element of its own.
'use strict';

(() => {
  const seen = document.createElement('pre');
  seen.id = 'drive';
  document.body.append(seen);
  const say = (fine, what) => { seen.textContent += `${fine ? 'ok' : 'FAIL'} ${what}\n`; };
  const press = key => document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
  const part = name => Number(document.querySelector(`#legend tr[data-part="${name}"] td[data-ns]`).dataset.ns);
  const run = runs[look.shown[0]];

  try {
    // The legend, for the shell to hold beside the ledgers; and what is drawn adds up to it.
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
    press('d');
    press('d');
    say(look.detail === level, 'd three times comes back');
    press('Home');
    press('0');
    const start = look.now;
    press(' ');
    say(play.running, 'space plays');
    tick(1e9);  // frames of a loaded computer come when they like: these two are a second apart
    tick(1e9 + 1000);
    say(Math.abs(look.now - start - span() / 10) < 1e-6 * span(), `a second plays a tenth of what is in sight, ${look.now} ns`);
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
    press('End');
    say(look.now === Math.max(run.end, 1), 'End goes to the end');

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
