import { closeSync, fstatSync, openSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { Datatype } from '../../lambda/core/tensor.ts';
import { type GraphNode, withGraph } from '../../lambda/onnx/graph.ts';
import { externalFiles, TYPES_NOT_CARRIED } from '../../lambda/onnx/modelFile.ts';
import { createReader, Message } from '../../lambda/onnx/protobuf.ts';

/** Contents of an ONNX file, read without ONNX Runtime. */
export type OnnxFile = ReturnType<typeof readOnnxFile>;

export interface OperatorUse {
  readonly name: string;
  /** `ai.onnx` for the standard operators. */
  readonly domain: string;
  readonly count: number;
  /** True if the operator is a function that the model defines. */
  readonly isFunction: boolean;
}

const ONNX_DOMAIN = 'ai.onnx';

/**
 * Field numbers in onnx.proto.
 *
 * @see https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
 */
const MODEL_GRAPH = 7;
const GRAPH = { initializer: 5, input: 11, output: 12 } as const;
/** Field number of the name in a `TensorProto`. */
const TENSOR_NAME = 8;
const VALUE = { name: 1, type: 2 } as const;
const TYPE_TENSOR = 1;
const TYPE_KINDS = [
  [4, 'sequence'],
  [5, 'map'],
  [8, 'sparse tensor'],
  [9, 'optional'],
] as const;
const TENSOR = { element: 1, shape: 2 } as const;
const SHAPE_DIM = 1;
const DIM = { value: 1, symbol: 2 } as const;

/** @param path path of a valid ONNX file */
export function readOnnxFile(path: string) {
  const file = openSync(path, 'r');
  try {
    /** Size of the file, without external weight files. */
    const bytes = fstatSync(file).size;
    const weights = [...externalFiles(file, bytes)].map(([name, min]) => {
      const found = statSync(resolve(dirname(path), name), { throwIfNoEntry: false });
      return { file: name, bytes: found?.size ?? min };
    });
    const model = new Message(createReader(file), { start: 0, end: bytes });
    return { bytes, weights, ...readValues(model), ...readOperators(path) };
  } finally {
    closeSync(file);
  }
}

function readValues(model: Message) {
  const graph = model.message(MODEL_GRAPH);
  const weights = new Set(graph.messages(GRAPH.initializer).map((tensor) => tensor.text(TENSOR_NAME)));
  return {
    inputs: graph
      .messages(GRAPH.input)
      .map(readValue)
      .filter(({ name }) => !weights.has(name)),
    outputs: graph.messages(GRAPH.output).map(readValue),
  };
}

function readOperators(path: string) {
  return withGraph(path, ({ functions, allNodes }) => {
    // Without the overload, which the last colon begins.
    const ownNames = new Set(Array.from(functions.keys(), (key) => key.slice(0, key.lastIndexOf(':'))));
    const uses = Map.groupBy(allNodes(), ({ domain, operator }) => `${domain}:${operator}`);
    const operators = Array.from(uses, ([key, [node, ...others]]): OperatorUse => {
      const { operator: name, domain } = node as GraphNode;
      return { name, domain: domain || ONNX_DOMAIN, count: 1 + others.length, isFunction: ownNames.has(key) };
    });
    /** Operators, the most frequent first. They include those in loops, branches and functions. */
    return { operators: operators.toSorted((a, b) => b.count - a.count || a.name.localeCompare(b.name)) };
  });
}

/** Input or output as the file describes it. */
export interface FileValue {
  readonly name: string;
  /** Datatype of the Open Inference Protocol, or the ONNX name if the protocol has none. */
  readonly datatype: string;
  /** Sizes, names of symbolic axes, or `?` for unknown axes. Undefined if the file declares no shape. */
  readonly shape: readonly (number | string)[] | undefined;
}

/** Datatypes by their number in `TensorProto.DataType`, from 1. */
const ELEMENT_TYPES: readonly Datatype[] = [
  ...(['FP32', 'UINT8', 'INT8', 'UINT16', 'INT16', 'INT32', 'INT64'] as const),
  ...(['BYTES', 'BOOL', 'FP16', 'FP64', 'UINT32', 'UINT64'] as const),
];

function elementType(number: number | undefined): string {
  if (number === undefined) return 'unknown';
  return ELEMENT_TYPES[number - 1] ?? TYPES_NOT_CARRIED[number] ?? `element type ${number}`;
}

function readValue(value: Message): FileValue {
  const name = value.text(VALUE.name);
  const type = value.message(VALUE.type);
  if (type.messages(TYPE_TENSOR).length === 0) {
    const kind = TYPE_KINDS.find(([number]) => type.messages(number).length > 0);
    return { name, datatype: kind?.[1] ?? 'unknown', shape: undefined };
  }
  const tensor = type.message(TYPE_TENSOR);
  const datatype = elementType(tensor.int32s(TENSOR.element).at(-1));
  if (tensor.messages(TENSOR.shape).length === 0) return { name, datatype, shape: undefined };
  return { name, datatype, shape: tensor.message(TENSOR.shape).messages(SHAPE_DIM).map(sizeOf) };
}

/** Returns the size or the name of an axis. If both are present, the later one is used. */
function sizeOf(dim: Message): number | string {
  const last = [...dim.fields()].findLast(({ number }) => number === DIM.value || number === DIM.symbol);
  const size = last?.number === DIM.value ? (dim.int64(DIM.value) ?? -1) : -1;
  return size >= 0 ? size : dim.text(DIM.symbol) || '?';
}

/** Kind of operators that affect how a model can be batched, padded or deployed. */
interface Kind {
  readonly is: (operator: OperatorUse) => boolean;
  readonly why: string;
  /** True if the kind matters only if an axis other than the batch axis is open. */
  readonly ofLengths?: true;
}

const named =
  (names: RegExp): Kind['is'] =>
  ({ name, isFunction }) =>
    !isFunction && names.test(name);

/** Domains whose operators ONNX Runtime contains. */
const KNOWN_DOMAINS = [ONNX_DOMAIN, 'ai.onnx.ml', 'com.microsoft', 'com.microsoft.nchwc', 'com.microsoft.dml'];

/** Kinds in order of priority: an operator belongs to the first one that matches. */
const KINDS: readonly Kind[] = [
  {
    is: ({ domain, isFunction }) => !isFunction && !KNOWN_DOMAINS.includes(domain),
    why: 'of a domain that ONNX Runtime has no operators of: the model does not open',
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
    why: 'on a GPU needs cuFFT, which the image leaves out without the build argument CUFFT',
  },
  {
    is: named(/^StringNormalizer$/),
    why: 'needs its locale on the machine, en_US.UTF-8 unless the graph names another: images have it and C.UTF-8, which is everywhere',
  },
  {
    is: named(/^(StringConcat|StringSplit|TfIdfVectorizer|LabelEncoder|RegexFullMatch|Tokenizer|CategoryMapper)$/),
    why: 'works on strings or words, on the CPU alone',
  },
];

/**
 * Returns the operators that need attention, grouped by kind. The list is empty if the model uses only ordinary
 * arithmetic.
 *
 * @param hasLengths true if requests may differ in size along an axis other than the batch axis
 */
export function notableOperators(operators: OnnxFile['operators'], hasLengths: boolean) {
  const kinds = KINDS.filter(({ ofLengths }) => ofLengths !== true || hasLengths);
  const kindOf = new Map(operators.map((operator) => [operator, kinds.find(({ is }) => is(operator))]));
  return kinds.flatMap((kind) => {
    const own = operators.filter((operator) => kindOf.get(operator) === kind);
    if (own.length === 0) return [];
    return [{ names: own.map(fullName), count: own.reduce((sum, { count }) => sum + count, 0), why: kind.why }];
  });
}

function fullName({ name, domain }: OperatorUse): string {
  return domain === ONNX_DOMAIN ? name : `${domain}:${name}`;
}
