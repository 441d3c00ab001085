import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { readOnnxFile } from '../../../cli/inspect/onnxFile.ts';
import { withGraph } from '../../../lambda/onnx/graph.ts';
import { modelDigest } from '../../../lambda/onnx/weights.ts';
import { batchscore } from '../../helpers/batchscore.ts';
import { model, node } from '../../helpers/graph.ts';
import { counting, found, modelsDirectory, openModels } from '../../helpers/openModels.ts';

/** Bytes of a number, with more of them than it needs if `bytes` says so. */
function varint(value: number | bigint, bytes = 1): Buffer {
  const digits: number[] = [];
  for (let rest = BigInt.asUintN(64, BigInt(value)); rest > 0n || digits.length < bytes; rest >>= 7n) {
    digits.push(Number(rest & 127n));
  }
  return Buffer.from(digits.map((digit, index) => (index < digits.length - 1 ? digit | 128 : digit)));
}

function number(field: number, value: number | bigint): Buffer {
  return Buffer.concat([varint(field << 3), varint(value)]);
}

function bytes(field: number, ...contents: readonly (Buffer | string)[]): Buffer {
  const all = Buffer.concat(contents.map((one) => Buffer.from(one)));
  return Buffer.concat([varint((field << 3) | 2), varint(all.length), all]);
}

function group(field: number, ...contents: readonly Buffer[]): Buffer {
  return Buffer.concat([varint((field << 3) | 3), ...contents, varint((field << 3) | 4)]);
}

const LOCATION = 14;
const EXTERNAL = number(LOCATION, 1);
const UNUSED = 99;
const entry = (key: string, value: string): Buffer => bytes(13, bytes(1, key), bytes(2, value));
const HEAD = Buffer.concat([number(1, 3), number(2, 1), bytes(8, 'w')]);
const ENTRIES = Buffer.concat([entry('location', 'w.bin'), entry('offset', '0'), entry('length', '12')]);
const RAW = bytes(9, Buffer.from(new Float32Array([100, 200, 300]).buffer));
const SUM = model('x FP32[batch,3]', 'y FP32[batch,3]', [node('Add', 'x w', 'y')]);

/** Adds `w` to its input: a second graph in a file is merged with the first. */
function sumWith(...tensor: readonly Buffer[]): Buffer {
  return Buffer.concat([SUM, bytes(7, bytes(5, ...tensor))]);
}

/** The same, with `w` from a node whose attribute is in two pieces, of which neither says all. */
function sumWithPieces(): Buffer {
  const attribute = [bytes(1, 'value'), number(20, 4), bytes(5, HEAD, ENTRIES), bytes(5, EXTERNAL)];
  const constant = bytes(1, bytes(2, 'w'), bytes(4, 'Constant'), bytes(5, ...attribute));
  const nothing = model('x FP32[batch,3]', 'y FP32[batch,3]', []);
  return Buffer.concat([
    nothing,
    bytes(7, constant, bytes(1, bytes(1, 'x'), bytes(1, 'w'), bytes(2, 'y'), bytes(4, 'Add'))),
  ]);
}

/** Spellings of a tensor that lies in another file, which ONNX Runtime reads there. */
const SPELLINGS: Readonly<Record<string, Buffer>> = {
  'as exporters write it': sumWith(HEAD, ENTRIES, EXTERNAL),
  'as 2^32 + 1': sumWith(HEAD, ENTRIES, number(LOCATION, 2n ** 32n + 1n)),
  'as 2^32 + 1, with weights in the model too': sumWith(HEAD, RAW, ENTRIES, number(LOCATION, 2n ** 32n + 1n)),
  'as a number of ten bytes': sumWith(HEAD, ENTRIES, varint(LOCATION << 3), varint(1, 10)),
  'with a tag of five bytes': sumWith(HEAD, ENTRIES, varint(LOCATION << 3, 5), varint(1)),
  'before a place that does not exist': sumWith(HEAD, ENTRIES, EXTERNAL, number(LOCATION, 2)),
  'before text in the place of a number': sumWith(HEAD, ENTRIES, EXTERNAL, bytes(LOCATION, '\0')),
  'before a group that says otherwise': sumWith(HEAD, ENTRIES, EXTERNAL, group(UNUSED, number(LOCATION, 0))),
  'behind a group': sumWith(group(UNUSED, number(1, 1)), HEAD, ENTRIES, EXTERNAL),
  'before a number in the place of its name': sumWith(
    HEAD,
    bytes(13, bytes(1, 'location'), bytes(2, 'w.bin'), number(1, 65)),
    EXTERNAL,
  ),
  'in two pieces': sumWithPieces(),
};

describe.each(Object.entries(SPELLINGS))('weights in another file, %s,', (_, bytes) => {
  const files = { 'm/1/model.onnx': bytes };
  const weights = (...numbers: number[]): Buffer => Buffer.from(new Float32Array(numbers).buffer);

  it('are seen where ONNX Runtime sees them', async () => {
    const { repository } = await openModels({ ...files, 'm/1/w.bin': weights(1, 2, 3) });
    const { run } = await found(repository.find(undefined, undefined));
    const { outputs } = await run([counting('x', 1, 3)]);
    expect(outputs[0]?.data).toEqual(new Float32Array([2, 4, 6]));
  });

  it('are missed by publish where they are not there', async () => {
    const folder = await modelsDirectory(files);
    const { code, stderr } = await batchscore(['publish', folder, 's3://bucket']);
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining("model.onnx: expected its weights in the file 'w.bin' beside it, got none"),
    ]);
  });

  it('are part of the digest', async () => {
    const digestWith = async (data: Buffer): Promise<string> =>
      modelDigest(join(await modelsDirectory({ ...files, 'm/1/w.bin': data }), 'm/1/model.onnx'));
    expect(await digestWith(weights(1, 2, 3))).not.toBe(await digestWith(weights(1, 2, 4)));
  });
});

describe('what inspect reads of a model', () => {
  it('is cut to the size of its type, as ONNX Runtime cuts it, and the last of a field is taken', async () => {
    const path = join(await modelsDirectory({}), 'model.onnx');
    const dims = bytes(2, bytes(1, bytes(2, 'batch')), bytes(1, number(1, -1n)), bytes(1, number(1, 9), number(1, 3)));
    const tensor = bytes(1, number(1, 7), number(1, 2n ** 32n + 1n), dims);
    const softmax = [bytes(4, 'Relu'), bytes(4, 'Softmax'), bytes(5, bytes(1, 'axis'), varint(3 << 3), zero())];
    writeFileSync(
      path,
      Buffer.concat([
        bytes(7, bytes(11, bytes(1, 'x'), bytes(2, tensor)), bytes(1, ...softmax)),
        bytes(8, number(2, 3), number(2, 21)),
      ]),
    );

    expect(readOnnxFile(path)).toMatchObject({
      inputs: [{ name: 'x', datatype: 'FP32', shape: ['batch', '?', 3] }],
      operators: [{ name: 'Softmax' }],
    });
    expect(withGraph(path, ({ nodes, opsets }) => [nodes[0]?.int('axis'), opsets.get('')])).toEqual([0, 21]);
  });

  /** 2^64, of which an `int64` keeps none. */
  function zero(): Buffer {
    return Buffer.from([...Array(9).fill(0x80), 0x02]);
  }
});
