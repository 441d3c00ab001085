import {
  axisOf,
  constantOf,
  constantSize,
  hasRows,
  isEqual,
  mixes,
  ONE,
  type Size,
  shapeOf,
  sizeAt,
  sizes,
  type Traced,
  unknown,
} from '../traced.ts';
import { followSizes, fromAxis, inputAt, plain, type Rule, rowsFirst, type Step } from './step.ts';

/* Rules of convolutions, pools and similar operators, which have rows on axis 0. */

/** Returns the rule for images with rows on axis 0, and weights that are the same for all. */
export const image =
  (shapeOfResult: (step: Step, data: Traced) => readonly Size[]): Rule =>
  (step) => {
    if (step.node.int('channels_last', 0) === 1) unknown('it has the channels last');
    const made = rowsFirst(shapeOfResult)(step) as Traced;
    // Indexes of a pool count through all rows.
    return [made, { ...made, kind: hasRows(made) ? 'places' : made.kind }];
  };

interface Window {
  readonly kernel: readonly number[];
  readonly isTransposed?: boolean;
}

function slid(step: Step, spatial: readonly Size[], { kernel, isTransposed = false }: Window): Size[] {
  const { node } = step;
  const strides = node.ints('strides') ?? [];
  const dilations = node.ints('dilations') ?? [];
  const pads = node.ints('pads') ?? [];
  const more = node.ints('output_padding') ?? [];
  const given = node.ints('output_shape');
  const automatic = node.text('auto_pad', 'NOTSET');
  const round = node.int('ceil_mode', 0) === 1 ? Math.ceil : Math.floor;
  return spatial.map((size, axis) => {
    const stride = strides[axis] ?? 1;
    const reach = ((kernel[axis] ?? 1) - 1) * (dilations[axis] ?? 1) + 1;
    const padding = (pads[axis] ?? 0) + (pads[axis + spatial.length] ?? 0);
    const isSame = automatic.startsWith('SAME');
    if (isTransposed && given !== undefined) return constantSize(given[axis] ?? 1);
    if (isTransposed)
      return sizes((one) => (isSame ? one * stride : stride * (one - 1) + (more[axis] ?? 0) + reach - padding), size);
    return sizes((one) => (isSame ? Math.ceil(one / stride) : round((one + padding - reach) / stride) + 1), size);
  });
}

export const convolved = (step: Step, data: Traced): Size[] => {
  const weights = inputAt(step, step.node.operator === 'QLinearConv' ? 3 : 1);
  const [rows = ONE, , ...spatial] = shapeOf(data);
  const [maps = ONE, group = ONE, ...kernel] = shapeOf(weights);
  const isTransposed = step.node.operator.startsWith('ConvTranspose');
  const channels = isTransposed ? sizes((one) => one * step.node.int('group', 1), group) : maps;
  const window = step.node.ints('kernel_shape') ?? kernel.map((size) => constantOf(size) ?? 1);
  return [rows, channels, ...slid(step, spatial, { kernel: window, isTransposed })];
};

export const pooled = (step: Step, data: Traced): Size[] => {
  const [rows = ONE, channels = ONE, ...spatial] = shapeOf(data);
  return [rows, channels, ...slid(step, spatial, { kernel: step.node.ints('kernel_shape') ?? [] })];
};

export const pooledWhole = (_: Step, data: Traced): Size[] =>
  shapeOf(data).map((size, axis) => (axis < 2 ? size : ONE));

export const resized: Rule = (step) => {
  const { node, inputs, opset, open } = step;
  const data = inputAt(step, 0);
  const shape = shapeOf(data);
  const isOld = node.operator === 'Upsample' || opset < 11;
  const axes = node.ints('axes')?.map((axis) => axisOf(axis, shape.length)) ?? fromAxis(0, shape.length);
  const scales = followSizes(step, isOld ? 1 : 2);
  const given = followSizes(step, 3);
  if (!isOld && inputs[1] !== undefined && inputs[1].kind !== 'same') unknown('its region depends on the batch');
  const byScale = scales?.length === axes.length ? scales : node.floats('scales')?.map(constantSize);
  const result = shape.map((size, axis): Size => {
    const at = axes.indexOf(axis);
    if (at < 0) return size;
    if (inputs[3] !== undefined) return given?.[at] ?? open();
    const scale = byScale?.[at];
    return scale === undefined ? open() : sizes((one, by) => Math.floor(one * by), size, scale);
  });
  const wanted = result[data.axis];
  if (hasRows(data) && (wanted === undefined || !isEqual(wanted, sizeAt(data, data.axis))))
    mixes('it resizes the rows');
  return { ...plain(data), shape: result };
};

export const blocks: Rule = rowsFirst(({ open }, data) =>
  shapeOf(data).map((size, axis) => (axis === 0 ? size : open())),
);

export const batchNormalised: Rule = (step) => {
  const { node, opset } = step;
  const data = inputAt(step, 0);
  const isTraining =
    node.int('training_mode', 0) === 1 || (opset < 14 && node.outputs.filter((name) => name !== '').length > 1);
  if (isTraining && hasRows(data)) mixes('it has training_mode=1: it normalises by the whole batch');
  if (hasRows(data) && data.axis === 1) mixes('it takes axis 1 for channels, and the rows are there');
  return plain(data);
};
