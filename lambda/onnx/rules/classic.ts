import { constantSize, hasRows, meet, mixes, ONE, productOf, type Size, shapeOf, type Traced } from '../traced.ts';
import { joinedAlong, reshaped } from './shapes.ts';
import { type Family, family, givenOf, inputAt, plain, type Rule, type Step } from './step.ts';

/* Rules of ai.onnx.ml operators, which have rows on axis 0. */

/** Returns the rule of an operator with rows on axis 0 and outputs of one or two axes. */
const classic =
  (widths: (step: Step, data: Traced) => readonly (Size | undefined)[]): Rule =>
  (step) => {
    const data = inputAt(step, 0);
    if (hasRows(data) && data.axis !== 0) mixes(`it takes axis 0 for the rows, and they are on axis ${data.axis}`);
    if (hasRows(data) && shapeOf(data).length === 1 && step.node.operator !== 'LabelEncoder') {
      // These operators take a vector as one row, or as many rows of one feature.
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

const tokenised: Rule = (step) => {
  const data = inputAt(step, 0);
  const padding = step.node.text('pad_value', '');
  return { ...plain(data), padding, shape: [...shapeOf(data), step.open()] };
};

export const CLASSIC: readonly Family[] = [
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
];
