import { closeSync, fstatSync, openSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { createReader, externalFiles, fieldsOfFile, type Read } from '../../lambda/onnx/modelFile.ts';
import { type FileValue, readValue } from './fileValue.ts';

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

export interface OperatorUse {
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
    const weights = [...externalFiles(file, bytes)].map(([name, least]) => {
      const found = statSync(resolve(dirname(path), name), { throwIfNoEntry: false });
      return { file: name, bytes: found?.size ?? least };
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

interface Found {
  /** By domain, a line break, and name. */
  readonly counts: Map<string, number>;
  readonly functions: Set<string>;
}

function readFunction(read: Read, from: number, to: number, { counts, functions }: Found): void {
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
