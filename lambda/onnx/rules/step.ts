import type { Graph, GraphNode } from '../graph.ts';
import {
  axisOf,
  constantsOf,
  hasRows,
  type Met,
  meet,
  mixes,
  type Size,
  sizes,
  type Traced,
  unknown,
} from '../traced.ts';

/* Common parts of rules: a node, its traced inputs, and functions that read them. */

/** Node with its traced inputs. */
export interface Step {
  readonly node: GraphNode;
  /** Undefined if an input is left out. */
  readonly inputs: readonly (Traced | undefined)[];
  /** Version of its operator set. */
  readonly opset: number;
  /** Traces the outputs of a subgraph from its inputs. */
  readonly within: (graph: Graph, inputs?: readonly Traced[]) => Traced[];
  /** Returns a new unknown size. */
  readonly open: () => Size;
}

export type Rule = (step: Step) => Traced | readonly Traced[];

export function inputAt({ inputs }: Step, index: number): Traced {
  return inputs[index] ?? unknown(`it has no input ${index}`);
}

export function givenOf({ inputs }: Step): Traced[] {
  return inputs.filter((input) => input !== undefined);
}

/** Returns numbers that are an attribute, or in later versions an input. Returns undefined if they are left out. */
export function numbersOf(step: Step, attribute: string, input: number): number[] | undefined {
  const given = step.inputs[input];
  if (given === undefined) return step.node.ints(attribute);
  return constantsOf(given) ?? unknown(`its ${attribute} are not constant`);
}

/**
 * Returns the values of an input that decides sizes or places. Returns undefined if it is left out, or unknown but the
 * same for all rows.
 */
export function followSizes({ inputs }: Step, input: number): readonly Size[] | undefined {
  const given = inputs[input];
  if (given !== undefined && given.entries === undefined && given.kind !== 'same')
    unknown('a size is computed from the batch in a way that is not followed');
  return given?.entries;
}

/** Returns axes, counted from the front. */
export function axesOf(step: Step, rank: number, input = 1): number[] | undefined {
  return numbersOf(step, 'axes', input)?.map((axis) => axisOf(axis, rank));
}

export function withSizeAt(shape: readonly Size[], axis: number, size: Size): Size[] {
  return shape.map((one, index) => (index === axis ? size : one));
}

/** Returns an elementwise result of a tensor. */
export function plain({ kind, axis, series, byLength, shape }: Traced): Traced {
  return { kind, axis, series, byLength, shape };
}

export function refuseAlong(data: Traced, axes: readonly number[]): void {
  if (hasRows(data) && axes.includes(data.axis)) mixes(`it works along axis ${data.axis}, the rows`);
}

export function fromAxis(axis: number, rank: number): number[] {
  return Array.from({ length: rank - axis }, (_, index) => axis + index);
}

/** Refuses inputs that depend on the batch, except for those that a rule follows. */
export function refuseOthers({ inputs }: Step, followed: readonly number[]): void {
  const others = inputs.filter((_, index) => !followed.includes(index));
  if (others.some((input) => input !== undefined && hasRows(input)))
    mixes('an input that all rows must share depends on the rows');
  if (others.some((input) => input?.kind === 'count')) unknown('its weights depend on the number of rows');
}

export function refuseOtherAxis(data: Traced, axis: number): void {
  if (hasRows(data) && data.axis !== axis)
    mixes(`it takes axis ${axis} for the rows, and they are on axis ${data.axis}`);
}

/**
 * Combines inputs that have their rows on given axes. All rows must share all other inputs.
 *
 * @param axes axis of the rows by input
 */
export function meetOn(step: Step, axes: Readonly<Record<number, number>>): Met {
  refuseOthers(step, Object.keys(axes).map(Number));
  const named = step.inputs.flatMap((input, index) => (input && axes[index] !== undefined ? [{ input, index }] : []));
  for (const { input, index } of named) refuseOtherAxis(input, axes[index] as number);
  return meet(
    named.map(({ input }) => input),
    named.map(() => 0),
  );
}

/** Returns the rule of an operator with rows on axis 0, and everything else per row. */
export const rowsFirst =
  (shapeOfResult: (step: Step, data: Traced) => readonly Size[]): Rule =>
  (step) => {
    const data = inputAt(step, 0);
    refuseOtherAxis(data, 0);
    const met = meet(givenOf(step));
    if (met.kind !== data.kind) unknown('its weights depend on the batch');
    return { ...met, shape: shapeOfResult(step, data) };
  };

export function quotient(size: Size, by: Size): Size {
  return sizes((a, b) => a / b, size, by);
}

export const CONSTANT_ROWS = 'a constant number of rows meets the rows';

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
export function family(
  rule: Rule,
  apart: string,
  operators: string,
  followed: readonly number[] | 'all' = [0],
): Family {
  const applied: Rule = (step) => {
    if (followed !== 'all') refuseOthers(step, followed);
    return rule(step);
  };
  return { rule: applied, apart, operators: operators.trim().split(/\s+/) };
}
