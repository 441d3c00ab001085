import { AsyncLocalStorage } from 'node:async_hooks';
import type { Telemetry } from '../../../lambda/aws/telemetry.ts';
import { isFailure } from '../../../lambda/core/failure.ts';
import type { Outcome, Result, ResultWriter } from '../../../lambda/core/record.ts';

import type { Watch } from '../stack.ts';
import { createNewest } from './newest.ts';
import { createOngoingInvocation, type OngoingInvocation } from './ongoingInvocation.ts';
import { isErrorBody, resultSeen } from './resultSeen.ts';
import { createTimeline } from './timeline.ts';
import type { AnswerSeen, Hello, News, SecondSeen, TotalsSeen } from './wire.ts';
import { writeApart } from './writeApart.ts';

/** Sees what the function does with messages, and keeps the newest of it: bounded, whatever comes. */
export interface Monitor {
  readonly telemetry: Telemetry;
  readonly watch: Watch;
  /** Where results of messages go that the page sent. @default where all go */
  answerOwnTo(writer: ResultWriter): void;
  /** Who is told what became of each message that somebody asked by. @default nobody */
  onAnswer(listener: (answer: AnswerSeen) => void): void;
  /** Most records of an invocation from now on. */
  batchSizeIs(batchSize: number): void;
  sent(messages: number): void;
  /** When the newest message was sent that an invocation has had, in milliseconds since 1970; 0 before the first. */
  newestSentAt(): number;
  history(): Pick<Hello, 'totals' | 'seconds' | 'invocations' | 'results' | 'errors'>;
  totals(): TotalsSeen;
  takeNews(): News;
  takeSeconds(): readonly SecondSeen[];
}

const INVOCATIONS_KEPT = 40;
const RESULTS_KEPT = 20;
/** More of them than anyone reads at a time. */
const MOST_NEWS = 10;

export function createMonitor(now: () => number = Date.now): Monitor {
  const current = new AsyncLocalStorage<OngoingInvocation>();
  const timeline = createTimeline(now);
  const invocations = createNewest<Hello['invocations'][number]>(INVOCATIONS_KEPT);
  const results = createNewest<Hello['results'][number]>(RESULTS_KEPT);
  const errors = createNewest<Hello['errors'][number]>(RESULTS_KEPT);
  const totals = createTotals();
  let numbered = 0;
  let batchSize = 0;
  let newestSentAt = 0;
  let ownWriter: ResultWriter | undefined;
  let tellAnswer: (answer: AnswerSeen) => void = () => {};

  const written = (invocation: OngoingInvocation, taken: readonly Result[]): void => {
    const at = now();
    for (const [index, result] of taken.entries()) {
      timeline.answered(at - invocation.sentAt(result.messageId));
      const purpose = invocation.purposeOf(result.messageId);
      const isError = isErrorBody(result.body);
      const isNewest = index >= taken.length - MOST_NEWS;
      if (!isError && !isNewest && purpose !== 'ask') continue;
      const seen = resultSeen(result, { at, invocation: invocation.number, isError, isLoad: purpose === 'load' });
      results.add(seen);
      if (isError) errors.add(seen);
      invocation.answered(seen);
    }
  };

  return {
    telemetry: {
      middlewares: [],
      outcomes(outcomes) {
        totals.count(outcomes);
        current.getStore()?.outcomes(outcomes);
      },
      hostEnds: () => {},
      observer: {
        microBatch: (report, records) => current.getStore()?.microBatch(report, records),
        decoded: (ms) => current.getStore()?.decoded(ms),
        checked: () => {},
        batchMismatch: () => {},
        written: (ms) => current.getStore()?.written(ms),
        runAbandoned: () => {},
        problem: () => {},
      },
    },
    watch: {
      async around(batch, run) {
        numbered += 1;
        const invocation = createOngoingInvocation(numbered, batch, batchSize, now);
        for (const { messageId } of batch.records) {
          newestSentAt = Math.max(newestSentAt, invocation.sentAt(messageId));
        }
        const verdict = await current.run(invocation, run);
        const { seen, answers } = invocation.end();
        timeline.ended(seen);
        invocations.add(seen);
        for (const answer of answers) tellAnswer(answer);
        return verdict;
      },
      through: (writer) => ({
        async write(all, signal) {
          const invocation = current.getStore();
          if (invocation === undefined) return writer.write(all, signal);
          const isOwn = ({ messageId }: Result): boolean => invocation.purposeOf(messageId) !== undefined;
          const verdicts = await writeApart(all, isOwn, { own: ownWriter ?? writer, others: writer }, signal);
          written(
            invocation,
            all.filter((_, index) => !isFailure(verdicts[index])),
          );
          return verdicts;
        },
        writtenAsOne: writer.writtenAsOne,
      }),
    },
    answerOwnTo: (writer) => {
      ownWriter = writer;
    },
    onAnswer: (listener) => {
      tellAnswer = listener;
    },
    batchSizeIs: (size) => {
      batchSize = size;
    },
    sent: timeline.sent,
    newestSentAt: () => newestSentAt,
    history: () => ({
      totals: totals.seen(),
      seconds: timeline.all(),
      invocations: invocations.all(),
      results: results.all(),
      errors: errors.all(),
    }),
    totals: totals.seen,
    takeNews: () => ({
      invocations: invocations.takeNew(MOST_NEWS),
      results: results.takeNew(MOST_NEWS),
      errors: errors.takeNew(MOST_NEWS),
    }),
    takeSeconds: timeline.takeNew,
  };
}

function createTotals(): { count(outcomes: readonly Outcome[]): void; seen(): TotalsSeen } {
  const errors: Record<string, number> = {};
  const retries: Record<string, number> = {};
  let messages = 0;
  let answered = 0;
  return {
    count(outcomes) {
      messages += outcomes.length;
      for (const outcome of outcomes) {
        if (outcome.status === 'retry') {
          retries[outcome.failure.code] = (retries[outcome.failure.code] ?? 0) + 1;
          continue;
        }
        answered += 1;
        for (const { code } of outcome.failures) errors[code] = (errors[code] ?? 0) + 1;
      }
    },
    seen: () => ({ messages, answered, errors: { ...errors }, retries: { ...retries } }),
  };
}
