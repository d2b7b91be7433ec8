// Drives the playground as its reader would, in browser_test.sh, and tells the page around it what it saw.
'use strict';

(async () => {
  let seen = '';
  const say = (fine, what) => { seen += `${fine ? 'ok' : 'FAIL'} ${what}\n`; };
  const later = milliseconds => new Promise(resolve => setTimeout(resolve, milliseconds));
  /** Waits for what the browser does in other threads. Its clock is virtual and would not wait: this takes real time. */
  const until = async come => {
    for (let i = 0, x = 0; i < 4000 && !come(); ++i) {
      for (let k = 0; k < 3e6; ++k) x += Math.sqrt(k);
      await later(1);
    }
  };
  const go = async hash => { location.hash = hash; await later(50); };
  const set = (element, value, event = 'input') => { element.value = value; element.dispatchEvent(new Event(event, { bubbles: true })); };
  const named = name => document.querySelector(`#controls [name="${name}"]`);
  const number = selector => parseFloat(document.querySelector(selector).textContent);
  const visible = id => $(id).offsetParent !== null;
  /** Contrast of two colours, "rgb(1, 2, 3)", by WCAG. */
  const contrast = (a, b) => {
    const light = color => color.match(/[\d.]+/g).slice(0, 3).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const [low, high] = [light(a), light(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  /** Of a figure's text and the bar that it stands on; 21 where that is hatched. */
  const contrastOf = text => {
    const at = text.getBoundingClientRect(), x = at.x + at.width / 2, y = at.y + at.height / 2;
    const under = [...text.ownerSVGElement.querySelectorAll('rect')].map(e => [e, e.getBoundingClientRect()]).filter(([, r]) => r.left <= x && x <= r.right && r.top <= y && y <= r.bottom).pop();
    const fill = under ? getComputedStyle(under[0]).fill : getComputedStyle(document.body).backgroundColor;
    return fill.startsWith('rgb') ? contrast(getComputedStyle(text).fill, fill) : 21;
  };
  const done = async () => { for (let i = 0; i < 1000 && $('wait').textContent === 'computing …'; ++i) await later(20); };
  /** Pixels that a closed select lacks for its longest text. */
  const lacks = select => {
    const style = getComputedStyle(select), pen = document.createElement('canvas').getContext('2d');
    pen.font = `${style.fontSize} ${style.fontFamily}`;
    const room = select.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) - 18; // its arrow
    return Math.max(...[...select.options].map(o => pen.measureText(o.text).width)) - room;
  };

  try {
    await until(() => view);
    say(Boolean(view), 'the page starts from a file');

    // The cores compute what the native program does.
    await until(() => cluster);
    say(Boolean(cluster), 'the virtual cluster starts, too');
    const lines = id => document.getElementById(id).textContent.trim().split('\n');
    const questions = lines('questions'), answers = lines('answers');
    const differ = questions.filter((q, i) => answered(q) !== answers[i]);
    say(questions.length === 1292 && answers.length === 1292 && differ.length === 0, `1292 answers are the native ones${differ.length > 0 ? `, but of ${differ.length}, such as ${differ[0]}` : ''}`);
    const refused = answers.filter(a => a.startsWith('{"error"')).length;
    say(refused > 50 && refused < 300, `${refused} questions are refused, in the same words`);

    // First a guess, then numbers.
    say(visible('guess') && !visible('result') && $('figure').textContent === '', 'no number is in sight before a guess');
    set($('value'), 'much');
    $('compare').click();
    say(!visible('result') && $('hint').textContent !== '', `words are no guess: ${$('hint').textContent}`);
    set($('value'), '27');
    $('compare').click();
    say(visible('result') && !visible('guess') && $('compared').textContent.startsWith('Right: you guessed 27 %. It is 27.27 %'), $('compared').textContent);
    say(number('[data-of="zb-h1"]') === 11.11 && number('[data-peak="zb-h1"]') === 4, 'ZB-H1 with 4 stages and 8 microbatches: 11.11 %, 4 held');
    say(number('[data-of="1f1b"]') === 27.27 && number('[data-peak="gpipe"]') === 8, '1F1B: 27.27 %; GPipe holds 8');
    say(document.querySelectorAll('#figure svg rect.f').length > 32 && document.querySelectorAll('#figure h3').length === 5, 'five schedules are drawn');

    // A slider, and the address.
    set(named('p'), 8);
    say(number('[data-of="1f1b"]') === 46.67 && location.hash === '#pipeline?p=8&show=1&guess=27', `8 stages: 1F1B 46.67 %, ${location.hash}`);
    set(named('p'), 4);
    await go('pipeline?p=6&m=24&f=1.5&show=1');
    say(named('p').value === '6' && named('m').value === '24' && state.f === 1.5 && named('f').previousElementSibling.textContent === '1.5' && visible('result'), 'the address is read back');
    await go('pipeline?p=4&m=6&show=1');
    say(/multiple/.test($('figure').textContent), 'interleaving says why it has no schedule for 6 microbatches of 4 stages');

    await go('pipeline?p=4&m=6&of=interleaved');
    say($('compare').hidden && !visible('value') && /groups of p/.test($('question').textContent), `nothing to guess: ${$('question').textContent}`);
    await go('pipeline?hop=1.5&show=1');
    say(/Interleaved.* takes longer than 1F1B here/.test($('said').textContent), 'hops that chunks cannot hide');
    await go('pipeline?p=4&m=6&show=1');

    // A schedule of one's own.
    const verdict = text => { set($('text'), text); return $('verdict_of_own').textContent; };
    say(verdict('F0 F1 B0 B1\nF0 B0 F1 B1').startsWith('✓ It can run: 33.33 % bubble'), $('verdict_of_own').textContent);
    say(/stage 1 does B0 before F0/.test(verdict('F0 F1 B0 B1\nB0 F0 F1 B1')), $('verdict_of_own').textContent);
    say(/stage 0 does B0 twice/.test(verdict('F0 F1 B0 B0\nF0 B0 F1 B1')), $('verdict_of_own').textContent);
    say(/wait/.test(verdict('F0 B0 F1 B1\nF0 F1 B0 B1')), $('verdict_of_own').textContent);
    say(/X1/.test(verdict('F0 X1')), $('verdict_of_own').textContent);
    set($('limit'), 1);
    say(/holds|in flight|microbatches/.test(verdict('F0 F1 B0 B1\nF0 B0 F1 B1')) && $('verdict_of_own').textContent.startsWith('✗'), $('verdict_of_own').textContent);
    const kept = location.hash;
    await go('memory');
    await go(kept.slice(1));
    say($('text').value === 'F0 F1 B0 B1\nF0 B0 F1 B1' && $('limit').value === '1', 'the address keeps the schedule');
    await go('pipeline');
    set($('from'), 'interleaved', 'change');
    set($('limit'), 6);
    say($('verdict_of_own').textContent.startsWith('✓') && /at least 25.5\).* without a limit/.test($('verdict_of_own').textContent), `a limit is of whole stages: ${$('verdict_of_own').textContent}`);
    set($('limit'), 5);
    say($('verdict_of_own').textContent.startsWith('✗'), $('verdict_of_own').textContent);
    set($('limit'), 2);
    say(/at least 36\).*round trips decide.*at least 27/.test(verdict(Array(4).fill('F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7').join('\n').replace(/[^\n]*$/, counts(8).map(k => `F${k} B${k}`).join(' ')))), $('verdict_of_own').textContent);
    set($('from'), 'zb-v', 'change');
    set($('limit'), 0);
    say(state.text.startsWith('placement v\nF0.0') && $('verdict_of_own').textContent.startsWith('✓'), 'a schedule of the suite is copied, and can run');

    // Addresses that make no sense.
    for (const [hash, says] of [['pipeline?p=100&show=1', /p needs numbers from 1 to 64/], ['pipeline?f=-1', /f needs numbers/], ['all_reduce?p=1&link=0', /link needs/], ['overlap?k=2000&show=1', /k needs/], ['memory?p=1.5', /p counts/], ['plan?gpus=24&show=1', /gpus is 24, not a power of two/]]) {
      await go(hash);
      await done();
      say(says.test($('wait').textContent) && !visible('guess') && !visible('result'), `#${hash}: ${$('wait').textContent}`);
    }
    await go('pipeline?p=100&show=1');
    set(named('p'), 4);
    say(number('[data-of="1f1b"]') === 27.27 && $('wait').textContent === '', 'a slider leads back');
    await go('nowhere?p=x');
    say($('heading').textContent === 'Pipeline schedules' && state.p === 4, 'an unknown address is the first view');

    // Memory.
    await go('memory?model=gpt3-175b&show=1');
    say(Math.abs(number('[data-stage="3"]') - 350) < 2, `175 billion parameters, stage 3 on 8 GPUs: ${number('[data-stage="3"]')} GB`);
    await go('memory?model=gpt3-175b&recipe=deepspeed');
    say(visible('guess') && !visible('result'), 'a guess first');
    $('skip').click();
    say(document.querySelectorAll('#figure [data-stage]').length === 2, 'DeepSpeed counts stages 2 and 3');

    // All-reduces.
    await go('all_reduce?show=1');
    say($('compared').textContent.includes('Rabenseifner'), $('compared').textContent);
    await go('all_reduce?p=6&n=1073741824');
    set($('option'), 'ring', 'change');
    $('compare').click();
    say($('compared').textContent.startsWith('Right: you guessed ring.'), $('compared').textContent);
    set($('ranks'), '4', 'change');
    set($('step'), 3);
    say(document.querySelectorAll('#held td.full').length === 4, 'after 3 of 6 steps of a ring of 4, every rank has one complete chunk');
    set($('step'), 6);
    say(document.querySelectorAll('#held td.full').length === 16 && /every rank/.test($('at').textContent), 'after 6 steps every rank has every sum');

    // Buckets, as in the handout of 21.7: 12.63 ms in all, an eighth of which is exposed.
    await go('overlap?p=4&k=8&n=8388608&f=5&b=20&alpha=1&link=1&add=1000000');
    say($('question').textContent.startsWith('The averages take 12.6 ms'), $('question').textContent);
    set($('value'), '1,6');
    $('compare').click();
    say($('compared').textContent.startsWith('Right: you guessed 1.6 ms. It is 1.58 ms'), $('compared').textContent);

    // Plans: 13 billion parameters on two DGX A100.
    say(answers.filter(a => a.includes('"layouts":[{')).length === 72, 'every question for a plan has one');
    await go('plan');
    say(visible('guess') && !visible('result') && $('option').options.length === 16 && $('compare').textContent === 'Plan', 'fifteen layouts to guess from, or none');
    const asked = core.ccall;
    let questions_asked = 0;
    core.ccall = (...all) => { ++questions_asked; return asked(...all); };
    set(named('batch'), 5);
    set(named('batch'), 6);
    say(questions_asked === 0 && visible('guess'), 'sliders compute nothing');
    set($('option'), 'dp 16 · tp 1 · pp 1', 'change');
    $('compare').click();
    say($('wait').textContent === 'computing …' && !visible('guess') && !visible('result'), 'it says that it computes');
    await done();
    say($('compared').textContent.startsWith('Not quite: you guessed dp 16 · tp 1 · pp 1. It is dp 8 · tp 1 · pp 2, 2.7 s per step'), $('compared').textContent);
    say(document.querySelector('#figure tbody').dataset.mesh === '8,1,2' && document.querySelectorAll('#figure td.bad').length === 0, 'the fastest is first');
    $('again').click();
    say(visible('guess') && !visible('result'), 'and can be hidden again');
    set($('option'), 'dp 8 · tp 1 · pp 2', 'change');
    $('compare').click();
    say($('compared').textContent.startsWith('Right') && questions_asked === 1, `another guess asks nothing again: ${questions_asked}`);
    core.ccall = asked;
    const began = performance.now();
    await go('plan?gpus=32&batch=256&of=stage');
    set($('option'), 'stage 1', 'change');
    $('compare').click();
    await done();
    say($('compared').textContent.startsWith('Right: you guessed stage 1.'), `${$('compared').textContent} (${Math.round(performance.now() - began)} ms for 32 GPUs)`);
    await go('plan?model=llama3-70b&gpus=8&show=1');
    await done();
    say(/^Nothing fits/.test($('said').textContent) && document.querySelectorAll('#figure td.bad').length > 2, $('said').textContent);
    await go('plan?zero=3&again=0&show=1&of=loss');
    await done();
    say([...document.querySelectorAll('#figure .why')].some(e => /ZeRO-3 with a pipeline would/.test(e.textContent)), 'a wish that a layout cannot meet is explained');

    // The virtual cluster: the guess, and what the size of the message decides.
    await go('cluster');
    say(visible('guess') && !visible('result') && /exchange\(\{send\(next\(me\), mine\)\}\)/.test($('program_text').textContent), 'a program, and a guess');
    set($('option'), 'PASS', 'change');
    $('compare').click();
    say($('compared').textContent.startsWith('Not quite: you guessed PASS. It is DEADLOCK'), $('compared').textContent);
    say(/0 → 1 → 2 → 3 → 0/.test($('figure').textContent) && document.querySelectorAll('#figure rect.idle').length > 4, 'who waits for whom');
    const at = elements => control('elements').values.indexOf(elements);
    set(named('elements'), at(2048));
    say($('compared').textContent.startsWith('Right: you guessed PASS.'), `8 KiB: ${$('compared').textContent}`);
    set(named('elements'), at(2049));
    say($('compared').textContent.endsWith('It is DEADLOCK.'), `4 bytes more: ${$('compared').textContent}`);
    const line = /cluster_programs\.cpp:(\d+)/, numbered = () => new RegExp(`^ *${(line.exec($('figure').textContent) || [])[1]}  .*`, 'm').exec($('program_text').textContent);
    await go('cluster?program=add_early&show=1');
    say($('compared').textContent.endsWith('It is RACE.') && /add\(me, mine, theirs\)/.test(numbered()), `a race, in the line ${numbered()}`);
    await go('cluster?program=own_chunk&elements=8&show=1');
    say(/It is PASS, after/.test($('compared').textContent), '4 divides 8');
    await go('cluster?program=own_chunk&elements=10&show=1');
    say($('compared').textContent.endsWith('It is MISMATCH.'), 'and not 10');
    await go('cluster?program=ring&elements=4096&show=1');
    say(/predicts .*, the same/.test($('said').textContent), $('said').textContent);

    // Every view: labels, width, colours.
    const dark = matchMedia('(prefers-color-scheme: dark)').matches;
    say(getComputedStyle(document.body).backgroundColor === (dark ? 'rgb(22, 24, 27)' : 'rgb(255, 255, 255)'), dark ? 'dark' : 'light');
    for (const link of document.querySelectorAll('nav a')) {
      await go(`${link.hash.slice(1)}?show=1`);
      await done();
      say(link.getAttribute('aria-current') === 'page' && document.title.endsWith($('heading').textContent), `${link.hash}: ${$('said').textContent}`);
      const cut = [...document.querySelectorAll('#controls select')].filter(e => lacks(e) > 0);
      say(cut.length === 0, `no closed choice cuts its text: ${cut.map(e => `${e.name} lacks ${Math.ceil(lacks(e))}`)}`);
      const bare = [...document.querySelectorAll('input, select, textarea')].filter(e => e.labels.length === 0 && !e.ariaLabel);
      say(bare.length === 0, `every control has a label: ${bare.map(e => e.id || e.name)}`);
      say(document.documentElement.scrollWidth <= window.innerWidth, `nothing is wider than the window: ${document.documentElement.scrollWidth} of ${window.innerWidth}`);
      const low = [...document.querySelectorAll('nav a, button, select, #controls input:not([type="checkbox"])')].filter(e => e.offsetHeight > 0 && e.offsetHeight < 44);
      const headers = document.querySelectorAll('main th'), faint = [...document.querySelectorAll('main svg text')].filter(e => e.getBoundingClientRect().width > 0 && contrastOf(e) < 4.5);
      say([...headers].every(e => e.textContent.trim() !== ''), 'every header of a table has a text');
      say(faint.length === 0, `texts of figures have contrast: ${[...new Set(faint.map(e => `${e.getAttribute('class')} ${contrastOf(e).toFixed(2)}`))]}`);
      if (window.axe) {
        const { violations } = await axe.run(document);
        say(violations.length === 0, `axe-core ${axe.version}: ${violations.length} violations ${violations.map(v => `${v.impact} ${v.id} ${v.nodes[0].target}`)}`);
      }
      if (window.innerWidth <= 600) say(low.length === 0, `targets are 44 pixels high: ${low.map(e => e.id || e.name || e.textContent)}`);
    }
    seen += 'driven\n';
  } catch (error) {
    say(false, `${error.stack}`);
  }
  parent.postMessage(seen, '*');
})();
