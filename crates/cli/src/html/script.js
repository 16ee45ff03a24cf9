'use strict';
const all = (selector, from = document) => [...from.querySelectorAll(selector)];

const root = document.documentElement;
document.getElementById('theme').onclick = () => {
  const chosen = root.dataset.theme ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
  root.dataset.theme = chosen === 'dark' ? 'light' : 'dark';
};

// A heading sorts its table by the figures of the column, largest first, or by text.
for (const heading of all('th[data-sort]')) {
  heading.onclick = () => {
    const body = heading.closest('table').tBodies[0];
    const column = heading.cellIndex;
    const isNumeric = heading.dataset.sort === 'n';
    const isAgain = heading.dataset.order === 'down';
    const key = row => isNumeric ? Number(row.cells[column].dataset.v) : row.cells[column].textContent;
    const rows = [...body.rows].sort((a, b) => isNumeric ? key(b) - key(a) : key(a).localeCompare(key(b)));
    if (isAgain) rows.reverse();
    all('th', heading.parentNode).forEach(other => delete other.dataset.order);
    heading.dataset.order = isAgain ? 'up' : 'down';
    body.append(...rows);
  };
}

// A few letters of a name say nothing.
const frames = all('#frames > svg');
const NARROWEST_NAME = 30;
const showNames = () => {
  const widths = frames.map(frame => frame.querySelector('rect').getBoundingClientRect().width);
  frames.forEach((frame, index) => frame.classList.toggle('nameless', widths[index] < NARROWEST_NAME));
};
showNames();
addEventListener('resize', showNames);

// A frame that is clicked takes the whole width; its callers do, too.
for (const frame of frames) {
  frame.onclick = () => {
    const left = Number(frame.dataset.x), width = Number(frame.dataset.w);
    for (const other of frames) {
      const from = Math.max(0, (Number(other.dataset.x) - left) / width);
      const to = Math.min(1, (Number(other.dataset.x) + Number(other.dataset.w) - left) / width);
      other.style.display = to - from > 1e-6 ? '' : 'none';
      other.setAttribute('x', 100 * from + '%');
      other.setAttribute('width', 100 * Math.max(0, to - from) + '%');
    }
    showNames();
  };
}

const search = document.getElementById('search');
if (search) search.oninput = () => {
  const text = search.value.toLowerCase();
  for (const frame of frames) {
    frame.classList.toggle('found', text !== '' && frame.querySelector('title').textContent.toLowerCase().includes(text));
  }
};
