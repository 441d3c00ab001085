import { failure, isFailure } from '../contract/failure.ts';
import type { ScoringRequest } from '../contract/request.ts';
import { elementsIn, isWhole, type MicroBatch, microBatchOf, type Part, wholeRun } from '../plan/microBatch.ts';
import { unstack } from '../stack/stack.ts';
import type { Tensor } from '../tensor/tensor.ts';
import { answerMicroBatch } from './answerMicroBatch.ts';
import { REQUESTS_THAT_PROVE } from './batchingWatch.ts';
import {
  areAlike,
  differingRequests,
  explainDifference,
  inputsOf,
  type RunBothWays,
  stopBatching,
  type Verdict,
} from './compareRuns.ts';
import type { Invocation } from './invocation.ts';
import { type CheckRuns, createCheckRuns } from './runForCheck.ts';
import { runMicroBatch } from './runMicroBatch.ts';
import { fitTime } from './timeLeft.ts';

/**
 * Runs each request of a micro-batch alone, with all its rows, for a model that may not be batched. Where the model may yet
 * prove itself, requests are run together afterwards, to be compared.
 */
export async function scoreAlone(batch: MicroBatch, invocation: Invocation): Promise<void> {
  const proof = createProof(batch, invocation);
  for (const part of batch.parts) {
    const { request } = part;
    if (invocation.ledger.isComplete(request.record)) continue;
    // A request that was cut before its model was found out is run once, whole.
    if (!isWhole(part) && !invocation.partialOutputs.takeWhole(request)) continue;
    const outputs = await scoreRequest(request, batch, invocation);
    if (outputs !== undefined) proof.add(request, outputs);
  }
  await proof.compare();
}

/** Answers one request, or says why it could not be run. Gives its outputs, cut back. */
async function scoreRequest(
  request: ScoringRequest,
  { closedBecause }: MicroBatch,
  invocation: Invocation,
): Promise<readonly Tensor[] | undefined> {
  const { ledger } = invocation;
  const alone = wholeRun(request, closedBecause);
  const fit = fitTime(alone, invocation, false);
  const ran =
    refuseTooLarge(alone, invocation) ??
    (fit.fits ? await runMicroBatch(alone, fit.expectedMs, invocation) : fit.failure);
  if (isFailure(ran)) {
    const failed = ledger.recordFailure(request, ran);
    if (failed !== undefined) await invocation.write([failed]);
    return undefined;
  }
  await answerMicroBatch(alone, ran, invocation);
  return unstack(alone, alone.parts[0] as Part, 0, ran.outputs);
}

/** Why a request that must not be split cannot be run; undefined where it can. */
function refuseTooLarge(alone: MicroBatch, { deps: { limits } }: Invocation) {
  const { model, rows } = alone;
  const elements = elementsIn(alone);
  if (rows === 1 || (rows <= model.maxBatchRows && elements <= limits.maxBatchElements)) return undefined;
  const [most, cure] =
    rows > model.maxBatchRows
      ? [`at most ${model.maxBatchRows} rows in a request`, 'raise "maxBatchRows" in its config.json']
      : [
          `at most ${limits.maxBatchElements} elements in a request, got ${elements}`,
          'raise BATCHSCORE_MAX_BATCH_ELEMENTS',
        ];
  const why =
    model.independence === 'unproven'
      ? 'splits no request until real ones have proved that its rows are independent'
      : 'splits no request, as its rows depend on each other or on their number';
  const proof = model.independence === 'unproven' ? ', put requests into samples.jsonl beside it' : '';
  return failure(
    'TOO_MANY_ROWS',
    `model '${model.name}' ${why}: expected ${most}, got ${rows} rows; send fewer${proof}, or ${cure}`,
  );
}

/** Whether the requests of a micro-batch, which were all run alone, get the same outputs together. */
interface Proof {
  /** @param outputs of the request alone, cut back */
  add(request: ScoringRequest, outputs: readonly Tensor[]): void;
  /** Runs the requests that were added together, and compares; nothing of it is written. */
  compare(): Promise<void>;
}

/** A model of which nothing is known is proved by requests that differ from each other; for any other this does nothing. */
function createProof({ model, closedBecause }: MicroBatch, invocation: Invocation): Proof {
  const { batching, observer } = invocation.deps;
  const compared: RunBothWays[] = [];
  const known: Tensor[][] = [];
  let rows = 0;
  const isProving = (): boolean => batching.batchingOf(model) === 'proving';
  return {
    add(request, outputs) {
      const isFull = compared.length === REQUESTS_THAT_PROVE || rows + request.rows > batching.sharingOf(model).maxRows;
      if (!isProving() || isFull) return;
      const part = { request, fromRow: 0, toRow: request.rows };
      const inputs = inputsOf(part);
      if (known.some((one) => areAlike(one, inputs))) return;
      known.push(inputs);
      compared.push({ part, outputs, row: rows });
      rows += request.rows;
    },
    async compare() {
      if (compared.length < 2 || !isProving()) return;
      const parts = compared.map(({ part }) => part);
      const together = microBatchOf(model, parts, closedBecause);
      const checks = createCheckRuns(invocation);
      const verdict = await compareTogether(together, compared, checks);
      if (verdict.status === 'differ') stopBatching({ ...verdict, maxRows: 1 }, invocation);
      else if (checks.runs > 0)
        batching.proved(model, verdict.status === 'agree' ? compared.length : 0, together.paddedRows);
      if (checks.runs > 0) observer.checked(checks.spentMs);
    },
  };
}

async function compareTogether(
  together: MicroBatch,
  compared: readonly RunBothWays[],
  checks: CheckRuns,
): Promise<Verdict> {
  const ran = await checks.run(together);
  if (ran === undefined) return { status: 'unclear' };
  const [differing] = differingRequests(together, ran.outputs, compared);
  return differing === undefined ? { status: 'agree' } : explainDifference(together, ran.outputs, differing, checks);
}
