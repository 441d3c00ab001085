import { closeSync, fstatSync, openSync } from 'node:fs';
import { externalFiles } from './modelFile.ts';
import { createReader, isAt, lengthDelimited, Message, rewrite, varint } from './protobuf.ts';

/*
 * Exporters of classifiers end a graph with a ZipMap by default, which turns probabilities into a map for each row. ONNX
 * Runtime for Node carries no maps, so the model is opened without that node:
 *
 *   scores FP32 [rows, classes] ─ ZipMap ─> probabilities, maps     in the file
 *   scores FP32 [rows, classes] ─ Identity ─> probabilities FP32    as it is opened
 *
 * @see https://github.com/onnx/onnx/blob/main/docs/Operators-ml.md#ai.onnx.ml.ZipMap
 */

/** Field numbers of the messages. @see https://github.com/onnx/onnx/blob/main/onnx/onnx.proto */
const MODEL = { graph: 7, opset: 8 } as const;
const OPSET = { domain: 1, version: 2 } as const;
const GRAPH = { node: 1, output: 12 } as const;
const NODE = { input: 1, output: 2, operator: 4 } as const;
const VALUE = { name: 1, type: 2 } as const;
const TYPE = { tensor: 1, sequence: 4 } as const;
const ELEMENT_TYPE = 1;
const FLOAT = 1;
/** Operator set with Identity, for a model that declares only that of classical models. */
const ANY_OPSET = 13;

/**
 * Returns the bytes of a model whose maps of probabilities are tensors with a column for each class, in the order of the
 * class labels. Returns undefined if the model has no such maps, or has weights in other files.
 */
export function withTensorsForMaps(path: string): Uint8Array | undefined {
  const file = openSync(path, 'r');
  try {
    const { size } = fstatSync(file);
    const read = createReader(file);
    const model = new Message(read, { start: 0, end: size });
    const graph = model.message(MODEL.graph);
    const isSequence = (value: Message): boolean => value.message(VALUE.type).messages(TYPE.sequence).length > 0;
    const sequences = graph.messages(GRAPH.output).filter(isSequence);
    const names = new Set(sequences.map((value) => value.text(VALUE.name)));
    const isZipMap = (node: Message): boolean =>
      node.text(NODE.operator) === 'ZipMap' && names.has(node.text(NODE.output));
    const zipped = names.size === 0 ? [] : graph.messages(GRAPH.node).filter(isZipMap);
    if (zipped.length === 0 || externalFiles(file, size).size > 0) return undefined;
    const maps = new Set(zipped.map((node) => node.text(NODE.output)));
    const copy = rewrite(read, 0, size, (field) => {
      if (!isAt(field, MODEL.graph)) return undefined;
      return rewrite(read, field.start, field.end, (inner) => {
        const message = new Message(read, inner);
        if (isAt(inner, GRAPH.node)) return isZipMap(message) ? identityOf(message) : undefined;
        const isMap = isAt(inner, GRAPH.output) && maps.has(message.text(VALUE.name));
        return isMap ? floatsCalled(message.text(VALUE.name)) : undefined;
      });
    });
    const isDeclared = model.messages(MODEL.opset).some((opset) => ['', 'ai.onnx'].includes(opset.text(OPSET.domain)));
    return isDeclared ? copy : Buffer.concat([copy, lengthDelimited(MODEL.opset, integer(OPSET.version, ANY_OPSET))]);
  } finally {
    closeSync(file);
  }
}

function identityOf(zipMap: Message): Buffer {
  return Buffer.concat([
    lengthDelimited(NODE.input, Buffer.from(zipMap.text(NODE.input))),
    lengthDelimited(NODE.output, Buffer.from(zipMap.text(NODE.output))),
    lengthDelimited(NODE.operator, Buffer.from('Identity')),
  ]);
}

function floatsCalled(name: string): Buffer {
  const tensor = lengthDelimited(TYPE.tensor, integer(ELEMENT_TYPE, FLOAT));
  return Buffer.concat([lengthDelimited(VALUE.name, Buffer.from(name)), lengthDelimited(VALUE.type, tensor)]);
}

function integer(number: number, value: number): Buffer {
  return Buffer.concat([varint(number << 3), varint(value)]);
}
