import { hash } from 'node:crypto';
import { mkdir, mkdtemp, open, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { digestOf, type ModelFile, partsOf, writeManifest } from '../../lambda/aws/modelManifest.ts';
import { DataType, encodeModel } from './models/encodeModel.ts';

/** A model repository as a folder, and as it would be published. */
export interface LargeModel {
  readonly directory: string;
  readonly manifest: string;
  readonly digest: string;
}

const WIDTH = 64;
const PATH = 'items/1/model.onnx';

/**
 * A table of embeddings, as recommenders have them: `id` int64 `[batch]`, `embedding` float32 `[batch, 64]`. It is as
 * large as it is told, and its runs take no time, so that a start takes what reading it takes.
 */
export async function writeLargeModel(megabytes: number): Promise<LargeModel> {
  const directory = await mkdtemp(join(tmpdir(), 'batchscore-cold-start-'));
  const rows = Math.floor((megabytes * 1e6) / (4 * WIDTH));
  const table = Float32Array.from({ length: rows * WIDTH }, (_, index) => ((index * 2_654_435_761) % 1009) / 1009);
  const model = encodeModel({
    inputs: [{ name: 'id', datatype: 'INT64', shape: ['batch'] }],
    outputs: [{ name: 'embedding', datatype: 'FP32', shape: ['batch', WIDTH] }],
    nodes: [{ op: 'Gather', inputs: ['table', 'id'], outputs: ['embedding'], attributes: { axis: 0 } }],
    constants: [
      { name: 'table', dataType: DataType.FLOAT, dims: [rows, WIDTH], rawData: new Uint8Array(table.buffer) },
    ],
  });
  await mkdir(join(directory, 'items/1'), { recursive: true });
  await writeFile(join(directory, PATH), model);
  const manifest = writeManifest([await describe(join(directory, PATH))]);
  return { directory, manifest, digest: digestOf(manifest) };
}

async function describe(path: string): Promise<ModelFile> {
  const file = await open(path);
  const { size: bytes } = await file.stat();
  const parts: string[] = [];
  for (const { start, end } of partsOf(bytes)) {
    const { buffer } = await file.read(Buffer.alloc(end - start), 0, end - start, start);
    parts.push(hash('sha256', buffer));
  }
  await file.close();
  return { path: PATH, bytes, parts };
}
