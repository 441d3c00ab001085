import { createAnswer } from './answer.js';
import { listen } from './api.js';
import { createAsk } from './ask.js';
import { EFFECTS, FLOW } from './chartLines.js';
import { createCharts } from './charts.js';
import { byId, setText } from './dom.js';
import { createFacts } from './facts.js';
import { createInvocations } from './invocations.js';
import { createKnobs } from './knobs.js';
import { createModels } from './models.js';
import { createResults } from './results.js';
import { addNews, addTick, stateOf } from './state.js';

/** @type {import('./state.js').State | undefined} */
let state;
let isPaused = false;
let isConnected = false;

const answer = createAnswer(byId('answer'));
const offer = createAsk(byId('ask'), answer.sent, answer.refused);
const showKnobs = createKnobs(byId('controls'), byId('refused'));
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

listen(
  {
    hello(hello) {
      state = stateOf(hello);
      answer.spell(hello.closed);
      offer(hello.models);
      show();
    },
    tick(tick) {
      if (state !== undefined) addTick(state, tick);
      show();
    },
    news(news) {
      if (state === undefined) return;
      addNews(state, news);
      // Under load, lists change once a second: nobody could read them else.
      if (state.settings.load.perSecond === 0) show();
    },
    settings(settings) {
      if (state !== undefined) state.settings = settings;
      show();
    },
    answer: answer.came,
  },
  (isOpen) => {
    isConnected = isOpen;
    show();
  },
);
