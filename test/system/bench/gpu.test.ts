import { describe, expect, it } from '@jest/globals';
import { InferenceSession, type Tensor } from 'onnxruntime-node';
import { stackMessages } from '../../../bench/contestants/bareSession.ts';
import { benchGpu } from '../../../bench/gpuBench.ts';
import { drawMessages } from '../../../bench/workload/messages.ts';
import { GPU_SCENARIOS } from '../../../bench/workload/scenarios.ts';
import { runMain } from '../../helpers/batchscore.ts';

/** Seconds on an idle machine; the rest is for a busy one. */
const LONG_TIMEOUT_MS = 240_000;
const ANY_NUMBER = expect.any(Number);

describe('npm run bench:gpu', () => {
  it('says that there is no device, what the driver has, and how to rehearse, and ends with 2', async () => {
    // No machine has so many.
    const { code, stdout, stderr } = await runMain(benchGpu, ['--device', '63', '--json']);

    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(
      /^batchscore: expected an NVIDIA device 63, got none: (no NVIDIA driver was found|the driver [\d.]+ has).*; measure on a machine that has one, or rehearse with --provider cpu\n$/,
    );
  });

  it(
    'rehearses on the processor, and prints one JSON object with --json',
    async () => {
      const few = ['--models', 'mlp-small', '--messages', '64', '--rounds', '1'];
      const { code, stdout } = await runMain(benchGpu, ['--provider', 'cpu', ...few, '--json']);

      expect(code).toBe(0);
      const results = JSON.parse(stdout);
      const [{ bestRows, rawPerSecond, pipelinePerSecond, ratio }] = results.models;
      const rows = [1, 2, 4, 8, 16, 32, 64].filter((count) => count <= bestRows);
      const first = { loadMs: ANY_NUMBER, firstMs: rows.map(() => ANY_NUMBER), againMs: rows.map(() => ANY_NUMBER) };
      expect(results).toMatchObject({
        ...{ provider: 'cpu', device: null, maxRows: 64, maxMessages: 64, rounds: 1 },
        models: [{ model: 'mlp-small', messages: 64, firstSeen: { rows, withoutWarmUp: first, withWarmUp: first } }],
      });
      expect(ratio).toBeCloseTo(pipelinePerSecond / rawPerSecond, 6);
    },
    LONG_TIMEOUT_MS,
  );
});

describe('a model of the GPU’s bench', () => {
  async function answersOf(name: string, count: number): Promise<Float32Array> {
    const scenario = GPU_SCENARIOS.find((one) => one.name === name);
    if (scenario === undefined) throw new Error(`expected a scenario ${name}, got none`);
    const session = await InferenceSession.create(scenario.encodeModel(), { logSeverityLevel: 4 });
    const [output] = Object.values(await session.run(stackMessages([...drawMessages(scenario, count)])));
    await session.release();
    return (output as Tensor).data as Float32Array;
  }

  it('answers in FP16 as in FP32, to a hundredth', async () => {
    const [halves, floats] = [await answersOf('transformer-fp16', 2), await answersOf('transformer', 2)];

    expect(halves).toHaveLength(2 * 384);
    for (const [index, value] of halves.entries())
      expect(Math.abs(value - (floats[index] as number))).toBeLessThan(0.02);
  });
});
