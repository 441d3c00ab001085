import type { GraphNode } from '../graph.ts';
import {
  constantSize,
  constantsOf,
  hasRows,
  type Kind,
  meet,
  mixes,
  ONE,
  productOf,
  type Size,
  shapeOf,
  type Traced,
  unknown,
  variesWithRows,
} from '../traced.ts';
import { ALONG_AXES } from './axes.ts';
import { ELEMENTWISE } from './elements.ts';
import { LAYERS } from './layers.ts';
import { LOOK_UPS } from './lookUps.ts';
import { joinedAlong, reshaped, SHAPES } from './shapes.ts';
import { type Family, family, givenOf, inputAt, plain, type Rule, refuseOtherAxis, type Step } from './step.ts';

/*
 * Defines a rule for each family of operators, which derives the outputs from the inputs. A rule follows the axis of
 * rows. An operator that works across it mixes rows. `docs/models.md` lists the families. Rules of one domain are in files
 * beside this one; those of ai.onnx.ml, of texts and of randomness are here.
 */

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

/** Returns the rule of an operator with rows on axis 0 and outputs of one or two axes. */
const classic =
  (widths: (step: Step, data: Traced) => readonly (Size | undefined)[]): Rule =>
  (step) => {
    const data = inputAt(step, 0);
    refuseOtherAxis(data, 0);
    if (hasRows(data) && shapeOf(data).length === 1 && step.node.operator !== 'LabelEncoder') {
      // Some of these operators take a vector as one row, others as rows of one feature each.
      mixes('it may take a vector of rows for the features of one');
    }
    const [rows = ONE] = shapeOf(data);
    return widths(step, data).map((width) => ({ ...plain(data), shape: width === undefined ? [rows] : [rows, width] }));
  };

/** Rule of an operator with a value for each feature: it may take a vector of rows for the features of one. */
const byFeature: Rule = (step) => {
  const [made] = classic(() => [undefined])(step) as [Traced];
  return { ...made, shape: shapeOf(inputAt(step, 0)) };
};

function lengthOfList({ node }: Step, ...names: readonly string[]): Size | undefined {
  for (const name of names) {
    const count = Math.max(node.ints(name)?.length ?? 0, node.texts(name).length);
    if (count > 0) return constantSize(count);
  }
  return undefined;
}

const classesOf = (step: Step): Size =>
  lengthOfList(step, 'classlabels_strings', 'classlabels_ints', 'classlabels_int64s') ?? step.open();

const targetsOf = ({ node }: Step): Size => constantSize(node.int('n_targets') ?? node.int('targets', 1));

const extracted: Rule = (step) => {
  const [data, indices] = [inputAt(step, 0), inputAt(step, 1)];
  const shape = shapeOf(data);
  const isVector = shape.length === 1;
  const width = productOf(shapeOf(indices));
  if (!hasRows(data)) {
    // It makes one row of a vector, and keeps the rows of other tensors.
    const before = isVector ? [ONE] : shape.slice(0, -1);
    const flat = hasRows(indices) ? reshaped(indices, [...before.map(() => ONE), width]) : indices;
    return { ...meet([data, indices], [-1, flat.axis]), axis: flat.axis, shape: [...before, width] };
  }
  if (data.axis === shape.length - 1) mixes('it takes rows by their places');
  if (indices.kind !== 'same') mixes('rows decide what it takes of each');
  return { ...plain(data), shape: [...shape.slice(0, -1), width] };
};

const joined: Rule = (step) => {
  if (givenOf(step).some((input) => shapeOf(input).length !== 2))
    mixes('it may take a vector of rows for the features of one');
  return joinedAlong(1, givenOf(step));
};

const encodedCategories: Rule = (step) => {
  const data = inputAt(step, 0);
  const width = lengthOfList(step, 'cats_strings', 'cats_int64s') ?? step.open();
  return { ...plain(data), shape: [...shapeOf(data), width] };
};

/** Rule of counting operators. Words beyond the end of a row are padding, which no vocabulary has. */
const counted: Rule = (step) => {
  const data = inputAt(step, 0);
  const shape = shapeOf(data);
  const width = step.node.ints('ngram_indexes')?.reduce((max, one) => Math.max(max, one + 1), 0);
  if (shape.length === 1 && hasRows(data)) mixes('it counts over all rows');
  if (data.padding !== undefined && step.node.texts('pool_strings').includes(data.padding))
    mixes('it counts the padding, which rows decide');
  return { ...plain(data), shape: [...shape.slice(0, -1), width === undefined ? step.open() : constantSize(width)] };
};

/** Rule of text normalization, which drops stop words. */
const normalisedText: Rule = (step) => {
  const data = inputAt(step, 0);
  if (step.node.has('stopwords') && data.kind !== 'same') mixes('its rows decide the shape of its output');
  return plain(data);
};

const tokenised: Rule = (step) => {
  const data = inputAt(step, 0);
  const padding = step.node.text('pad_value', '');
  return { ...plain(data), padding, shape: [...shapeOf(data), step.open()] };
};

const CLASSIC: readonly Family[] = [
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
  family(normalisedText, 'without stop words', 'StringNormalizer'),
  family(tokenised, 'if padding tokens are not counted', 'Tokenizer'),
  family(counted, 'if no word equals the padding', 'TfIdfVectorizer'),
];

/** Families of operators. Names without a prefix are in ONNX's own domains, or in ONNX Runtime's if they are unique. */
export const FAMILIES: readonly Family[] = [
  ...ELEMENTWISE,
  ...ALONG_AXES,
  ...LAYERS,
  ...SHAPES,
  ...LOOK_UPS,
  ...CLASSIC,
  family(
    byBatch('it scales by the whole batch'),
    'never',
    'DynamicQuantizeLinear DynamicQuantizeMatMul DynamicQuantizeLSTM',
    'all',
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
  [...SHAPES, ...LOOK_UPS].flatMap(({ operators }) => operators).concat('Resize', 'Upsample', 'TopK'),
);

const TAKES_PADDING = new Set(['TfIdfVectorizer', 'Reshape', 'Flatten']);

/** Operators exempt from all checks but padding. */
const TAKES_SHAPES = new Set(['Shape', 'Size', 'CastLike', 'Scan']);

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
