import type { GraphNode } from './graph.ts';
import { ALONG_AXES } from './rules/axes.ts';
import { CLASSIC } from './rules/classic.ts';
import { ELEMENTWISE } from './rules/elements.ts';
import { LAYERS } from './rules/layers.ts';
import { LOOK_UPS } from './rules/lookUps.ts';
import { SHAPES } from './rules/shapes.ts';
import { type Family, family, givenOf, inputAt, plain, type Rule } from './rules/step.ts';
import { constantsOf, type Kind, mixes, type Traced, unknown, variesWithRows } from './traced.ts';

/*
 * Defines a rule for each family of operators, which derives the outputs from the inputs. A rule follows the axis of
 * rows. An operator that works across it mixes rows. `docs/models.md` lists the families.
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
