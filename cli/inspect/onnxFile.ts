import { closeSync, fstatSync, openSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { WORKS_ALONG_AN_AXIS } from '../../lambda/onnx/decideBatching.ts';
import {
  createReader,
  externalFiles,
  fieldsIn,
  fieldsOfFile,
  type ModelGraph,
  type Read,
  TYPES_NOT_CARRIED,
} from '../../lambda/onnx/modelFile.ts';

/** What an ONNX file says of itself, read without ONNX Runtime. */
export interface OnnxFile {
  /** Of the file, without the files of its weights. */
  readonly bytes: number;
  /** The files in which it keeps weights. */
  readonly weights: readonly { readonly file: string; readonly bytes: number }[];
  /** What exported it, such as `pytorch 2.4.0`; undefined where it does not say. */
  readonly producer: string | undefined;
  /** Versions of the operator sets by domain; that of ONNX itself is `ai.onnx`. */
  readonly opsets: Readonly<Record<string, number>>;
  /** The most frequent first. Those in loops, branches and functions are counted too. */
  readonly operators: readonly OperatorUse[];
  readonly inputs: readonly FileValue[];
  readonly outputs: readonly FileValue[];
}

interface OperatorUse {
  readonly name: string;
  /** `ai.onnx` for operators of ONNX itself. */
  readonly domain: string;
  readonly count: number;
  /** Whether the model itself says what it does. */
  readonly isFunction: boolean;
}

/** Fields of the messages of onnx.proto. @see https://github.com/onnx/onnx/blob/main/onnx/onnx.proto */
const MODEL = { producer: 2, producerVersion: 3, graph: 7, opset: 8, functions: 25 } as const;
const OPSET = { domain: 1, version: 2 } as const;
const GRAPH = { node: 1, initializer: 5, input: 11, output: 12 } as const;
const TENSOR_NAME = 8;
const FUNCTION = { name: 1, node: 7, domain: 10 } as const;
const NODE = { operator: 4, attribute: 5, domain: 7 } as const;
const ATTRIBUTE = { graph: 6, graphs: 11 } as const;
export const ONNX_DOMAIN = 'ai.onnx';

/** @param path of a file that is known to be ONNX */
export function readOnnxFile(path: string): OnnxFile {
  const file = openSync(path, 'r');
  try {
    const bytes = fstatSync(file).size;
    const weights = [...externalFiles(file, bytes)].map(([name, min]) => {
      const found = statSync(resolve(dirname(path), name), { throwIfNoEntry: false });
      return { file: name, bytes: found?.size ?? min };
    });
    return { bytes, weights, ...readModel(createReader(file), bytes) };
  } finally {
    closeSync(file);
  }
}

function readModel(read: Read, size: number): Omit<OnnxFile, 'bytes' | 'weights'> {
  const found = { counts: new Map<string, number>(), functions: new Set<string>() };
  const opsets: Record<string, number> = {};
  const producer: string[] = [];
  let values: Pick<OnnxFile, 'inputs' | 'outputs'> = { inputs: [], outputs: [] };
  for (const { number, start, end } of fieldsOfFile(read, 0, size)) {
    if (number === MODEL.producer || number === MODEL.producerVersion) producer.push(textAt(read, start, end));
    else if (number === MODEL.opset) readOpset(read, start, end, opsets);
    else if (number === MODEL.functions) readFunction(read, start, end, found);
    else if (number === MODEL.graph) {
      countNodes(read, start, end, GRAPH.node, found.counts);
      values = readValues(read, start, end);
    }
  }
  const operators = [...found.counts].map(([key, count]): OperatorUse => {
    const [domain = '', name = ''] = key.split('\n');
    return { name, domain: domain || ONNX_DOMAIN, count, isFunction: found.functions.has(key) };
  });
  return {
    producer: producer.filter((part) => part !== '').join(' ') || undefined,
    opsets,
    operators: operators.toSorted((a, b) => b.count - a.count || a.name.localeCompare(b.name)),
    ...values,
  };
}

function readOpset(read: Read, from: number, to: number, opsets: Record<string, number>): void {
  let domain = '';
  let version = 0;
  for (const { number, start, end, value } of fieldsOfFile(read, from, to)) {
    if (number === OPSET.domain) domain = textAt(read, start, end);
    if (number === OPSET.version) version = value;
  }
  opsets[domain || ONNX_DOMAIN] = version;
}

interface FoundNodes {
  /** By domain, a line break, and name. */
  readonly counts: Map<string, number>;
  readonly functions: Set<string>;
}

function readFunction(read: Read, from: number, to: number, { counts, functions }: FoundNodes): void {
  let [name, domain] = ['', ''];
  for (const { number, start, end } of fieldsOfFile(read, from, to)) {
    if (number === FUNCTION.name) name = textAt(read, start, end);
    if (number === FUNCTION.domain) domain = textAt(read, start, end);
  }
  functions.add(`${domain}\n${name}`);
  countNodes(read, from, to, FUNCTION.node, counts);
}

/** Counts the nodes of a graph or a function, and those of the graphs within them. */
function countNodes(read: Read, from: number, to: number, nodeField: number, counts: Map<string, number>): void {
  for (const { number, start, end } of fieldsOfFile(read, from, to)) {
    if (number === nodeField) countNode(read, start, end, counts);
  }
}

function countNode(read: Read, from: number, to: number, counts: Map<string, number>): void {
  let [name, domain] = ['', ''];
  for (const { number, start, end } of fieldsOfFile(read, from, to)) {
    if (number === NODE.operator) name = textAt(read, start, end);
    else if (number === NODE.domain) domain = textAt(read, start, end);
    else if (number === NODE.attribute) countBodies(read, start, end, counts);
  }
  const key = `${domain === ONNX_DOMAIN ? '' : domain}\n${name}`;
  counts.set(key, (counts.get(key) ?? 0) + 1);
}

function countBodies(read: Read, from: number, to: number, counts: Map<string, number>): void {
  for (const { number, start, end } of fieldsOfFile(read, from, to)) {
    if (number === ATTRIBUTE.graph || number === ATTRIBUTE.graphs) countNodes(read, start, end, GRAPH.node, counts);
  }
}

/** Older exporters list weights among the inputs. */
function readValues(read: Read, from: number, to: number): Pick<OnnxFile, 'inputs' | 'outputs'> {
  const weights = new Set<string>();
  const inputs: FileValue[] = [];
  const outputs: FileValue[] = [];
  for (const { number, start, end } of fieldsOfFile(read, from, to)) {
    if (number === GRAPH.initializer) weights.add(nameOfTensor(read, start, end));
    else if (number === GRAPH.input) inputs.push(readValue(read(start, end - start)));
    else if (number === GRAPH.output) outputs.push(readValue(read(start, end - start)));
  }
  return { inputs: inputs.filter(({ name }) => !weights.has(name)), outputs };
}

function nameOfTensor(read: Read, from: number, to: number): string {
  for (const { number, start, end } of fieldsOfFile(read, from, to)) {
    if (number === TENSOR_NAME) return textAt(read, start, end);
  }
  return '';
}

function textAt(read: Read, start: number, end: number): string {
  return read(start, end - start).toString('utf8');
}

/** An operator, or several of one kind, that decide how a model may be batched, padded or deployed. */
export interface NotableOperators {
  readonly names: readonly string[];
  readonly count: number;
  /** What it means for the model. */
  readonly why: string;
}

type FoundOperator = OperatorUse & { readonly overBatch: boolean; readonly training: boolean };

interface Kind {
  readonly is: (operator: FoundOperator) => boolean;
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
  const found = operators.map((operator): FoundOperator => {
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

/** An input or output as the file describes it. */
export interface FileValue {
  readonly name: string;
  /** Of the Open Inference Protocol, else as ONNX calls it. */
  readonly datatype: string;
  /** Sizes, names of symbolic axes, `?` where there is neither; undefined where the file gives none. */
  readonly shape: readonly (number | string)[] | undefined;
}

/** Fields of the messages of onnx.proto. @see https://github.com/onnx/onnx/blob/main/onnx/onnx.proto */
const VALUE = { name: 1, type: 2 } as const;
const TYPE_KINDS: Readonly<Record<number, string>> = { 4: 'sequence', 5: 'map', 8: 'sparse tensor', 9: 'optional' };
const TYPE_TENSOR = 1;
const TENSOR = { element: 1, shape: 2 } as const;
const SHAPE_DIM = 1;
const DIM = { value: 1, symbol: 2 } as const;

/** By the numbers of `TensorProto.DataType`. */
const ELEMENT_TYPES: Readonly<Record<number, string>> = {
  1: 'FP32',
  2: 'UINT8',
  3: 'INT8',
  4: 'UINT16',
  5: 'INT16',
  6: 'INT32',
  7: 'INT64',
  8: 'BYTES',
  9: 'BOOL',
  10: 'FP16',
  11: 'FP64',
  12: 'UINT32',
  13: 'UINT64',
  ...TYPES_NOT_CARRIED,
};

/** @param bytes a `ValueInfoProto` */
function readValue(bytes: Buffer): FileValue {
  let value: FileValue = { name: '', datatype: 'unknown', shape: undefined };
  for (const { number, start, end } of fieldsIn(bytes)) {
    if (number === VALUE.name) value = { ...value, name: bytes.toString('utf8', start, end) };
    if (number === VALUE.type) value = { ...value, ...readType(bytes.subarray(start, end)) };
  }
  return value;
}

function readType(bytes: Buffer): Omit<FileValue, 'name'> {
  for (const { number, start, end } of fieldsIn(bytes)) {
    if (number === TYPE_TENSOR) return readTensorType(bytes.subarray(start, end));
    const kind = TYPE_KINDS[number];
    if (kind !== undefined) return { datatype: kind, shape: undefined };
  }
  return { datatype: 'unknown', shape: undefined };
}

function readTensorType(bytes: Buffer): Omit<FileValue, 'name'> {
  let datatype = 'unknown';
  let shape: (number | string)[] | undefined;
  for (const { number, start, end, value } of fieldsIn(bytes)) {
    if (number === TENSOR.element) datatype = ELEMENT_TYPES[value] ?? `element type ${value}`;
    if (number === TENSOR.shape) shape = readShape(bytes.subarray(start, end));
  }
  return { datatype, shape };
}

function readShape(bytes: Buffer): (number | string)[] {
  return [...fieldsIn(bytes)]
    .filter(({ number }) => number === SHAPE_DIM)
    .map(({ start, end }) => {
      const dim = bytes.subarray(start, end);
      const [field] = fieldsIn(dim);
      if (field?.number === DIM.value) return field.value;
      return field?.number === DIM.symbol ? dim.toString('utf8', field.start, field.end) || '?' : '?';
    });
}
