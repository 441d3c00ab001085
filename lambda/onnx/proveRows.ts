import type { Model } from '../core/model.ts';
import { axisInModel, shapeInModel } from '../core/model.ts';
import { DATATYPES, type Tensor } from '../core/tensor.ts';
import { type Graph, type GraphNode, type ModelGraph, nodesOfCall } from './graph.ts';
import { refuseByBatch, ruleOf } from './rules/families.ts';
import type { Step } from './rules/step.ts';
import {
  constantOf,
  constantSize,
  constants,
  hasRows,
  isEqual,
  isMultipleOfRows,
  lengthSize,
  openSize,
  ROWS,
  type Scale,
  type Size,
  Stop,
  same,
  type Traced,
  variesWithRows,
} from './traced.ts';

/** Conclusion from a graph about the rows of a model. */
export interface RowProof {
  /** `independent`: no row changes another's answer; `mixes`: one may; `unknown`: the graph does not tell. */
  readonly verdict: 'independent' | 'mixes' | 'unknown';
  /** Operator of the decisive node. Empty if rows are independent. */
  readonly operator: string;
  /** Decisive node and reason, such as `Softmax 'probabilities' works along axis 0, the rows`, or empty. */
  readonly why: string;
  /** Node and reason if the padded length enters the data as a number. */
  readonly byLength?: string | undefined;
  /** Axis of the rows by output, if it is not the declared one. */
  readonly batchAxis?: Readonly<Record<string, number>> | undefined;
}

interface Contract extends Pick<Model, 'inputs' | 'outputs' | 'ragged'> {
  /** Inputs with the same values in every run. */
  readonly fixed?: readonly Tensor[];
}

/** Derives from a graph, without running it, which input rows each output row depends on. */
export function proveRows(graph: ModelGraph, model: Contract): RowProof {
  const proof = proveAt('small', graph, model);
  if (proof.verdict === 'independent') return proof;
  const atLargeSizes = proveAt('large', graph, model);
  // Small images and short sounds may not reach the end of the graph.
  return proof.verdict === 'unknown' || atLargeSizes.verdict === 'independent' ? atLargeSizes : proof;
}

function proveAt(scale: Scale, graph: ModelGraph, model: Contract): RowProof {
  const walk = new Walk(graph, model, scale);
  try {
    walk.follow();
    return { verdict: 'independent', operator: '', why: '', byLength: walk.byLength };
  } catch (error) {
    if (!(error instanceof Stop)) throw error;
    const why = `${walk.at}: ${error.message}`;
    const { operator, byLength, batchAxis } = walk;
    return { verdict: error.verdict, operator, why, byLength, batchAxis };
  }
}

type Scope = Map<string, Traced>;

class Walk {
  readonly #graph: ModelGraph;
  readonly #model: Contract;
  readonly #scale: Scale;
  #opened = 0;
  /** Current node, or the name of an output. */
  #looked: GraphNode | string = '';
  byLength: string | undefined;
  batchAxis: Record<string, number> | undefined;

  constructor(graph: ModelGraph, model: Contract, scale: Scale) {
    this.#graph = graph;
    this.#model = model;
    this.#scale = scale;
  }

  get at(): string {
    if (typeof this.#looked === 'string') return `output '${this.#looked}'`;
    return `${this.#looked.operator} '${this.#looked.name}'`;
  }

  get operator(): string {
    return typeof this.#looked === 'string' ? '' : this.#looked.operator;
  }

  follow(): void {
    const scope = scopeOf(this.#graph);
    const names = new Map<string, Size>();
    for (const spec of this.#model.inputs) scope.set(spec.name, this.#inputOf(spec, names));
    for (const { name, datatype, shape, data } of this.#model.fixed ?? []) {
      const { kind } = DATATYPES[datatype];
      scope.set(name, constants(shape, kind === 'string' ? undefined : Array.from(data, Number), kind === 'float'));
    }
    this.#followGraph(
      this.#graph,
      scope,
      this.#graph.opsets,
      this.#model.outputs.map(({ name }) => name),
    );
    for (const spec of this.#model.outputs) {
      const { name, batchAxis = 0 } = spec;
      this.#looked = name;
      const traced = scope.get(name);
      if (traced === undefined) throw new Stop('unknown', 'no node makes it');
      if (traced.kind === 'places' || traced.kind === 'count')
        throw new Stop('mixes', 'it depends on how many rows there are');
      if (traced.padding !== undefined) throw new Stop('mixes', 'its rows decide how wide it is');
      if (!hasRows(traced)) throw new Stop('unknown', 'it has no row for each row of the inputs');
      const rows = traced.shape?.[traced.axis];
      if (traced.axis !== batchAxis) {
        // In runs of one row, an axis of size 1 holds the rows as well.
        const isOne = constantOf(traced.shape?.[batchAxis] ?? ROWS) === 1;
        if (!isOne || this.#model.inputs.some(({ shape }) => shape[0] !== 1)) this.batchAxis = { [name]: traced.axis };
        throw new Stop('mixes', `its rows are on axis ${traced.axis}, not on axis ${batchAxis}`);
      }
      if (rows !== undefined && !isEqual(rows, ROWS))
        throw new Stop('mixes', 'it has another number of rows than the inputs');
    }
  }

  #open(): Size {
    return openSize(this.#opened++, this.#scale);
  }

  #inputOf(spec: Model['inputs'][number], names: Map<string, Size>): Traced {
    const { ragged } = this.#model;
    const rowsName = spec.shape[0];
    const shape = shapeInModel(
      spec,
      spec.shape.map((dim, axis): Size => {
        if (axis === 0) return ROWS;
        if (typeof dim === 'number') return constantSize(dim);
        if (dim === ragged?.name) return lengthSize(this.#scale);
        // Some exporters give all axes one name.
        const size = (dim === rowsName ? undefined : names.get(dim)) ?? this.#open();
        names.set(dim, size);
        return size;
      }),
    );
    return { kind: 'rows', axis: axisInModel(spec, 0), shape };
  }

  #followGraph(
    graph: Pick<Graph, 'nodes'>,
    scope: Scope,
    opsets: ReadonlyMap<string, number>,
    wanted: readonly string[],
  ): void {
    for (const node of neededFor(graph.nodes, wanted)) this.#followNode(node, scope, opsets);
  }

  #followNode(node: GraphNode, scope: Scope, opsets: ReadonlyMap<string, number>): void {
    const inputs = node.inputs.map((name) => (name === '' ? undefined : scope.get(name)));
    this.#looked = node;
    const outputs = this.#outputsOf(node, inputs, scope, opsets);
    this.#looked = node;
    for (const [index, name] of node.outputs.entries()) {
      const traced = outputs[index] ?? (outputs.length === 0 ? same() : undefined);
      if (name === '') continue;
      if (traced === undefined) throw new Stop('unknown', `output ${index} is not followed`);
      refuseOwnShape(traced);
      if (traced.shape?.some((size) => size.some((length) => length < 0)))
        throw new Stop('unknown', 'it does not run at the sizes that were tried');
      // Places are indexes. If they enter the data, rows mix.
      if (traced.byLength && hasRows(traced) && traced.kind !== 'places') this.byLength ??= this.at;
      scope.set(name, traced);
    }
  }

  #outputsOf(
    node: GraphNode,
    inputs: readonly (Traced | undefined)[],
    scope: Scope,
    opsets: ReadonlyMap<string, number>,
  ): readonly Traced[] {
    if (node.operator === 'Constant' && node.domain === '') return [constantOfNode(node)];
    const { functions } = this.#graph;
    const called = functions.size === 0 ? undefined : functions.get(`${node.domain}:${node.operator}:${node.overload}`);
    const rule = ruleOf(node);
    if (called !== undefined && rule !== undefined)
      throw new Stop('unknown', 'the model has a function of the name of an operator');
    if (called !== undefined) {
      const inner: Scope = new Map();
      for (const [index, name] of called.inputs.entries()) {
        const traced = inputs[index];
        if (traced !== undefined) inner.set(name, traced);
      }
      this.#followGraph({ nodes: nodesOfCall(called, node) }, inner, called.opsets, called.outputs);
      return called.outputs.map((name) => inner.get(name) ?? same());
    }
    const kinds = inputs.map((input) => input?.kind ?? 'same');
    const isFixed = kinds.every((kind) => kind === 'same' || kind === 'count');
    const ofUnknownShape = (): Traced[] =>
      node.outputs.map(() => ({
        kind: kinds.includes('count') ? 'count' : 'same',
        axis: -1,
        byLength: inputs.some((input) => input?.byLength),
      }));
    if (rule === undefined) {
      if (isFixed && !node.hasGraphs) return ofUnknownShape();
      throw new Stop('unknown', `operator ${node.operator} is not in the table`);
    }
    const step: Step = {
      node,
      inputs,
      opset: opsets.get(node.domain) ?? 1,
      open: () => this.#open(),
      within: (graph, given = []) => {
        const inner = scopeOf(graph, scope);
        for (const [index, traced] of given.entries()) inner.set(graph.inputs[index] ?? '', traced);
        this.#followGraph(graph, inner, opsets, graph.outputs);
        this.#looked = node;
        return graph.outputs.map((name) => inner.get(name) ?? same());
      },
    };
    try {
      return refuseByBatch(
        node,
        inputs.filter((input) => input !== undefined),
        [rule(step)].flat(),
      );
    } catch (error) {
      // A value that no row changes needs no rule, as long as nothing reads its shape.
      if (error instanceof Stop && error.verdict === 'unknown' && isFixed && !node.hasGraphs) return ofUnknownShape();
      throw error;
    }
  }
}

/** Refuses an output if the number of rows decides the size of an axis other than that of the rows. */
function refuseOwnShape({ kind, axis, shape = [] }: Traced): void {
  if (kind === 'count') return;
  if (shape.some((size, index) => index !== axis && variesWithRows(size)))
    throw new Stop('mixes', 'the number of rows decides its shape');
  const rows = shape[axis];
  if (rows !== undefined && !isMultipleOfRows(rows))
    throw new Stop('mixes', 'it has another number of rows than the inputs');
}

function constantOfNode(node: GraphNode): Traced {
  const tensor = node.tensor('value');
  if (tensor !== undefined) return constants(tensor.dims, tensor.values, tensor.isReal);
  const scalar = node.int('value_int') ?? node.float('value_float');
  if (scalar !== undefined) return constants([], [scalar], node.has('value_float'));
  const list = node.ints('value_ints') ?? node.floats('value_floats');
  if (list !== undefined) return constants([list.length], list, node.has('value_floats'));
  return node.has('value_strings')
    ? same([constantSize(node.texts('value_strings').length)])
    : same(node.has('value_string') ? [] : undefined);
}

/** Returns the values that the nodes of a graph see: its constants, and those of the graph around it. */
function scopeOf(graph: Graph, outer: Scope = new Map()): Scope {
  const own = [...graph.constants].map(
    ([name, { dims, values, isReal }]) => [name, constants(dims, values, isReal)] as const,
  );
  return new Map([...outer, ...own]);
}

/** Returns the nodes that the outputs need, each after the nodes of its inputs. A file may have them in any order. */
function neededFor(nodes: readonly GraphNode[], outputs: readonly string[]): ReadonlySet<GraphNode> {
  const makers = new Map(nodes.flatMap((node) => node.outputs.map((name) => [name, node] as const)));
  const makersOf = (names: readonly string[]): GraphNode[] =>
    names.flatMap((name) => (name === '' ? [] : (makers.get(name) ?? [])));
  const inOrder = new Set<GraphNode>();
  const begun = new Set<GraphNode>();
  const pending = makersOf(outputs);
  for (let node = pending.at(-1); node !== undefined; node = pending.at(-1)) {
    if (begun.has(node)) {
      inOrder.add(node);
      pending.pop();
      continue;
    }
    begun.add(node);
    pending.push(...makersOf([...node.inputs, ...node.namesWithin()]).filter((maker) => !begun.has(maker)));
  }
  return inOrder;
}
