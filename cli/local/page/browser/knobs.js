import { post } from './api.js';
import { make, setText } from './dom.js';
import { count, duration, things } from './format.js';

/** @typedef {import('../wire.ts').SettingsSeen} SettingsSeen */
/** @typedef {import('./state.js').State} State */

const LOADS = [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000];

/**
 * @param {HTMLElement} place
 * @param {HTMLElement} refused where it is said why something was refused
 * @returns {(state: State) => void} shows what is set
 */
export function createKnobs(place, refused) {
  /** @param {() => Promise<unknown>} act */
  const attempt = async (act) => {
    try {
      await act();
      setText(refused, '');
    } catch (error) {
      setText(refused, error instanceof Error ? error.message : String(error));
    }
  };
  const load = make('input', { type: 'range', id: 'load', min: 0, max: LOADS.length - 1, step: 1, value: 0 });
  const loadSaid = make('output', { for: 'load' });
  const held = make('p', { class: 'aside', role: 'status' });
  const model = make('select', { id: 'load-model' });
  const size = make('input', { type: 'number', id: 'batch-size', min: 1, max: 10_000, step: 1, inputmode: 'numeric' });
  const windowSeconds = make('input', {
    type: 'number',
    id: 'window',
    min: 0,
    max: 300,
    step: 1,
    inputmode: 'numeric',
  });
  const sendLoad = () =>
    attempt(() => post('/load', { perSecond: LOADS[Number(load.value)] ?? 0, model: model.value }));
  const sendBatching = () =>
    attempt(() => post('/batching', { batchSize: numberOf(size), windowSeconds: numberOf(windowSeconds) }));
  load.addEventListener('input', () => sayLoad(LOADS[Number(load.value)] ?? 0));
  load.addEventListener('change', sendLoad);
  model.addEventListener('change', sendLoad);
  for (const input of [size, windowSeconds]) input.addEventListener('change', sendBatching);
  /** @param {number} perSecond */
  const sayLoad = (perSecond) => {
    const said = perSecond === 0 ? 'none' : `${count(perSecond)} a second`;
    setText(loadSaid, said);
    load.setAttribute('aria-valuetext', said);
  };
  const loadField = field('load', 'Load', load);
  loadField.querySelector('label')?.append(loadSaid);
  const modelField = field('load-model', 'Samples of', model);
  const expected = make('p', { class: 'aside' });
  place.append(
    make('div', { class: 'fields' }, loadField, modelField),
    held,
    make(
      'div',
      { class: 'fields' },
      field('batch-size', 'Batch size, 1 to 10,000', size),
      field('window', 'Window in seconds, 0 to 300', windowSeconds),
    ),
    expected,
  );
  return ({ settings, loadModels }) => {
    if (model.children.length !== loadModels.length) {
      model.replaceChildren(...loadModels.map((name) => make('option', {}, name)));
    }
    loadField.hidden = loadModels.length === 0;
    modelField.hidden = loadModels.length < 2;
    const { perSecond, heldBack } = settings.load;
    unlessTouched(
      load,
      String(
        Math.max(
          0,
          LOADS.findLastIndex((step) => step <= perSecond),
        ),
      ),
    );
    unlessTouched(model, settings.load.model);
    if (document.activeElement !== load) sayLoad(perSecond);
    unlessTouched(size, String(settings.batchSize));
    unlessTouched(windowSeconds, String(settings.windowSeconds));
    setText(held, heldBack === undefined ? '' : `Held back: ${heldBack}.`);
    setText(expected, expectationOf(settings));
  };
}

/**
 * What size and window come to at this load, by arithmetic.
 *
 * @param {SettingsSeen} settings
 */
function expectationOf({ batchSize, windowSeconds, gathered, load: { perSecond } }) {
  if (windowSeconds === 0) return 'There is no window: what one poll brings is a batch.';
  const longest = `No message waits longer than ${duration(windowSeconds * 1000)} for a batch to fill.`;
  if (perSecond === 0) return longest;
  const came = (perSecond * windowSeconds) / gathered;
  const what =
    came >= batchSize
      ? `each has its ${count(batchSize)} in ${duration((1000 * batchSize * gathered) / perSecond)}, before the window ends.`
      : `each gets ${count(came)} of ${count(batchSize)}, and then the window ends.`;
  return `${longest} ${things(gathered, 'batch', 'batches')} ${gathered === 1 ? 'is' : 'are'} gathered at a time: at ${count(perSecond)} a second ${what}`;
}

/**
 * @param {string} id
 * @param {string} name
 * @param {...Node} parts
 */
function field(id, name, ...parts) {
  return make('div', { class: 'field' }, make('label', { for: id }, name), ...parts);
}

/**
 * What somebody is changing is left alone.
 *
 * @param {HTMLInputElement | HTMLSelectElement} input
 * @param {string} value
 */
function unlessTouched(input, value) {
  if (document.activeElement !== input && input.value !== value) input.value = value;
}

/**
 * What is no number is sent as it is, to be refused in words.
 *
 * @param {HTMLInputElement} input
 */
function numberOf({ value }) {
  return value.trim() === '' ? null : Number(value);
}
