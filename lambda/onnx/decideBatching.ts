import { plural } from '../core/failure.ts';
import { listNames, type Model, type RaggedAxis } from '../core/model.ts';
import type { RowCheck } from './independence.ts';
import type { ModelGraph, Operator } from './modelFile.ts';

/** What config.json may say instead of the checks: requests share runs whatever they would find, or never. */
export type Batching = 'trust' | 'alone';

export interface Decided {
  readonly model: Model;
  /** What was decided and why, for the start log. */
  readonly found: string;
  readonly warnings: readonly string[];
}

export function overriddenBatching(model: Model, batching: Batching): Decided {
  if (batching === 'trust') {
    const found = 'requests share runs unchecked, as "batching": "trust" in config.json says';
    return { model: { ...model, independence: 'trusted' }, found, warnings: [] };
  }
  return {
    model: alone(model),
    found: `${ALONE}, as "batching": "alone" in config.json says`,
    warnings: [],
  };
}

/** A request is the unit: its rows stay together. */
const ALONE = 'requests run one at a time';
const ALONE_UNTIL_PROVED = `${ALONE} until real ones have proved that their rows are independent`;

const UNCHECKED = '"warmup": false in config.json switches the checks at start off';

/** The model of which nothing was checked: real requests have to prove that its rows are independent. */
export function notChecked(model: Model, graph: ModelGraph): Decided {
  if (isDynamicallyQuantised(graph)) return dependent(model, UNCHECKED, graph);
  return {
    model: { ...model, independence: 'unproven' },
    found: `${ALONE_UNTIL_PROVED}: ${UNCHECKED}`,
    warnings: [],
  };
}

/** The warning where requests of different lengths may share a run, and nothing was run. */
export function paddingNotChecked({ name }: RaggedAxis): string {
  return `whether padding '${name}' changes answers is not checked, because ${UNCHECKED}`;
}

/**
 * The model as the check of its rows allows it to be run.
 *
 * @throws Error where even one row at a time would be answered wrongly
 */
export function decideBatching(
  model: Model,
  { verdict, finding, largest, fewer, verifiedRows }: RowCheck,
  graph: ModelGraph,
): Decided {
  // Where no row ever runs alone, no check of real requests finds what no probe has shown.
  const isHidden = (model.allowedSizes[0] ?? 1) > 1 && worksOverBatch(model, graph);
  if (verdict !== 'dependent' && (isHidden || isDynamicallyQuantised(graph))) {
    return dependent(model, `${finding}, yet other rows may differ by their neighbours`, graph);
  }
  switch (verdict) {
    case 'independent': {
      const byCount = fewer?.because === 'row count';
      const maxBatchRows = byCount ? model.maxBatchRows : (fewer?.rows ?? model.maxBatchRows);
      const maxSharedRows = byCount ? fewer.rows : undefined;
      const isCutShort = verifiedRows !== undefined && verifiedRows < maxBatchRows;
      return {
        model: {
          ...model,
          independence: 'proved',
          largestDifference: largest,
          maxBatchRows,
          verifiedRows,
          maxSharedRows,
        },
        found: `rows are independent: ${finding}`,
        warnings: [
          ...(fewer === undefined ? [] : [fewerRows(model, fewer)]),
          ...(isCutShort ? [cutShort(maxBatchRows, verifiedRows)] : []),
        ],
      };
    }
    case 'unknown': {
      const found = ALONE_UNTIL_PROVED;
      const cure = 'put real requests into samples.jsonl beside config.json, or set "batching": "trust" there';
      const warning = `whether rows are independent could not be checked: ${finding}; ${found}; ${cure}`;
      return { model: { ...model, independence: 'unproven' }, found: `${found}: ${finding}`, warnings: [warning] };
    }
    case 'dependent':
      return dependent(model, finding, graph);
  }
}

function fewerRows({ maxBatchRows }: Model, { rows, tried, reason, because }: NonNullable<RowCheck['fewer']>): string {
  if (because === 'row count') {
    return (
      `requests share runs of ${plural(rows, 'row')} at most of ${maxBatchRows}, and none is split, because the number of rows changes ` +
      `answers: ${reason}; export the model so that it does not`
    );
  }
  return (
    `a run has ${plural(rows, 'row')} at most of ${maxBatchRows}, because of one of ${tried}: ${reason}; set how many the model takes ` +
    'as "maxBatchRows" in config.json'
  );
}

function cutShort(maxBatchRows: number, verifiedRows: number): string {
  return (
    `the check of its rows was cut short at runs of ${verifiedRows} rows of ${maxBatchRows}: larger runs are made step by ` +
    'step, each compared with requests alone before it is written'
  );
}

function dependent(model: Model, finding: string, graph: ModelGraph): Decided {
  if (
    isRecurrent(graph) &&
    !isDynamicallyQuantised(graph) &&
    model.inputs.every(({ batchAxis = 0 }) => batchAxis === 0)
  ) {
    throw new Error(
      `${finding}; probable cause: a recurrent layer whose time axis is axis 0: declare the batch axis as ` +
        `"batchAxis": {"${model.inputs[0]?.name}": 1} in config.json, or export the model with batch_first; where axis 0 ` +
        `is the batch, ${explainMixing(graph)}, and until then set "batching": "alone" in config.json`,
    );
  }
  const cause = explainMixing(graph);
  const bakedTo = model.allowedSizes[0] ?? 1;
  if (bakedTo > 1) {
    throw new Error(
      `${finding}; ${cause}; the model runs with ${bakedTo} rows or more, so that not even a row alone is answered ` +
        `rightly: export it with a dynamic batch axis, or correct the allowed sizes in config.json${cureOfOddInputs(model)}` +
        '; or, where its rows are independent all the same, set "batching": "trust" there',
    );
  }
  const found = `${ALONE}: ${finding}`;
  return {
    model: alone(model),
    found,
    warnings: [
      `${found}; ${cause}; or, to have requests share runs all the same, set "batching": "trust" in config.json`,
    ],
  };
}

/** An input of a fixed size, where others take any number of rows, may have no rows at all. */
function cureOfOddInputs({ inputs }: Model): string {
  const fixed = inputs.filter(({ shape }) => typeof shape[0] === 'number');
  return fixed.length === 0 || fixed.length === inputs.length
    ? ''
    : `; the size is that of ${listNames(fixed)} alone: where that is the same for all requests, give its value as ` +
        '"constants" in config.json; where its batch is on another axis, name that as "batchAxis"';
}

function alone(model: Model): Model {
  const [smallest = 1] = model.allowedSizes;
  if (smallest > 1) {
    throw new Error(
      `"batching": expected a model that runs one row, to run requests alone, got one that runs with ${smallest} or more; ` +
        'export it with a dynamic batch axis, or correct the allowed sizes in config.json',
    );
  }
  // A run that is padded up to an allowed size would have rows that nobody sent beside those of the request.
  return { ...model, independence: 'dependent', allowedSizes: [] };
}

const DYNAMIC_QUANTISATION = [
  'DynamicQuantizeLinear',
  'DynamicQuantizeMatMul',
  'DynamicQuantizeLSTM',
  'MatMulIntegerToFloat',
];
const RECURRENT = ['LSTM', 'GRU', 'RNN'];

/**
 * Whether the scale of activations is taken over all rows of a run. No check proves the rows of such a model: those that are
 * alike, such as words of a small table, have one scale, and labels hide what neighbours change.
 */
export function isDynamicallyQuantised({ operators }: ModelGraph): boolean {
  return DYNAMIC_QUANTISATION.some((name) => operators.has(name));
}

/** Whether a recurrent layer may have axis 0 for its time axis. */
function isRecurrent({ operators }: ModelGraph): boolean {
  return RECURRENT.some((name) => operators.has(name));
}

export const CURE_OF_DYNAMIC_QUANTISATION = 'quantise statically (onnxruntime.quantization.quantize_static)';

/** Why rows probably depend on each other, and what to do. */
function explainMixing(graph: ModelGraph): string {
  if (isDynamicallyQuantised(graph)) {
    return (
      'probable cause: dynamic quantisation, which takes the scale of its activations from all rows of a run; ' +
      CURE_OF_DYNAMIC_QUANTISATION
    );
  }
  const training = namesWhere(graph, ({ training }) => training);
  if (training !== '') {
    return `probable cause: ${training} in training mode; export the model for inference (PyTorch: model.eval() first)`;
  }
  const overBatch = operatorsOverBatch(graph);
  if (overBatch !== '') {
    return `probable cause: ${overBatch} along axis 0, the batch axis; have it work along another one, and export again`;
  }
  return 'an operator works across axis 0: export the model so that none does';
}

/** Others, such as Gather and Concat, do so too when they compute shapes. */
export const WORKS_ALONG_AN_AXIS = /softmax|Hardmax|^Reduce|^Arg|^TopK|Normalization|^Unique|^Compress|^CumSum/i;

function operatorsOverBatch(graph: ModelGraph): string {
  return namesWhere(graph, ({ overBatch }, name) => overBatch && WORKS_ALONG_AN_AXIS.test(name));
}

function worksOverBatch({ inputs }: Model, graph: ModelGraph): boolean {
  return inputs.every(({ batchAxis = 0 }) => batchAxis === 0) && operatorsOverBatch(graph) !== '';
}

function namesWhere({ operators }: ModelGraph, isMeant: (operator: Operator, name: string) => boolean): string {
  return [...operators].flatMap(([name, operator]) => (isMeant(operator, name) ? [name] : [])).join(', ');
}
