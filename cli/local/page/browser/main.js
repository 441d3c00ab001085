import { createCharts, EFFECTS, FLOW } from './charts.js';
import { byId, setText } from './common.js';
import { createAnswer, createKnobs, offerWays } from './controls.js';
import { createFacts, createInvocations, createModels, createResults } from './lists.js';

/** @type {import('../wire.ts').State | undefined} */
let state;
let isPaused = false;
let isConnected = false;

const answer = createAnswer(byId('answer'));
const showKnobs = createKnobs();
const parts = [
  createFacts(byId('facts')),
  createCharts(byId('effects'), EFFECTS),
  createCharts(byId('figures'), FLOW),
  createInvocations(byId('invocation-list')),
  createResults({ results: byId('result-list'), errors: byId('error-list'), codes: byId('codes') }),
  createModels(byId('model-list')),
];

function show() {
  const status = isConnected
    ? isPaused
      ? 'Paused: what comes is shown later'
      : 'Live'
    : 'Not connected: is npm run dev still there?';
  setText(byId('connection'), status);
  if (state === undefined) return;
  showKnobs(state);
  if (isPaused) return;
  for (const part of parts) part(state);
}

byId('pause').addEventListener('click', (event) => {
  isPaused = !isPaused;
  if (event.currentTarget instanceof HTMLElement) event.currentTarget.setAttribute('aria-pressed', String(isPaused));
  show();
});

/** @param {import('../wire.ts').State} state */
function samplesOf({ models }) {
  return JSON.stringify(models.map(({ name, sample }) => [name, sample]));
}

listen(
  {
    state(newest) {
      if (state === undefined) offerWays(newest.models, answer.sent, answer.refused);
      // The stack was started anew, with other models.
      else if (samplesOf(newest) !== samplesOf(state)) location.reload();
      state = newest;
      show();
    },
    answer: answer.came,
  },
  (isOpen) => {
    isConnected = isOpen;
    show();
  },
);

/** @typedef {import('../wire.ts').Events} Events */

/**
 * Listens to what the stack does, and again where the connection broke.
 *
 * @param {{ [Name in keyof Events]: (data: Events[Name]) => void }} listeners
 * @param {(isOpen: boolean) => void} onConnection
 */
function listen(listeners, onConnection) {
  const source = new EventSource('/events');
  for (const [name, listener] of Object.entries(listeners)) {
    source.addEventListener(name, (event) => {
      /** @type {(data: unknown) => void} */ (listener)(JSON.parse(event.data));
    });
  }
  source.onopen = () => onConnection(true);
  source.onerror = () => {
    onConnection(false);
    // A browser gives up where the server refused.
    if (source.readyState !== EventSource.CLOSED) return;
    setTimeout(() => listen(listeners, onConnection), 2000);
  };
}
