import type { GraphNode } from './graph.ts';
import {
  along,
  cumulative,
  einsum,
  gemm,
  matMul,
  normalised,
  oneAxis,
  packedWeights,
  reduction,
  softmaxAxes,
  topK,
} from './rules/axes.ts';
import {
  byFeature,
  classesOf,
  classic,
  counted,
  encodedCategories,
  extracted,
  joined,
  targetsOf,
  tokenised,
} from './rules/classic.ts';
import { cast, elementwise, normalisedText, withFixed } from './rules/elements.ts';
import {
  attention,
  batchNormalised,
  blocks,
  branch,
  convolved,
  distances,
  embedded,
  image,
  pooled,
  pooledWhole,
  recurrent,
  resized,
  rotated,
  scan,
} from './rules/layers.ts';
import { gather, gatherElements, gatherTuples, oneHot, scatterElements, triangle } from './rules/lookUps.ts';
import {
  concat,
  expand,
  filled,
  flatten,
  pad,
  permute,
  quantisedConcat,
  range,
  reshape,
  shapeRule,
  sizeRule,
  slice,
  split,
  squeeze,
  tile,
  unsqueeze,
} from './rules/shapes.ts';
import { givenOf, inputAt, plain, type Rule, refuseOthers, rowsFirst } from './rules/step.ts';
import { axisOf, constantsOf, type Kind, mixes, shapeOf, type Traced, unknown, variesWithRows } from './traced.ts';

/*
 * Defines a rule for each family of operators, which derives the outputs from the inputs. A rule follows the axis of
 * rows. An operator that works across it mixes rows. `docs/models.md` lists the families.
 */

export interface Family {
  /** Condition for independent rows, as the docs state it. */
  readonly apart: string;
  readonly operators: readonly string[];
  readonly rule: Rule;
}

/**
 * @param operators names, separated by white space
 * @param followed inputs that the rule follows. All rows must share all others. @default the first
 */
function family(rule: Rule, apart: string, operators: string, followed: readonly number[] | 'all' = [0]): Family {
  const applied: Rule = (step) => {
    if (followed !== 'all') refuseOthers(step, followed);
    return rule(step);
  };
  return { rule: applied, apart, operators: words(operators) };
}

const byBatch =
  (why: string): Rule =>
  (step) => {
    if (givenOf(step).every(({ kind }) => kind === 'same')) unknown('it is made of constants');
    return mixes(why);
  };

const random: Rule = () => mixes('its answers are random');

const dropout: Rule = (step) => {
  const [isTraining] = step.inputs[2] === undefined ? [0] : (constantsOf(step.inputs[2]) ?? [1]);
  if (isTraining !== 0) mixes('it drops values at random, as in training');
  const data = inputAt(step, 0);
  return [plain(data), plain(data)];
};

function words(text: string): string[] {
  return text.trim().split(/\s+/);
}

const PRODUCTS = 'if neither sums over rows nor multiplies rows with rows';

/** Families of operators. Names without a prefix are in ONNX's own domains, or in ONNX Runtime's if they are unique. */
export const FAMILIES: readonly Family[] = [
  family(
    elementwise,
    'always; no row count, row number or per-row constant may be an operand',
    `Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil Celu Clip
    Cos Cosh Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish Identity IsInf IsNaN
    LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round Selu Shrink
    Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Where Xor BiasGelu FastGelu
    QuickGelu BiasAdd BiasSplitGelu StringConcat RegexFullMatch Binarizer CategoryMapper LabelEncoder
    QLinearAdd QLinearMul QLinearSigmoid QLinearLeakyRelu QLinearWhere`,
    'all',
  ),
  family(normalisedText, 'without stop words', 'StringNormalizer'),
  family(cast, 'always', 'Cast CastLike', 'all'),
  family(withFixed, 'always, unless each row has a scale', 'QuantizeLinear DequantizeLinear', 'all'),
  family(along(softmaxAxes), 'along another axis than the rows', 'Softmax LogSoftmax Hardmax QLinearSoftmax'),
  family(along(oneAxis), 'along another axis than the rows', 'LpNormalization'),
  family(
    normalised,
    'if the rows are before the axes it normalises',
    `LayerNormalization RMSNormalization SimplifiedLayerNormalization SkipLayerNormalization
    SkipSimplifiedLayerNormalization EmbedNormalization`,
    'all',
  ),
  family(batchNormalised, 'outside of training mode', 'BatchNormalization'),
  family(
    rowsFirst((_, data) => shapeOf(data)),
    'if the rows are on axis 0',
    'InstanceNormalization GroupNormalization GroupNorm LRN',
  ),
  family(
    reduction,
    'over other axes than the rows',
    `ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
    ReduceSumSquare ArgMax ArgMin`,
  ),
  family(topK, 'along another axis than the rows', 'TopK', [0, 1]),
  family(cumulative, 'along another axis than the rows', 'CumSum CumProd'),
  family(matMul([0, 1]), PRODUCTS, 'MatMul MatMulInteger MatMulIntegerToFloat FusedMatMul TransposeMatMul', [0, 1]),
  family(matMul([0, 3]), PRODUCTS, 'QLinearMatMul QGemm', [0, 3]),
  family(gemm, PRODUCTS, 'Gemm FusedGemm', [0, 1, 2]),
  family(packedWeights, 'if all rows have the same weights', 'MatMulNBits MatMulBnb4'),
  family(einsum, 'if the letter of the rows is in the result', 'Einsum', 'all'),
  family(
    image(convolved),
    'if the rows are on axis 0 and the weights are the same for all',
    'Conv ConvInteger QLinearConv FusedConv ConvTranspose',
  ),
  family(image(pooled), 'if the rows are on axis 0', 'AveragePool MaxPool LpPool QLinearAveragePool'),
  family(
    image(pooledWhole),
    'if the rows are on axis 0',
    'GlobalAveragePool GlobalMaxPool GlobalLpPool QLinearGlobalAveragePool',
  ),
  family(
    rowsFirst((step, data) => [...shapeOf(data).slice(0, 2), ...shapeOf(inputAt(step, 1)).slice(1, -1)]),
    'if the rows are on axis 0',
    'GridSample',
    [0, 1],
  ),
  family(resized, 'unless the rows are resized', 'Resize Upsample', 'all'),
  family(blocks, 'if the rows are on axis 0', 'DepthToSpace SpaceToDepth'),
  family(permute, 'always', 'Transpose'),
  family(reshape, 'if rows stay the slowest part of an axis', 'Reshape', [0, 1]),
  family(flatten, 'if rows stay the slowest part of an axis', 'Flatten'),
  family(squeeze, 'unless the axis of the rows goes', 'Squeeze'),
  family(unsqueeze, 'always', 'Unsqueeze'),
  family(expand, 'unless rows are repeated', 'Expand', [0, 1]),
  family(tile, 'unless rows are repeated', 'Tile', [0, 1]),
  family(filled, 'always', 'ConstantOfShape'),
  family(shapeRule, 'if the number of rows does not enter the data', 'Shape'),
  family(sizeRule, 'if the number of rows does not enter the data', 'Size'),
  family(range, 'if row numbers do not enter the data', 'Range', 'all'),
  family(slice, 'along other axes than the rows', 'Slice', 'all'),
  family(split, 'along another axis than the rows', 'Split', [0, 1]),
  family(concat, 'along another axis than the rows', 'Concat', 'all'),
  family(quantisedConcat, 'along another axis than the rows', 'QLinearConcat', 'all'),
  family(pad, 'along other axes than the rows', 'Pad', [0, 1]),
  family(gather, "in what all rows share, in each row's own, or along another axis", 'Gather', [0, 1]),
  family(gatherElements, 'along another axis than the rows', 'GatherElements', [0, 1]),
  family(gatherTuples, "in what all rows share, or in each row's own", 'GatherND', [0, 1]),
  family(scatterElements, 'along another axis than the rows', 'ScatterElements Scatter', 'all'),
  family(oneHot, 'if the width is constant', 'OneHot', [0, 1]),
  family(triangle, 'if rows are not on the last two axes', 'Trilu'),
  family(recurrent, 'if the rows are not on the axis of time', 'LSTM GRU RNN', [0, 4, 5, 6]),
  family(scan, 'over what all rows share, if it carries no state', 'Scan', 'all'),
  family(distances, 'from what all rows share', 'CDist', [0, 1]),
  family(branch, 'if rows do not choose the branch', 'If', 'all'),
  family(attention, 'if the rows are on axis 0', 'Attention QAttention MultiHeadAttention GroupQueryAttention', 'all'),
  family(embedded, 'if the rows are on axis 0', 'EmbedLayerNormalization QEmbedLayerNormalization', 'all'),
  family(rotated, 'if the rows are on axis 0', 'RotaryEmbedding', 'all'),
  family(
    classic((step) => [undefined, classesOf(step)]),
    'if the rows are on axis 0',
    'TreeEnsembleClassifier LinearClassifier SVMClassifier',
  ),
  family(
    classic((step) => [targetsOf(step)]),
    'if the rows are on axis 0',
    'TreeEnsembleRegressor TreeEnsemble LinearRegressor SVMRegressor',
  ),
  family(byFeature, 'if the rows are on axis 0', 'Normalizer Imputer Scaler'),
  family(
    classic(() => [undefined]),
    'always',
    'ZipMap',
  ),
  family(extracted, 'along another axis than the rows', 'ArrayFeatureExtractor', [0, 1]),
  family(joined, 'if the rows are on axis 0', 'FeatureVectorizer', 'all'),
  family(encodedCategories, 'always', 'OneHotEncoder'),
  family(tokenised, 'if padding tokens are not counted', 'Tokenizer'),
  family(counted, 'if no word equals the padding', 'TfIdfVectorizer'),
  family(
    byBatch('it scales by the whole batch'),
    'never',
    'DynamicQuantizeLinear DynamicQuantizeMatMul DynamicQuantizeLSTM',
    'all',
  ),
  family(
    along(({ node }, rank) => (node.ints('axes') ?? [0, 2, 3]).map((axis) => axisOf(axis, rank))),
    'never',
    'MeanVarianceNormalization',
  ),
  family(
    byBatch('its rows decide the shape of its output'),
    'never',
    'NonZero Compress Unique NonMaxSuppression StringSplit',
  ),
  family(random, 'never', 'RandomNormal RandomNormalLike RandomUniform RandomUniformLike Bernoulli Multinomial'),
  family(dropout, 'outside of training mode', 'Dropout'),
];

const RULES: ReadonlyMap<string, Rule> = new Map(
  FAMILIES.flatMap(({ operators, rule }) => operators.map((operator) => [operator, rule] as const)),
);

/** Domains of the operators in the table. All others are custom. */
const DOMAINS = new Set(['', 'ai.onnx.ml', 'com.microsoft', 'ai.onnx.preview']);

/** Operators whose rules check how sizes and places depend on the batch. */
const TAKES_SIZES = new Set(
  words(`Concat Reshape Flatten Squeeze Unsqueeze Expand Tile ConstantOfShape Range Slice Split Pad Gather GatherND
    OneHot Resize Upsample TopK Trilu GatherElements`),
);

const TAKES_PADDING = new Set(words('TfIdfVectorizer Reshape Flatten'));

/** Operators exempt from all checks but padding. */
const TAKES_SHAPES = new Set(words('Shape Size CastLike Scan'));

/**
 * Refuses data that depends on the number or order of rows.
 *
 * @returns outputs, dependent on the number of rows if an input is
 */
export function refuseByBatch(
  { operator }: GraphNode,
  inputs: readonly Traced[],
  outputs: readonly Traced[],
): readonly Traced[] {
  if (!TAKES_PADDING.has(operator) && inputs.some(({ padding }) => padding !== undefined))
    mixes('its rows decide how wide its input is');
  if (TAKES_SHAPES.has(operator)) return outputs;
  const has = (kind: Kind): boolean => inputs.some((input) => input.kind === kind);
  if ((has('rows') || has('places')) && outputs.some(({ kind }) => kind === 'same'))
    unknown('it takes rows in a way that is not followed');
  if (TAKES_SIZES.has(operator) || !has('count')) return outputs;
  return outputs.map((output) => {
    if (output.kind === 'rows') mixes('the number of rows enters the data');
    // The number of rows may cancel out, as in rows * length / rows.
    if (output.entries?.some(variesWithRows) === false) return { ...output, kind: 'same' };
    if (output.kind === 'same') return { ...output, kind: 'count' };
    return output.kind === 'equal' ? { ...output, kind: 'places' } : output;
  });
}

export function ruleOf({ domain, operator }: GraphNode): Rule | undefined {
  return DOMAINS.has(domain) ? RULES.get(operator) : undefined;
}
