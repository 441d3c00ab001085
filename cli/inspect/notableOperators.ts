import { WORKS_ALONG_AN_AXIS } from '../../lambda/onnx/decideBatching.ts';
import type { ModelGraph } from '../../lambda/onnx/modelFile.ts';
import { ONNX_DOMAIN, type OnnxFile, type OperatorUse } from './onnxFile.ts';

/** An operator, or several of one kind, that decide how a model may be batched, padded or deployed. */
export interface NotableOperators {
  readonly names: readonly string[];
  readonly count: number;
  /** What it means for the model. */
  readonly why: string;
}

type Found = OperatorUse & { readonly overBatch: boolean; readonly training: boolean };

interface Kind {
  readonly is: (operator: Found) => boolean;
  readonly why: string;
  /** Whether it matters only where an axis other than the batch axis is open. */
  readonly ofLengths?: true;
}

const named =
  (names: RegExp): Kind['is'] =>
  ({ name, isFunction }) =>
    !isFunction && names.test(name);

/** Domains that ONNX Runtime has operators of by itself. */
const KNOWN_DOMAINS = [ONNX_DOMAIN, 'ai.onnx.ml', 'com.microsoft', 'com.microsoft.nchwc', 'com.microsoft.dml'];

/** An operator is of the first kind that it fits. */
const KINDS: readonly Kind[] = [
  {
    is: ({ domain, isFunction }) => !isFunction && !KNOWN_DOMAINS.includes(domain),
    why: 'of a domain that ONNX Runtime has no operators of: the model does not open',
  },
  {
    is: named(/^(DynamicQuantizeLinear|DynamicQuantizeMatMul|DynamicQuantizeLSTM|MatMulIntegerToFloat)$/),
    why: 'dynamic quantisation: the scale is taken over all rows of a run, so rows depend on each other',
  },
  { is: ({ training }) => training, why: 'in training mode: takes its figures from all rows of a run' },
  {
    is: ({ overBatch, name }) => overBatch && WORKS_ALONG_AN_AXIS.test(name),
    why: 'along axis 0, which is the batch axis unless config.json says otherwise: may mix rows',
  },
  {
    is: named(/^(RandomNormal|RandomUniform|Multinomial|Bernoulli)/),
    why: 'random: the same row is answered differently, so nothing can be proved of it',
  },
  {
    is: named(/^(LSTM|GRU|RNN|Scan)$/),
    why: 'recurrent: axis 0 may be time, not the batch; padding after the end may change the last state',
  },
  {
    is: named(/^Loop$/),
    why: 'how often it turns may depend on the data: rows that share a run may wait for the longest',
  },
  { is: named(/^If$/), why: 'one branch for all rows of a run' },
  {
    is: named(/^(NonZero|NonMaxSuppression|Unique|Compress)$/),
    why: 'gives as many elements as the data has: its output may have no batch axis',
  },
  {
    is: named(
      /^(QLinear|QGemm$|QAttention$|QEmbed|QOrdered|ConvInteger$|MatMulInteger$|QuantizeLinear$|DequantizeLinear$|MatMulNBits$|MatMulBnb4$)/,
    ),
    why: 'quantised: smaller and often faster on a CPU, rounds more',
  },
  {
    is: named(/(Attention|^Softmax)$/),
    why: 'a length that is padded must be masked here; the check of padding at start tells',
    ofLengths: true,
  },
  {
    is: named(/^(Global(Average|Max|Lp)Pool|InstanceNormalization|GroupNormalization)$/),
    why: 'takes in whole axes: padding along them changes answers',
    ofLengths: true,
  },
  {
    is: named(/^(Conv|ConvTranspose|FusedConv|QLinearConv)$/),
    why: 'one row may keep all cores busy already: profile the model before batching it',
  },
  {
    is: named(/^TreeEnsemble/),
    why: 'trees: thresholds decide, so inputs that were rounded may end at another leaf',
  },
  {
    is: named(/^(Rfft|Irfft)$/),
    why: 'on a GPU needs cuFFT, which the image leaves out unless cufft is set',
  },
  {
    is: named(
      /^(StringNormalizer|StringConcat|StringSplit|TfIdfVectorizer|LabelEncoder|RegexFullMatch|Tokenizer|CategoryMapper)$/,
    ),
    why: 'works on strings or words, on the CPU alone',
  },
];

/**
 * The operators that matter, of one kind each; none where nothing but ordinary arithmetic is in the model.
 *
 * @param hasLengths whether requests may differ in size along another axis than that of the batch
 */
export function notableOperators(
  { operators }: OnnxFile,
  graph: ModelGraph,
  hasLengths: boolean,
): readonly NotableOperators[] {
  const kinds = KINDS.filter(({ ofLengths }) => ofLengths !== true || hasLengths);
  const found = operators.map((operator): Found => {
    const { overBatch = false, training = false } = graph.operators.get(operator.name) ?? {};
    return { ...operator, overBatch, training };
  });
  const kindOf = new Map(found.map((operator) => [operator, kinds.find(({ is }) => is(operator))]));
  return kinds.flatMap((kind) => {
    const own = found.filter((operator) => kindOf.get(operator) === kind);
    if (own.length === 0) return [];
    return [{ names: own.map(fullName), count: own.reduce((sum, { count }) => sum + count, 0), why: kind.why }];
  });
}

function fullName({ name, domain }: OperatorUse): string {
  return domain === ONNX_DOMAIN ? name : `${domain}:${name}`;
}
