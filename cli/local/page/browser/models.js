import { make } from './dom.js';

/** @typedef {import('../wire.ts').ModelSeen} ModelSeen */

const KNOWN_BY = {
  proved: 'independent: proved when the model was loaded',
  trusted: 'taken for independent, as its config.json says',
  unproven: 'not proved independent yet',
  dependent: 'dependent on each other',
};
const RUN = {
  together: 'requests share runs',
  proving: 'requests run alone until enough of them were compared',
  alone: 'requests run alone',
};

/**
 * @param {HTMLElement} place
 * @returns {(state: import('./state.js').State) => void} shows them
 */
export function createModels(place) {
  let shown = '';
  return ({ models }) => {
    const now = JSON.stringify(models);
    if (now === shown) return;
    shown = now;
    place.replaceChildren(...models.map(cardOf));
  };
}

/** @param {ModelSeen} model */
function cardOf(model) {
  const { name, version, inputs, outputs, independence, batching, maxBatchRows, ladder, raggedAxis, hasTransform } =
    model;
  const verdict = `${KNOWN_BY[independence]}; ${RUN[batching]}`;
  const lines = [
    ['Inputs', inputs.map(signatureOf).join(', ')],
    ['Outputs', outputs.map(signatureOf).join(', ')],
    ['Rows', verdict],
    ['Largest run', `${maxBatchRows} rows${ladder.length > 0 ? `, at ${ladder.join(', ')}` : ''}`],
    ...(raggedAxis === undefined ? [] : [['Ragged axis', raggedAxis]]),
    ...(hasTransform ? [['Transform', 'code of its own before and after the model']] : []),
  ];
  return make(
    'article',
    {},
    make('h3', {}, `${name} `, make('span', { class: 'version' }, `version ${version}`)),
    make(
      'dl',
      { class: 'about' },
      ...lines.map(([term = '', text = '']) => make('div', {}, make('dt', {}, term), make('dd', {}, text))),
    ),
  );
}

/** @param {import('../wire.ts').TensorSeen} tensor */
function signatureOf({ name, datatype, shape }) {
  return `${name} ${datatype} [${shape.join(', ')}]`;
}
