import { describe, expect, it } from '@jest/globals';
import type { NvidiaCards } from '../../../../lambda/aws/nvidiaCards.ts';
import { describeNvidia, type Provider, placementOf } from '../../../../lambda/onnx/provider.ts';
import { identityModel } from '../../../helpers/onnxModels.ts';
import { openOnly } from '../../../helpers/openModels.ts';

const TWO_CARDS: NvidiaCards = { driver: '580.95.05', names: ['NVIDIA L4', 'NVIDIA L40S'] };

describe('where a model runs', () => {
  it.each<[title: string, providers: readonly Provider[], machine: NvidiaCards | undefined, expected: object]>([
    ['a processor', ['cpu'], TWO_CARDS, { provider: 'cpu', cards: [], description: 'cpu' }],
    [
      'the first card, where none is chosen',
      ['cuda', 'cpu'],
      TWO_CARDS,
      { provider: 'cuda', cards: ['NVIDIA L4'], description: 'cuda, card 0 (NVIDIA L4, driver 580.95.05)' },
    ],
    [
      'the card that is chosen',
      [{ name: 'tensorrt', deviceId: 1 }, 'cuda'],
      TWO_CARDS,
      { provider: 'tensorrt', cards: ['NVIDIA L40S'], description: 'tensorrt, card 1 (NVIDIA L40S, driver 580.95.05)' },
    ],
    [
      'a card that the machine does not name',
      ['cuda'],
      undefined,
      { provider: 'cuda', cards: ['card 0'], description: 'cuda, card 0 (no name is known)' },
    ],
    ['a GPU without a number', ['webgpu'], TWO_CARDS, { provider: 'webgpu', cards: [], description: 'webgpu' }],
  ])('is told of %s', async (_, providers, machine, expected) => {
    expect(await placementOf(providers, undefined, async () => machine)).toEqual(expected);
  });

  it.each([
    [[0, 1], ['NVIDIA L4', 'NVIDIA L40S'], 'cuda, cards 0, 1 (NVIDIA L4, NVIDIA L40S, driver 580.95.05)'],
    [[1], ['NVIDIA L40S'], 'cuda, card 1 (NVIDIA L40S, driver 580.95.05)'],
    [[1, 2], ['NVIDIA L40S', 'card 2'], 'cuda, cards 1, 2 (NVIDIA L40S, card 2, driver 580.95.05)'],
  ])('is told of its cards %j', async (devices, cards, description) => {
    expect(await placementOf(['cuda'], devices, async () => TWO_CARDS)).toEqual({
      provider: 'cuda',
      cards,
      description,
    });
  });

  it('stands in the start log, and is told', async () => {
    const log: string[] = [];
    const placed: unknown[] = [];

    await openOnly(
      identityModel(),
      {},
      { inform: (line) => void log.push(line), placed: (placement) => void placed.push(placement) },
    );

    expect(log[0]).toMatch(/; it runs on cpu$/);
    expect(placed).toEqual([{ provider: 'cpu', cards: [], description: 'cpu' }]);
  });
});

describe('what a machine has for a provider that cannot be loaded', () => {
  it.each([
    [undefined, 'no NVIDIA driver was found: there is no /proc/driver/nvidia, and nvidia-smi does not answer'],
    [TWO_CARDS, 'the driver 580.95.05 has the cards 0 (NVIDIA L4), 1 (NVIDIA L40S)'],
    [{ driver: '580.95.05', names: [] }, 'the driver 580.95.05 has no card'],
  ])('is said: %j', (machine, expected) => {
    expect(describeNvidia(machine)).toBe(expected);
  });

  it('is part of the refusal', async () => {
    const opening = openOnly(identityModel(), {}, { providers: ['cuda'] });

    await expect(opening).rejects.toThrow(/'cuda' is not available \(.+\); (no NVIDIA driver was|the driver .+ has)/);
  });
});
