import { describe, expect, it } from '@jest/globals';
import { DATATYPES, type Datatype, type TensorData } from '../../../lambda/core/tensor.ts';
import { assignmentOf, type NvidiaDevices, type Provider } from '../../../lambda/onnx/provider.ts';
import { runsBetterOnOneCore } from '../../../lambda/onnx/session.ts';
import { endlessModel, identityModel, lookupModel, sumAndDifferenceModel } from '../../helpers/onnxModels.ts';
import { counting, openOnly, tensor } from '../../helpers/openModels.ts';

/** What is hard to carry in each datatype. */
const HARD_VALUES: Readonly<Record<Datatype, TensorData>> = {
  BOOL: Uint8Array.of(0, 1, 1, 0),
  UINT8: Uint8Array.of(0, 1, 254, 255),
  UINT16: Uint16Array.of(0, 1, 65_534, 65_535),
  UINT32: Uint32Array.of(0, 1, 2 ** 31, 2 ** 32 - 1),
  UINT64: BigUint64Array.of(0n, 1n, 2n ** 53n + 1n, 2n ** 64n - 1n),
  INT8: Int8Array.of(-128, -1, 0, 127),
  INT16: Int16Array.of(-32_768, -1, 0, 32_767),
  INT32: Int32Array.of(-(2 ** 31), -1, 0, 2 ** 31 - 1),
  INT64: BigInt64Array.of(-(2n ** 63n), -(2n ** 53n) - 1n, 2n ** 53n + 1n, 2n ** 63n - 1n),
  FP16: Float16Array.of(-0, 65_504, 2 ** -24, Number.NaN, Number.NEGATIVE_INFINITY, 0.1),
  FP32: Float32Array.of(-0, 3.4028234663852886e38, 1.401298464324817e-45, Number.NaN, Number.NEGATIVE_INFINITY, 0.1),
  FP64: Float64Array.of(-0, Number.MAX_VALUE, Number.MIN_VALUE, Number.NaN, Number.NEGATIVE_INFINITY, 0.1),
  BYTES: ['', 'plain', 'Zürich 東京 🚆', ' \n"\\'],
};

const DATATYPE_NAMES = Object.keys(DATATYPES) as Datatype[];

describe('a model whose runs are short', () => {
  it.each([
    [['cpu'], 0.05, true],
    [['cpu'], 0.15, true],
    [['cpu'], 0.2, false],
    [['cuda', 'cpu'], 0.05, false],
  ])('is opened anew for one core, once, on a processor alone: %j in %d ms: %j', (providers, fastestMs, expected) => {
    expect(runsBetterOnOneCore({ providers }, fastestMs)).toBe(expected);
  });
});

describe('a model in its thread', () => {
  it.each(DATATYPE_NAMES)('gives %s back as it was sent, in the same kind of array', async (datatype) => {
    const { model, warnings } = await openOnly(identityModel(datatype, ['batch', 2]));
    const sent = HARD_VALUES[datatype];
    const rows = sent.length / 2;

    const { outputs } = await model.run([tensor('x', datatype, [rows, 2], sent.slice())]);

    expect(outputs).toEqual([{ name: 'y', datatype, shape: [rows, 2], data: sent }]);
    expect(outputs[0]?.data.constructor.name).toBe(sent.constructor.name);
    expect(warnings).toEqual([]);
  });

  it('is given the memory of its inputs: nothing is copied', async () => {
    const { model } = await openOnly(sumAndDifferenceModel());
    const inputs = [counting('a', 2, 2), counting('b', 2, 2)];

    await model.run(inputs);

    expect(inputs.map(({ data }) => data.length)).toEqual([0, 0]);
  });

  it('answers runs that were started together each with its own outputs', async () => {
    const { model } = await openOnly(lookupModel());
    const indexes = [0n, 1n, 2n, 1n, 0n];

    const results = await Promise.all(
      indexes.map((index) => model.run([tensor('index', 'INT64', [1], BigInt64Array.of(index))])),
    );

    const values = results.map(({ outputs }) => outputs[0]?.data[0]);
    expect(values).toEqual([10, 20, 30, 20, 10]);
  });

  it('survives a run that fails, and says why it failed', async () => {
    const { model } = await openOnly(lookupModel());

    await expect(model.run([tensor('index', 'INT64', [1], BigInt64Array.of(3n))])).rejects.toThrow(
      /indices element out of data bounds, idx=3/,
    );

    const { outputs } = await model.run([tensor('index', 'INT64', [1], BigInt64Array.of(2n))]);
    expect(outputs[0]?.data).toEqual(Float32Array.of(30));
  });
});

describe('a run that asks ONNX Runtime for more memory than there is', () => {
  it('is told from other failures, and the next run goes on', async () => {
    const { model } = await openOnly(endlessModel(), { warmup: false });
    const one = () => model.run([tensor('x', 'FP32', [1, 1], Float32Array.of(1))]);
    const outOfMemory = {
      name: 'OutOfMemoryError',
      message: expect.stringContaining('the run needed more memory than there is: '),
    };
    await expect(one()).rejects.toMatchObject(outOfMemory);
    await expect(one()).rejects.toMatchObject(outOfMemory);
  });
});

/** The package comes without the libraries of CUDA and TensorRT: neither is available where nobody installs them. */
describe('an execution provider that is not available', () => {
  it('stops the start, naming the model file, the provider and the libraries it needs', async () => {
    const opening = openOnly(identityModel(), {}, { providers: ['cuda', 'cpu'] });

    await expect(opening).rejects.toThrow(
      /model\.onnx: execution provider 'cuda' is not available: (?:no NVIDIA driver was|the driver .+ has).*libonnxruntime_providers_shared\.so and libonnxruntime_providers_cuda\.so/,
    );
  });

  it('is passed over as often as it takes where that is allowed, each with a warning', async () => {
    const providers = ['tensorrt', 'cuda', 'cpu'];
    const { model, warnings } = await openOnly(identityModel(), {}, { providers, allowProviderFallback: true });

    expect(warnings).toEqual([
      expect.stringMatching(
        /model\.onnx: execution provider 'tensorrt' is not available: .*; falling back to cuda, cpu/,
      ),
      expect.stringMatching(/'cuda' is not available: .*; falling back to cpu as configured/),
    ]);
    expect((await model.run([counting('x', 2, 3)])).outputs[0]?.data).toEqual(Float32Array.of(1, 2, 3, 4, 5, 6));
  });
});

describe('an execution provider that ONNX Runtime does not know', () => {
  it.each([[true], [false]])('is refused, naming it and the known ones (fallback allowed: %s)', async (allowed) => {
    const opening = openOnly(identityModel(), {}, { providers: ['gpu', 'cpu'], allowProviderFallback: allowed });

    await expect(opening).rejects.toThrow(
      /model\.onnx: .*expected execution providers among .*cuda.*, got gpu; .*BATCHSCORE_PROVIDERS/,
    );
  });
});

const TWO_DEVICES: NvidiaDevices = { driver: '580.95.05', names: ['NVIDIA L4', 'NVIDIA L40S'] };

describe('where a model runs', () => {
  it.each<[provider: Provider, devices: number[] | undefined, NvidiaDevices | undefined, names: string[], string]>([
    ['cpu', undefined, TWO_DEVICES, [], 'cpu'],
    ['cuda', undefined, undefined, ['device 0'], 'cuda, device 0 (no name is known)'],
    [
      'cuda',
      [1, 2],
      TWO_DEVICES,
      ['NVIDIA L40S', 'device 2'],
      'cuda, devices 1, 2 (NVIDIA L40S, device 2, driver 580.95.05)',
    ],
  ])('is told of %s with the devices %j', async (provider, devices, machine, names, description) => {
    const assigned = await assignmentOf([provider], devices, async () => machine);
    expect(assigned).toEqual({ provider, devices: names, description });
  });

  it('stands in the start log, and is told', async () => {
    const assigned: unknown[] = [];

    const { log } = await openOnly(identityModel(), {}, { assigned: (placement) => void assigned.push(placement) });

    expect(log[0]).toMatch(/; it runs on cpu$/);
    expect(assigned).toEqual([{ provider: 'cpu', devices: [], description: 'cpu' }]);
  });
});
