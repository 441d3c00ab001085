import type { Graph } from '../graph.ts';
import {
  axisOf,
  constantOf,
  constantSize,
  constantsOf,
  hasRows,
  isEqual,
  isRowByRow,
  meet,
  mixes,
  ONE,
  type Size,
  same,
  seriesOf,
  shapeOf,
  sizeAt,
  sizes,
  type Traced,
  unknown,
} from '../traced.ts';
import {
  CONSTANT_ROWS,
  type Family,
  family,
  followSizes,
  fromAxis,
  givenOf,
  inputAt,
  meetOn,
  plain,
  type Rule,
  rowsFirst,
  type Step,
} from './step.ts';

/* Rules of layers: recurrent ones, attention, convolutions and pools; and of control flow. */

const recurrent: Rule = (step) => {
  const { node, inputs } = step;
  const data = inputAt(step, 0);
  // ONNX Runtime has no kernel for it.
  if (node.int('layout', 0) === 1) unknown('it has the rows first');
  if (hasRows(data) && data.axis !== 1) mixes('it takes axis 0 for time, and the rows are there');
  const states = [4, 5, 6].flatMap((index) => inputs[index] ?? []);
  // The lengths of the rows have one axis.
  const axes = states.map((state) => (shapeOf(state).length === 1 ? state.axis + 1 : state.axis));
  const met = meet([data, ...states], [1, ...axes]);
  if (hasRows(data) && !states.every(hasRows)) mixes(CONSTANT_ROWS);
  const [time = ONE, rows = ONE] = shapeOf(data);
  const directions = sizeAt(inputAt(step, 1), 0);
  const hidden = constantSize(node.int('hidden_size', 1));
  const last = { ...met, shape: [directions, rows, hidden] };
  return [{ ...met, axis: met.axis < 0 ? -1 : 2, shape: [time, directions, rows, hidden] }, last, last];
};

const branch: Rule = (step) => {
  const condition = inputAt(step, 0);
  const [taken] = constantsOf(condition) ?? [];
  const graphs = [step.node.graph('then_branch'), step.node.graph('else_branch')].filter(
    (graph) => graph !== undefined,
  );
  if (taken !== undefined) return step.within(graphs[taken === 0 ? 1 : 0] as Graph);
  if (condition.kind === 'count') mixes('the number of rows decides which branch it takes');
  if (condition.kind !== 'same') unknown('rows decide which branch it takes');
  const [then = [], otherwise = []] = graphs.map((graph) => step.within(graph));
  return then.map((one, index) => either(one, otherwise[index] as Traced, step));
};

function either(one: Traced, other: Traced, { inputs: [condition] }: Step): Traced {
  const isAlike =
    one.kind === other.kind &&
    one.axis === other.axis &&
    one.shape?.length === other.shape?.length &&
    one.shape?.every((size, axis) => isEqual(size, other.shape?.[axis] ?? ONE)) &&
    isEqual(seriesOf(one), seriesOf(other)) &&
    one.padding === undefined &&
    other.padding === undefined;
  if (!isAlike) unknown('its branches treat rows differently');
  return { ...plain(one), byLength: [condition, one, other].some((traced) => traced?.byLength) };
}

/** Rule of a scan without carried state over an axis that rows share: each step is an ordinary graph. */
const scan: Rule = (step) => {
  const { node } = step;
  const body = node.graph('body') ?? unknown('it has no body');
  const given = givenOf(step);
  if (step.opset < 9) unknown('an old one has another layout');
  const states = given.length - node.int('num_scan_inputs', 1);
  const [kept, slices] = [given.slice(0, states), given.slice(states)];
  const isTurned = SCAN_DIRECTIONS.some((name) => node.ints(name)?.some((value) => value !== 0));
  const isKept = body.outputs.slice(0, states).every((name, index) => {
    const maker = body.nodes.find(({ outputs }) => outputs.includes(name));
    return name === body.inputs[index] || (maker?.operator === 'Identity' && maker.inputs[0] === body.inputs[index]);
  });
  if (isTurned || !isKept || slices.some(({ kind }) => kind !== 'same')) unknown('what it carries on is not followed');
  const made = step.within(body, [...kept, ...slices.map((slice) => same(shapeOf(slice).slice(1)))]);
  const count = sizeAt(slices[0] as Traced, 0);
  return [
    ...kept,
    ...made.slice(states).map((one) => ({
      ...plain(one),
      axis: hasRows(one) ? one.axis + 1 : -1,
      byLength: [...slices, one].some(({ byLength }) => byLength),
      shape: one.shape && [count, ...one.shape],
    })),
  ];
};

const SCAN_DIRECTIONS = ['scan_input_axes', 'scan_output_axes', 'scan_input_directions', 'scan_output_directions'];

const distances: Rule = (step) => {
  const [data, others] = [inputAt(step, 0), inputAt(step, 1)];
  if (hasRows(data) && (data.axis !== 0 || others.kind !== 'same')) mixes('it compares rows with rows');
  return { ...meet([data, others]), shape: [sizeAt(data, 0), sizeAt(others, 0)] };
};

/** Axis of the rows of each input of an attention. */
const ATTENDED = {
  Attention: { 0: 0, 1: 0, 2: 0, 3: 0, 4: 0, 5: 0 },
  MultiHeadAttention: { 0: 0, 1: 0, 2: 0, 4: 0, 5: 0, 6: 0, 7: 0 },
  GroupQueryAttention: { 0: 0, 1: 0, 2: 0, 3: 0, 4: 0, 5: 0, 9: 0, 10: 0 },
  QAttention: { 0: 0, 5: 0, 8: 1 },
} as const;
const PACKED_ATTENTION = { 0: 0, 3: 0, 4: 1, 5: 0 };

/** Rule of fused layers, in which each row attends to itself. */
const attention: Rule = (step) => {
  const { operator, domain } = step.node;
  const data = inputAt(step, 0);
  const isOfOnnx = domain === '';
  const isAttention = operator === 'Attention' && !isOfOnnx;
  const [rows = ONE, length = ONE] = shapeOf(data);
  const met = meetOn(step, isAttention ? PACKED_ATTENTION : ATTENDED[operator as keyof typeof ATTENDED]);
  // A mask of one axis may be one of lengths, or of places in a packed batch.
  if (givenOf(step).some((input) => hasRows(input) && shapeOf(input).length === 1 && !isRowByRow(input)))
    unknown('rows are on an axis that is not followed');
  const mask = step.inputs[3];
  if (isOfOnnx && mask !== undefined && hasRows(mask) && shapeOf(mask).length < 4)
    unknown('its mask is broadcast from the right, and the rows are elsewhere');
  if (met.kind !== data.kind) unknown('its weights depend on the batch');
  const kept = { ...met, axis: data.axis };
  // ONNX's own operator has another layout.
  const shape = isOfOnnx ? undefined : [rows, length, step.open()];
  const isPacked = isAttention || operator === 'QAttention';
  const past = { ...kept, axis: isPacked && hasRows(data) ? 1 : data.axis, shape: undefined };
  return [{ ...kept, shape }, past, past];
};

const embedded: Rule = (step) => {
  const data = inputAt(step, 0);
  const met = meetOn(step, { 0: 0, 1: 0, 7: 0, 8: 0 });
  const [rows = ONE, length = ONE] = shapeOf(data);
  const width = sizeAt(inputAt(step, 2), 1);
  return [
    { ...met, shape: [rows, length, width] },
    { ...met, shape: [rows] },
    { ...met, shape: [rows, length, width] },
  ];
};

const rotated: Rule = (step) => {
  const data = inputAt(step, 0);
  const isOfOnnx = step.node.domain === '';
  // Without positions, the tables of ONNX's own operator have an axis of rows.
  const hasTables = isOfOnnx && step.inputs[3] === undefined;
  const met = meetOn(step, hasTables ? { 0: 0, 1: 0, 2: 0 } : { 0: 0, [isOfOnnx ? 3 : 1]: 0 });
  if (met.axis >= 0 && !hasRows(data)) mixes(CONSTANT_ROWS);
  return { ...met, shape: shapeOf(data) };
};

/** Returns the rule for images with rows on axis 0, and weights that are the same for all. */
const image =
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

const convolved = (step: Step, data: Traced): Size[] => {
  const weights = inputAt(step, step.node.operator === 'QLinearConv' ? 3 : 1);
  const [rows = ONE, , ...spatial] = shapeOf(data);
  const [maps = ONE, group = ONE, ...kernel] = shapeOf(weights);
  const isTransposed = step.node.operator.startsWith('ConvTranspose');
  const channels = isTransposed ? sizes((one) => one * step.node.int('group', 1), group) : maps;
  const window = step.node.ints('kernel_shape') ?? kernel.map((size) => constantOf(size) ?? 1);
  return [rows, channels, ...slid(step, spatial, { kernel: window, isTransposed })];
};

const pooled = (step: Step, data: Traced): Size[] => {
  const [rows = ONE, channels = ONE, ...spatial] = shapeOf(data);
  return [rows, channels, ...slid(step, spatial, { kernel: step.node.ints('kernel_shape') ?? [] })];
};

const pooledWhole = (_: Step, data: Traced): Size[] => shapeOf(data).map((size, axis) => (axis < 2 ? size : ONE));

const resized: Rule = (step) => {
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

const blocks: Rule = rowsFirst(({ open }, data) => shapeOf(data).map((size, axis) => (axis === 0 ? size : open())));

const batchNormalised: Rule = (step) => {
  const { node, opset } = step;
  const data = inputAt(step, 0);
  const isTraining =
    node.int('training_mode', 0) === 1 || (opset < 14 && node.outputs.filter((name) => name !== '').length > 1);
  if (isTraining && hasRows(data)) mixes('it has training_mode=1: it normalises by the whole batch');
  if (hasRows(data) && data.axis === 1) mixes('it takes axis 1 for channels, and the rows are there');
  return plain(data);
};

export const LAYERS: readonly Family[] = [
  family(batchNormalised, 'outside of training mode', 'BatchNormalization'),
  family(
    rowsFirst((_, data) => shapeOf(data)),
    'if the rows are on axis 0',
    'InstanceNormalization GroupNormalization GroupNorm LRN',
  ),
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
  family(resized, 'unless the rows are resized', 'Resize Upsample', 'all'),
  family(blocks, 'if the rows are on axis 0', 'DepthToSpace SpaceToDepth'),
  family(recurrent, 'if the rows are not on the axis of time', 'LSTM GRU RNN', [0, 4, 5, 6]),
  family(scan, 'over constants, without state', 'Scan', 'all'),
  family(distances, 'from what all rows share', 'CDist', [0, 1]),
  family(branch, 'if rows do not choose the branch', 'If', 'all'),
  family(attention, 'if the rows are on axis 0', 'Attention QAttention MultiHeadAttention GroupQueryAttention', 'all'),
  family(embedded, 'if the rows are on axis 0', 'EmbedLayerNormalization QEmbedLayerNormalization', 'all'),
  family(rotated, 'if the rows are on axis 0', 'RotaryEmbedding', 'all'),
];
