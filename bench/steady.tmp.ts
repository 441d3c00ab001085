import { copyFile, mkdir, mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openRepository } from '../lambda/onnx/repository.ts';
import { storeApart } from '../lambda/onnx/weights.ts';
import { DataType, encodeModel } from './workload/encodeModel.ts';
import { createRandom } from './workload/random.ts';
const WIDTH = 2048;
function layersOf(megabytes: number): Uint8Array {
  const layers = Math.max(1, Math.round((megabytes * 1e6) / (4 * WIDTH * WIDTH)));
  const random = createRandom(1);
  const weights = Float32Array.from({ length: WIDTH * WIDTH + 7 * layers }, () => 0.108 * (random.next() - 0.5));
  const names = Array.from({ length: layers }, (_, layer) => (layer === layers - 1 ? 'y' : `x${layer + 1}`));
  return encodeModel({
    inputs: [{ name: 'x', datatype: 'FP32', shape: ['batch', WIDTH] }],
    outputs: [{ name: 'y', datatype: 'FP32', shape: ['batch', WIDTH] }],
    nodes: names.flatMap((name, layer) => [
      { op: 'MatMul', inputs: [names[layer - 1] ?? 'x', `w${layer}`], outputs: [`sum${layer}`] },
      { op: 'Relu', inputs: [`sum${layer}`], outputs: [name] },
    ]),
    constants: names.map((_, layer) => ({ name: `w${layer}`, dataType: DataType.FLOAT, dims: [WIDTH, WIDTH], rawData: new Uint8Array(weights.buffer, 28 * layer, 4 * WIDTH * WIDTH) })),
  });
}
const folder = async () => { const d = await mkdtemp(join(tmpdir(), 'steady-')); await mkdir(join(d, 'm/1'), { recursive: true }); return d; };
const [plain, whole, apart] = [await folder(), await folder(), await folder()];
const f = (d: string) => join(d, 'm/1/model.onnx');
await writeFile(f(plain), layersOf(400)); await copyFile(f(plain), f(whole));
const open = (directory: string, keepsProof = false) => openRepository({ directory, maxBatchRows: 512, maxBatchElements: 1e8, providers: ['cpu'], allowProviderFallback: false, preload: true, keepsProof, warn: (m) => console.log('warn', m), inform: (m) => console.log(m) });
await (await open(whole, true)).close();
storeApart(f(whole), f(apart)); await copyFile(join(whole, 'm/1/proof.json'), join(apart, 'm/1/proof.json'));
console.log((await import('node:fs')).readFileSync(join(apart, 'm/1/proof.json'), 'utf8').match(/"prepacking.*/)?.[0]);
const a = await open(plain); const b = await open(apart);
const [ma, mb] = [await a.find('m', undefined), await b.find('m', undefined)] as any[];
await sleep(8000);
const once = async (m: any, rows: number) => { const t = performance.now(); await m.run([{ name: 'x', datatype: 'FP32', shape: [rows, WIDTH], data: new Float32Array(rows * WIDTH).fill(0.3) }]); return performance.now() - t; };
const median = (xs: number[]) => xs.toSorted((x, y) => x - y)[xs.length >> 1]!;
for (const rows of [1, 8, 64]) {
  const A: number[] = [], B: number[] = [];
  for (let round = 0; round < 15; round++) for (const [m, into] of (round % 2 ? [[mb, B], [ma, A]] : [[ma, A], [mb, B]]) as any) for (let k = 0; k < 6; k++) into.push(await once(m, rows));
  console.log(rows, 'rows: plain', median(A).toFixed(2), 'mapped', median(B).toFixed(2), 'ratio', (median(B) / median(A)).toFixed(3));
}
await a.close(); await b.close();
