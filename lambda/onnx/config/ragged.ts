import { isFailure } from '../../core/failure.ts';
import { axisRowsFirst, type RaggedAxis, shapeInModel, type TensorSpec } from '../../core/model.ts';
import { decodeData } from '../../core/values.ts';
import type { ModelContract } from '../session/contract.ts';
import type { RaggedConfig } from './modelConfig.ts';

/**
 * The ragged axis that config.json declares, as the model itself has it.
 *
 * @throws Error naming what does not agree with the model
 */
export function readRagged(
  config: RaggedConfig,
  { inputs, outputs }: Pick<ModelContract, 'inputs' | 'outputs'>,
): RaggedAxis {
  const { axis, pad, cut = {}, ladder = [] } = config;
  const raggedInputs = inputs.filter(({ shape }) => axesNamed(axis, shape).length > 0);
  if (raggedInputs.length === 0) {
    throw new Error(`ragged.axis: expected a symbolic axis of the inputs (${symbolicAxes(inputs)}), got '${axis}'`);
  }
  refuseOtherNames('ragged.pad', Object.keys(pad), raggedInputs);
  refuseOtherNames('ragged.cut', Object.keys(cut), outputs, 'some of');
  return {
    name: axis,
    inputs: inputs.map((spec) => readInput(spec, axis, pad[spec.name])),
    outputs: outputs.map((spec) => readOutput(spec, axis, cut[spec.name])),
    ladder: ladder.toSorted((a, b) => a - b),
  };
}

function axesNamed(name: string, shape: TensorSpec['shape']): number[] {
  return shape.flatMap((dim, axis) => (axis > 0 && dim === name ? [axis] : []));
}

function symbolicAxes(specs: readonly TensorSpec[]): string {
  const names = specs.flatMap(({ shape }) => shape.slice(1)).filter((dim) => typeof dim === 'string');
  return [...new Set(names)].join(', ') || 'it has none';
}

function refuseOtherNames(key: string, got: readonly string[], specs: readonly TensorSpec[], some = 'each of'): void {
  const known = specs.map(({ name }) => name);
  const missing = some === 'each of' ? known.filter((name) => !got.includes(name)) : [];
  if (missing.length === 0 && got.every((name) => known.includes(name))) return;
  throw new Error(`${key}: expected ${some} ${known.join(', ')}, got ${got.join(', ') || 'none'}`);
}

function readInput(spec: TensorSpec, axisName: string, pad: unknown): RaggedAxis['inputs'][number] {
  const { name, datatype, shape } = spec;
  const [axis, second] = axesNamed(axisName, shape);
  if (axis === undefined) return undefined;
  if (second !== undefined) {
    throw new Error(`ragged.axis: expected '${axisName}' once in input '${name}', got ${show(spec)}`);
  }
  const decoded = decodeData([pad], datatype, [1], () => `ragged.pad.${name}`);
  if (isFailure(decoded)) throw new Error(decoded.message);
  return { axis, pad: decoded[0] as number | bigint | string };
}

/** @param declared the axis that is cut back, as the model counts its axes */
function readOutput(spec: TensorSpec, axisName: string, declared: number | undefined): number | undefined {
  const { name, shape, batchAxis = 0 } = spec;
  const [axis, second] = axesNamed(axisName, shape);
  if (declared !== undefined) {
    const cutAxis = axisRowsFirst(spec, declared);
    // The shape of an output may be unknown until it is run.
    if (cutAxis > 0 && (shape.length === 0 || typeof shape[cutAxis] === 'string')) return cutAxis;
    throw new Error(
      `ragged.cut.${name}: expected a symbolic axis of ${show(spec)} other than the batch axis ${batchAxis}, got ${declared}`,
    );
  }
  if (second !== undefined) {
    throw new Error(`ragged.axis: expected '${axisName}' once in output '${name}', got ${show(spec)}`);
  }
  return axis;
}

function show(spec: TensorSpec): string {
  return `[${shapeInModel(spec, spec.shape).join(', ')}]`;
}
