// Pictures of the visible part: the lanes drawn once more, on a sheet of SVG instead of the canvas.
'use strict';

/** Takes what a canvas's context is asked to draw, as far as draw.js asks for it. */
class Sheet {
  constructor() { Object.assign(this, { parts: [], at: '', fillStyle: '#000', strokeStyle: '#000', lineWidth: 1, globalAlpha: 1, font: '', textBaseline: 'middle' }); }
  paint(style) { return typeof style === 'string' ? escaped(style) : 'url(#hatch)'; }  // a pattern
  alpha() { return this.globalAlpha < 1 ? ` opacity="${this.globalAlpha}"` : ''; }
  box(px, py, width, height) { return `x="${+px.toFixed(2)}" y="${+py.toFixed(2)}" width="${+Math.max(0, width).toFixed(2)}" height="${+Math.max(0, height).toFixed(2)}"`; }
  fillRect(...box) { this.parts.push(`<rect ${this.box(...box)} fill="${this.paint(this.fillStyle)}"${this.alpha()}/>`); }
  strokeRect(...box) { this.parts.push(`<rect ${this.box(...box)} fill="none" stroke="${this.paint(this.strokeStyle)}" stroke-width="${this.lineWidth}"${this.alpha()}/>`); }
  beginPath() { this.at = ''; }
  moveTo(px, py) { this.at += `M${px.toFixed(1)} ${py.toFixed(1)}`; }
  lineTo(px, py) { this.at += `L${px.toFixed(1)} ${py.toFixed(1)}`; }
  arc(px, py, radius) { this.at += `M${(px - radius).toFixed(1)} ${py.toFixed(1)}a${radius} ${radius} 0 1 0 ${2 * radius} 0a${radius} ${radius} 0 1 0 ${-2 * radius} 0`; }
  stroke() { if (this.at) this.parts.push(`<path d="${this.at}" fill="none" stroke="${this.paint(this.strokeStyle)}" stroke-width="${this.lineWidth}"${this.alpha()}/>`); }
  fill() { if (this.at) this.parts.push(`<path d="${this.at}" fill="${this.paint(this.fillStyle)}"${this.alpha()}/>`); }
  measureText(words) {
    screenInk.font = this.font;
    return screenInk.measureText(words);
  }
  fillText(words, px, py) {
    const [, weight, size] = /^(\d* ?)(\S+)px/.exec(this.font) || ['', '', '12'];
    this.parts.push(`<text x="${px.toFixed(1)}" y="${(py + .35 * size).toFixed(1)}" font-size="${size}"${weight.trim() ? ` font-weight="${weight.trim()}"` : ''} fill="${this.paint(this.fillStyle)}"${this.alpha()}>${escaped(words)}</text>`);
  }
}

const screenInk = ink;

/** All rows of what is in sight, below what it is and above what its colours mean; an SVG document. */
function pictureOf() {
  const sheet = new Sheet(), seen = { height: look.height, scroll: look.scroll }, last = rows[rows.length - 1];
  look.scroll = 0;
  look.height = last.y + last.height + look.axisHeight + 6;
  ink = sheet;
  try { paint(); } finally { ink = screenInk; }
  const height = look.height, { width } = look, heads = [];
  Object.assign(look, seen);
  draw();
  const write = (words, px, py, size, more = '') => `<text x="${px}" y="${py}" font-size="${size}" fill="${colours.text}"${more}>${escaped(words)}</text>`;
  let y = 20;
  heads.push(write(document.title, 6, y, 15, ' font-weight="600"'));
  for (const words of [$('about').textContent, $('lead').textContent].join('\n').split('\n').filter(Boolean)) heads.push(write(words, 6, y += 18, 12));
  const top = y + 10, marks = [];
  let px = 6, below = top + height + 16;
  for (const [name, words] of keyParts()) {
    const long = 30 + 6.6 * words.length;
    if (px + long > width && px > 6) px = 6, below += 18;
    marks.push(`<rect x="${px}" y="${below - 10}" width="16" height="11" fill="${name === 'bubble' ? 'url(#hatch)' : colours[name]}" stroke="${colours.line}"/>`, write(words, px + 20, below, 12));
    px += long;
  }
  const tall = below + 10, holder = document.createElement('div');
  holder.innerHTML = '<svg></svg>';  // knows its namespace
  return `<svg xmlns="${holder.firstChild.namespaceURI}" width="${width}" height="${tall}" viewBox="0 0 ${width} ${tall}" font-family="system-ui, sans-serif"><title>${escaped(document.title)}</title>
<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse"><path d="M-3 3L3 -3M0 6L6 0M3 9L9 3" stroke="${colours.bubble}"/></pattern></defs>
<rect width="${width}" height="${tall}" fill="${colours.page}"/>${heads.join('')}<g transform="translate(0 ${top})">${sheet.parts.join('\n')}</g>${marks.join('')}</svg>`;
}

/** The same in pixels, twice as many as on the page. */
async function pixelsOf(svg) {
  const image = new Image();
  await new Promise((done, failed) => {
    image.onload = done, image.onerror = failed;
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  });
  const made = document.createElement('canvas');
  made.width = 2 * image.width, made.height = 2 * image.height;
  made.getContext('2d').drawImage(image, 0, 0, made.width, made.height);
  return new Promise(done => made.toBlob(done, 'image/png'));
}

async function save(kind) {
  const svg = pictureOf(), link = document.createElement('a');
  link.href = URL.createObjectURL(kind === 'svg' ? new Blob([svg], { type: 'image/svg+xml' }) : await pixelsOf(svg));
  link.download = `${document.title.replace(/[^\w.-]+/g, '-').replace(/^-+|-+$/g, '') || 'run'}.${kind}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
