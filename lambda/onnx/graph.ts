import { closeSync, fstatSync, openSync } from 'node:fs';
import { createReader, Message } from './protobuf.ts';

/* Reads the graph of a model from its file: nodes, attributes and small constants. Weights are skipped. */

/** Field numbers of the messages. @see https://github.com/onnx/onnx/blob/main/onnx/onnx.proto */
const MODEL = { graph: 7, opset: 8, functions: 25 } as const;
const OPSET = { domain: 1, version: 2 } as const;
const GRAPH = { node: 1, initializer: 5, input: 11, output: 12, sparse: 15 } as const;
const FUNCTION = {
  name: 1,
  input: 4,
  output: 5,
  node: 7,
  opset: 9,
  domain: 10,
  attributeWithDefault: 11,
  overload: 13,
} as const;
const NODE = { input: 1, output: 2, name: 3, operator: 4, attribute: 5, domain: 7, overload: 8 } as const;
const ATTRIBUTE = {
  name: 1,
  float: 2,
  integer: 3,
  text: 4,
  tensor: 5,
  graph: 6,
  floats: 7,
  integers: 8,
  strings: 9,
  reference: 21,
};
const TENSOR = {
  dims: 1,
  type: 2,
  floats: 4,
  int32s: 5,
  strings: 6,
  int64s: 7,
  name: 8,
  raw: 9,
  doubles: 10,
  location: 14,
} as const;
const SPARSE = { values: 1, dims: 3 } as const;
const VALUE = { name: 1 } as const;

/** Maximum number of values of a constant. Larger ones are weights. */
const MAX_VALUES = { whole: 4096, real: 64 } as const;

export interface ConstantTensor {
  readonly dims: readonly number[];
  /** Undefined if there are many, or they are texts or in another file. */
  readonly values: readonly number[] | undefined;
  /** True if its type has fractions. */
  readonly isReal: boolean;
}

export interface Graph {
  readonly nodes: readonly GraphNode[];
  readonly constants: ReadonlyMap<string, ConstantTensor>;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
}

/** Function of the model. Its nodes replace a node of its name. */
export interface GraphFunction extends Omit<Graph, 'constants'> {
  readonly opsets: ReadonlyMap<string, number>;
  readonly defaults: ReadonlyMap<string, Message>;
}

export interface ModelGraph extends Graph {
  /** Functions by domain, name and overload: `pkg.torch:aten_relu:`. */
  readonly functions: ReadonlyMap<string, GraphFunction>;
  /** Versions of the operator sets by domain. */
  readonly opsets: ReadonlyMap<string, number>;
  /** Returns the nodes of the graph, of its functions and of their subgraphs. */
  readonly allNodes: () => readonly GraphNode[];
}

const CONTAINERS = new Set(['If', 'Loop', 'Scan', 'SequenceMap']);

/** Node of a graph. Its attributes are read on first access. */
export class GraphNode {
  readonly operator: string;
  readonly domain: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly #message: Message;
  readonly #given: ReadonlyMap<string, Message> | undefined;
  #attributes: ReadonlyMap<string, Message> | undefined;

  /** @param given attributes of the function that the node is in */
  constructor(message: Message, given?: ReadonlyMap<string, Message>) {
    this.#message = message;
    this.#given = given;
    this.operator = message.text(NODE.operator);
    this.domain = domainOf(message.text(NODE.domain));
    this.inputs = [...message.texts(NODE.input)];
    this.outputs = [...message.texts(NODE.output)];
  }

  /** Name of the node, or of its first output. */
  get name(): string {
    return this.#message.text(NODE.name) || this.outputs.find((name) => name !== '') || this.operator;
  }

  /** Overload of the function that it calls. */
  get overload(): string {
    return this.#message.text(NODE.overload);
  }

  get attributes(): ReadonlyMap<string, Message> {
    this.#attributes ??= new Map(this.#message.messages(NODE.attribute).flatMap((message) => this.#resolved(message)));
    return this.#attributes;
  }

  has(name: string): boolean {
    return this.attributes.has(name);
  }

  get hasGraphs(): boolean {
    return CONTAINERS.has(this.operator);
  }

  graphsWithin(): Graph[] {
    return this.hasGraphs ? [...this.attributes.keys()].flatMap((name) => this.graph(name) ?? []) : [];
  }

  /** Returns the names of values that its subgraphs use. */
  namesWithin(): string[] {
    return this.graphsWithin().flatMap(({ nodes, outputs }) => [
      ...outputs,
      ...nodes.flatMap((node) => [...node.inputs, ...node.namesWithin()]),
    ]);
  }

  /** Returns the same node in a function with these attributes. */
  withGiven(given: ReadonlyMap<string, Message>): GraphNode {
    return new GraphNode(this.#message, given);
  }

  int(name: string): number | undefined;
  int(name: string, otherwise: number): number;
  int(name: string, otherwise?: number): number | undefined {
    const attribute = this.attributes.get(name);
    // Writers may leave out an integer of 0.
    return attribute === undefined ? otherwise : (attribute.int64(ATTRIBUTE.integer) ?? 0);
  }

  ints(name: string): number[] | undefined {
    const attribute = this.attributes.get(name);
    return attribute && [...attribute.int64s(ATTRIBUTE.integers)];
  }

  floats(name: string): number[] | undefined {
    const attribute = this.attributes.get(name);
    return attribute && [...attribute.floats(ATTRIBUTE.floats)];
  }

  text(name: string, otherwise = ''): string {
    return this.attributes.get(name)?.text(ATTRIBUTE.text) ?? otherwise;
  }

  texts(name: string): string[] {
    return [...(this.attributes.get(name)?.texts(ATTRIBUTE.strings) ?? [])];
  }

  tensor(name: string): ConstantTensor | undefined {
    const attribute = this.attributes.get(name);
    return attribute && readTensor(attribute.message(ATTRIBUTE.tensor));
  }

  float(name: string): number | undefined {
    const attribute = this.attributes.get(name);
    return attribute && ([...attribute.floats(ATTRIBUTE.float)].at(-1) ?? 0);
  }

  graph(name: string): Graph | undefined {
    const attribute = this.attributes.get(name);
    return attribute && readGraphMessage(attribute.message(ATTRIBUTE.graph), this.#given);
  }

  /** Resolves an attribute that refers to one of the function's own. */
  #resolved(attribute: Message): [string, Message][] {
    const name = attribute.leadingText(ATTRIBUTE.name);
    const reference = this.#given === undefined ? '' : attribute.text(ATTRIBUTE.reference);
    const meant = reference === '' ? attribute : this.#given?.get(reference);
    return meant === undefined ? [] : [[name, meant]];
  }
}

/**
 * Opens the graph of a model for `work`.
 *
 * @param path of a valid ONNX file
 * @param work must not read attributes after it returns
 */
export function withGraph<T>(path: string, work: (graph: ModelGraph) => T): T {
  const file = openSync(path, 'r');
  try {
    const model = new Message(createReader(file), { start: 0, end: fstatSync(file).size });
    const functions = model.messages(MODEL.functions).map((message) => {
      const name = [message.text(FUNCTION.name), message.text(FUNCTION.overload)].join(':');
      return [`${domainOf(message.text(FUNCTION.domain))}:${name}`, readFunction(message)] as const;
    });
    const graph = readGraphMessage(model.message(MODEL.graph));
    const nodes = () => [graph, ...functions.map(([, one]) => one)].flatMap(nodesOf);
    return work({
      ...graph,
      functions: new Map(functions),
      opsets: opsetsOf(model.messages(MODEL.opset)),
      allNodes: nodes,
    });
  } finally {
    closeSync(file);
  }
}

/** Returns true if a model has a loop, which made-up values may keep from ending. */
export function hasLoop({ allNodes }: ModelGraph): boolean {
  return allNodes().some(({ operator }) => operator === 'Loop');
}

function readGraphMessage(graph: Message, given?: ReadonlyMap<string, Message>): Graph {
  const tensors = graph.messages(GRAPH.initializer);
  const sparse = graph.messages(GRAPH.sparse).map((one): [string, ConstantTensor] => {
    const dims = [...one.int64s(SPARSE.dims)];
    return [one.message(SPARSE.values).text(TENSOR.name), { dims, values: undefined, isReal: true }];
  });
  return {
    nodes: graph.messages(GRAPH.node).map((message) => new GraphNode(message, given)),
    constants: new Map([...tensors.map((one) => [one.text(TENSOR.name), readTensor(one)] as const), ...sparse]),
    inputs: graph.messages(GRAPH.input).map((value) => value.text(VALUE.name)),
    outputs: graph.messages(GRAPH.output).map((value) => value.text(VALUE.name)),
  };
}

function nodesOf({ nodes }: Pick<Graph, 'nodes'>): GraphNode[] {
  return nodes.flatMap((node) => [node, ...node.graphsWithin().flatMap(nodesOf)]);
}

function readFunction(message: Message): GraphFunction {
  const defaults = message.messages(FUNCTION.attributeWithDefault);
  return {
    nodes: message.messages(FUNCTION.node).map((node) => new GraphNode(node)),
    inputs: [...message.texts(FUNCTION.input)],
    outputs: [...message.texts(FUNCTION.output)],
    opsets: opsetsOf(message.messages(FUNCTION.opset)),
    defaults: new Map(defaults.map((one) => [one.text(ATTRIBUTE.name), one])),
  };
}

/** Returns the nodes of a function with the attributes of the node that calls it. */
export function nodesOfCall({ nodes, defaults }: GraphFunction, call: GraphNode): GraphNode[] {
  const given = new Map([...defaults, ...call.attributes]);
  return nodes.map((node) => node.withGiven(given));
}

function opsetsOf(messages: readonly Message[]): ReadonlyMap<string, number> {
  return new Map(messages.map((one) => [domainOf(one.text(OPSET.domain)), one.int64(OPSET.version) ?? 1]));
}

/** Normalizes the two names of ONNX's own domain. */
function domainOf(domain: string): string {
  return domain === 'ai.onnx' ? '' : domain;
}

interface Elements {
  new (buffer: ArrayBuffer): ArrayLike<number | bigint>;
  readonly BYTES_PER_ELEMENT: number;
}

/**
 * Arrays for `raw_data` by element type. Before Node 24 there is none for FP16, whose values are then unknown.
 *
 * @see onnx.proto, TensorProto.DataType
 */
const RAW: Readonly<Record<number, Elements>> = {
  1: Float32Array,
  2: Uint8Array,
  3: Int8Array,
  4: Uint16Array,
  5: Int16Array,
  6: Int32Array,
  7: BigInt64Array,
  9: Uint8Array,
  10: globalThis.Float16Array,
  11: Float64Array,
  12: Uint32Array,
  13: BigUint64Array,
};

/** Types with fractions. */
export const REAL_TYPES: ReadonlySet<number> = new Set([1, 10, 11, 16]);

/** Types whose `int32_data` are bits: FP16 and BF16. */
const HALF_TYPES: ReadonlySet<number> = new Set([10, 16]);

function readTensor(tensor: Message): ConstantTensor {
  const dims = [...tensor.int64s(TENSOR.dims)];
  const count = dims.reduce((product, dim) => product * dim, 1);
  const isReal = REAL_TYPES.has(tensor.int64(TENSOR.type) ?? 0);
  if (count > MAX_VALUES[isReal ? 'real' : 'whole'] || tensor.int32s(TENSOR.location).at(-1))
    return { dims, values: undefined, isReal };
  const values = valuesOf(tensor);
  return { dims, values: values?.length === count ? values : undefined, isReal };
}

function valuesOf(tensor: Message): number[] | undefined {
  const type = tensor.int64(TENSOR.type) ?? 0;
  const halves = HALF_TYPES.has(type) ? Uint16Array.from(tensor.int64s(TENSOR.int32s)) : undefined;
  const raw = halves?.length ? new Uint8Array(halves.buffer) : tensor.bytes(TENSOR.raw);
  if (raw.length > 0) {
    const Elements = RAW[type];
    const isWhole = Elements !== undefined && raw.length % Elements.BYTES_PER_ELEMENT === 0;
    return isWhole ? Array.from(new Elements(new Uint8Array(raw).buffer), Number) : undefined;
  }
  const lists = [
    tensor.int64s(TENSOR.int64s),
    tensor.floats(TENSOR.floats),
    tensor.int64s(TENSOR.int32s),
    tensor.doubles(TENSOR.doubles),
  ];
  return lists.map((list) => [...list]).find((list) => list.length > 0) ?? [];
}
