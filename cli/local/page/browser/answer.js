import { barOf } from './bar.js';
import { make } from './dom.js';
import { essenceOf } from './essence.js';
import { count, duration, percent, things } from './format.js';
import { whyOf } from './invocations.js';
import { prettyOf } from './pretty.js';

/** @typedef {import('../wire.ts').AnswerSeen} AnswerSeen */
/** @typedef {import('../wire.ts').ClosedWords} ClosedWords */

const MOST_EARLY = 16;

/**
 * The answer to what was sent last, and the micro-batch that it rode in.
 *
 * @param {HTMLElement} place
 */
export function createAnswer(place) {
  let awaited = '';
  /** @type {Map<string, AnswerSeen>} those that came before it was known what was sent */
  const early = new Map();
  /** @type {ClosedWords} */
  let words = { batch: {}, microBatch: {} };
  /** @param {AnswerSeen} answer that may be another page's */
  const keepEarly = (answer) => {
    early.set(answer.messageId, answer);
    for (const oldest of early.keys()) if (early.size > MOST_EARLY) early.delete(oldest);
  };
  /** @param {AnswerSeen} answer */
  const show = (answer) => place.replaceChildren(...partsOf(answer, words));
  return {
    /** @param {ClosedWords} closed */
    spell(closed) {
      words = closed;
    },
    /** @param {string} messageId */
    sent(messageId) {
      awaited = messageId;
      const answer = early.get(messageId);
      early.clear();
      if (answer !== undefined) show(answer);
      else place.replaceChildren(make('p', {}, 'Sent. It waits for its batch.'));
    },
    /** @param {string} sentence */
    refused(sentence) {
      place.replaceChildren(make('p', { class: 'refused' }, sentence));
    },
    /** @param {AnswerSeen} answer */
    came(answer) {
      if (answer.messageId === awaited) show(answer);
      else keepEarly(answer);
    },
  };
}

/**
 * @param {AnswerSeen} answer
 * @param {ClosedWords} words
 */
function partsOf(answer, words) {
  const { result, invocation, microBatch, waitedMs, answeredMs } = answer;
  const ran = microBatch === undefined ? undefined : invocation.microBatches[microBatch];
  const rode =
    ran === undefined
      ? `It was in invocation #${count(invocation.number)}, and in none of its micro-batches.`
      : `It rode in micro-batch ${(microBatch ?? 0) + 1} of invocation #${count(invocation.number)}, ${sizeOf(ran)}, run in ${duration(ran.runMs)} (closed: ${words.microBatch[ran.closedBecause] ?? ''}).`;
  const times = `It waited ${duration(waitedMs)} for its invocation${answeredMs === undefined ? '.' : `, and was answered ${duration(answeredMs)} after it was sent.`}`;
  return [
    make(
      'p',
      { class: 'lead' },
      result === undefined ? 'Not answered: it goes back to the queue.' : (essenceOf(result.body) ?? 'Answered.'),
    ),
    make('p', {}, rode, ' ', times),
    make('p', { class: 'track' }, barOf(invocation, microBatch)),
    make('p', { class: 'aside' }, whyOf(invocation, words)),
    ...(result === undefined
      ? []
      : [
          make(
            'details',
            { class: 'more' },
            make('summary', {}, 'The whole answer'),
            make('pre', { role: 'region', 'aria-label': 'The whole answer', tabindex: 0 }, prettyOf(result.body)),
          ),
        ]),
  ];
}

/** @param {import('../wire.ts').MicroBatchSeen} microBatch */
function sizeOf({ rows, requests, paddingShare }) {
  const of = rows === requests ? things(rows, 'row') : `${things(rows, 'row')} of ${things(requests, 'request')}`;
  return paddingShare > 0 ? `${of} and ${percent(paddingShare)} padding` : of;
}
