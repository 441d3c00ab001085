import type { Part, ScoringRequest } from '../core/microBatch.ts';
import { listNames, type Model } from '../core/model.ts';
import type { AxisSizes } from './contract.ts';
import { type Manner, makeUp, realProbes, rowShapes } from './probes.ts';
import type { RowProof } from './proveRows.ts';
import { type RowTrial, tryRows } from './tryRows.ts';

/** Setting of config.json: requests share runs always, or never. */
export type Batching = 'trust' | 'alone';

export interface Decided {
  readonly model: Model;
  readonly probes: number;
  /** Decision and reason, for the start log. */
  readonly found: string;
  readonly warnings: readonly string[];
}

/** A request is the unit: its rows stay together. */
const ALONE = 'requests run one at a time';

interface Known {
  readonly proof: RowProof;
  readonly batching: Batching | undefined;
  /** Difference between runs of several equal rows and of one, or undefined if there is none. */
  readonly differs: string | undefined;
  readonly samples: readonly ScoringRequest[];
  /** True if made-up values may keep a loop of the model from ending. */
  readonly hasLoop: boolean;
  /** False if nothing may be tried. */
  readonly sizes: boolean | AxisSizes;
  /** Sizes of symbolic axes at which it ran. Undefined if it did not run. */
  readonly ranAt: AxisSizes | undefined;
}

/**
 * Decides if requests of a model share runs, after a trial if its graph does not tell.
 *
 * @throws Error if not even single rows are answered correctly, or the rows are on another axis
 */
export async function decideBatching(model: Model, known: Known): Promise<Decided> {
  const { proof, batching } = known;
  const isTried = batching === undefined && proof.verdict === 'unknown' && known.sizes !== false;
  return decide(model, known, isTried ? await tryRows(model, rowsToTry(model, known)) : undefined);
}

const MANNERS: readonly Manner[] = ['unit', 'large', 'small', 'wide', 'ones', 'unit', 'zeros', 'unit'];

/** Returns real rows, or made-up ones at the sizes at which the model ran. */
function rowsToTry(model: Model, { samples, hasLoop, ranAt }: Known): readonly Part[] {
  const real = realProbes(samples, MANNERS.length);
  const length = real[0]?.request.length;
  if (real.length > 1) return real.filter(({ request }) => request.length === length);
  return hasLoop || ranAt === undefined ? [] : makeUp(model, rowShapes(model, ranAt, 1), MANNERS);
}

function decide(model: Model, { proof, batching, differs }: Known, tried: RowTrial | undefined): Decided {
  const { verdict, why } = proof;
  const probes = tried?.rows ?? 0;
  const decided = (sharing: 'compared' | 'trusted', evidence: string): Decided => {
    return { model: { ...model, independence: verdict, sharing, evidence }, probes, found: evidence, warnings: [] };
  };
  const runAlone = (evidence: string, warnings: readonly string[] = []): Decided => {
    return {
      model: alone({ ...model, independence: verdict, evidence }),
      probes,
      found: `${ALONE}: ${evidence}`,
      warnings,
    };
  };
  if (batching === 'trust') {
    return decided('trusted', 'config.json says "batching": "trust", so they are not compared');
  }
  if (batching === 'alone') return runAlone('config.json says "batching": "alone"');
  if (differs !== undefined && verdict !== 'mixes') {
    const evidence = `ONNX Runtime answers equal rows differently: ${differs}`;
    refuseFixedRows(model, evidence, CURE_OF_KERNELS);
    return runAlone(evidence, [`${ALONE}, because ${evidence}; ${CURE_OF_KERNELS}`]);
  }
  if (verdict === 'independent') return decided('compared', 'rows are independent, by the graph of the model');
  if (verdict === 'unknown' && tried?.outcome === 'agree') {
    return decided('compared', `the graph does not tell if rows are independent (${why}); ${tried.seen}`);
  }
  const seen = tried === undefined ? '' : `; ${tried.seen}`;
  const what = verdict === 'mixes' ? 'rows depend on each other' : 'the graph does not tell if rows are independent';
  const evidence = `${what}: ${why}${seen}`;
  const cure = cureOf(proof, tried);
  refuseFixedRows(model, evidence, cure);
  refuseOtherAxis(model, proof, evidence);
  // If each run has one row, no row has neighbours.
  if (model.maxBatchRows === 1) return runAlone(evidence);
  const meant = 'or set "batching": "alone" in config.json if that is intended';
  return runAlone(evidence, [`${ALONE}, because ${evidence}; ${cure}, ${meant}`]);
}

/** Refuses a model that mixes rows if every run has several rows, because no row is then answered alone. */
function refuseFixedRows({ allowedSizes, inputs }: Model, found: string, cure: string): void {
  const [smallest = 1] = allowedSizes;
  if (smallest === 1) return;
  const fixed = inputs.filter(({ shape }) => typeof shape[0] === 'number');
  const ofSome =
    fixed.length === 0 || fixed.length === inputs.length
      ? ''
      : `; the size is that of ${listNames(fixed)} alone: if that is the same for all requests, give its value as "constants" in ` +
        'config.json; if its batch is on another axis, name that as "batchAxis"';
  throw new Error(
    `${found}; the model runs with ${smallest} rows or more, so no row has an answer of its own: ${cure}, export it ` +
      `with a dynamic batch axis, or correct the allowed sizes in config.json${ofSome}; or, if its rows are independent after ` +
      'all, set "batching": "trust" there',
  );
}

const CURE_OF_KERNELS =
  'try "sessionOptions": {"graphOptimizationLevel": "basic"} in config.json, or another version of ONNX Runtime';

const RECURRENT = new Set(['LSTM', 'GRU', 'RNN']);

/** Refuses a model whose rows are on another axis: that of an output, or probably axis 1 of a recurrent model. */
function refuseOtherAxis({ inputs }: Model, { operator, batchAxis }: RowProof, found: string): void {
  const [first] = inputs;
  const hasRowsAsTime = RECURRENT.has(operator) && inputs.every((input) => !input.batchAxis);
  const isOpen = typeof first?.shape[1] === 'string';
  const declared = batchAxis ?? (hasRowsAsTime && isOpen ? { [first.name]: 1 } : undefined);
  if (declared === undefined) return;
  const otherwise = batchAxis === undefined ? ', or export the model with batch_first' : '';
  throw new Error(
    `${found}; declare the batch axis as "batchAxis": ${JSON.stringify(declared)} in config.json${otherwise}; if axis 0 is ` +
      'the batch after all, set "batching": "alone" there',
  );
}

const CURE_OF_DYNAMIC_QUANTISATION = 'quantise statically (onnxruntime.quantization.quantize_static)';

function cureOf({ verdict, operator }: RowProof, tried: RowTrial | undefined): string {
  if (operator.startsWith('DynamicQuantize')) return CURE_OF_DYNAMIC_QUANTISATION;
  if (operator === 'BatchNormalization' || operator.includes('Dropout'))
    return 'export the model for inference (PyTorch: model.eval() first)';
  if (verdict === 'mixes') return 'export the model so that no operator works across its rows';
  if (tried?.outcome === 'untried')
    return 'put real requests into samples.jsonl beside config.json, or set "batching": "trust" there';
  return 'export the model without it';
}

function alone(model: Model): Model {
  const [smallest = 1] = model.allowedSizes;
  if (smallest > 1) {
    throw new Error(
      `"batching": expected a model that runs one row, to run requests alone, got one that runs with ${smallest} or more; ` +
        'export it with a dynamic batch axis, or correct the allowed sizes in config.json',
    );
  }
  // A padded run would put padding rows beside those of the request.
  return { ...model, sharing: 'never', allowedSizes: [] };
}
