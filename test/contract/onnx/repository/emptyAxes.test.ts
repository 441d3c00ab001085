import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { attentionModel, renamedLengthModel } from '../../../helpers/axisModels.ts';
import { openOnly } from '../../../helpers/openModels.ts';
import { expectAnsweredAsAlone, FORMS, given, type RowsOf, sessionOf } from '../asAlone.ts';

const OF_ATTENTION: RowsOf = { names: ['y', 'present_key', 'present_value'], axes: [0, 0, 0] };

describe('a decoder, whose past is empty at first', () => {
  it('answers every request as ONNX Runtime does, in all forms, whatever shares its run', async () => {
    const opened = await openOnly(attentionModel(), { maxBatchRows: 4 });
    const session = await sessionOf(opened);
    const anyRequest = fc.record({
      form: fc.constantFrom(...FORMS),
      rows: fc.integer({ min: 1, max: 3 }),
      past: fc.constantFrom(0, 0, 0, 1, 3),
      length: fc.integer({ min: 1, max: 2 }),
      seed: fc.nat({ max: 1000 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(anyRequest, { minLength: 1, maxLength: 6 }), async (requests) => {
        const decoders = requests.map(({ form, rows, past, length, seed }) => ({
          form,
          inputs: [
            given('x', 0, [rows, 2, length, 4], seed),
            given('mask', 0, [rows, past + length], seed + 1),
            given('past_key', 0, [rows, 2, past, 4], seed + 2),
            given('past_value', 0, [rows, 2, past, 4], seed + 3),
          ],
        }));
        await expectAnsweredAsAlone(opened, decoders, OF_ATTENTION, session);
      }),
      { numRuns: 30 },
    );
  });

  it('is checked at start with an empty past, as no size fits all of its axes', async () => {
    const { model, warnings } = await openOnly(attentionModel());
    expect({ independence: model.independence, warnings }).toEqual({ independence: 'proved', warnings: [] });
  });

  it('may be warmed up with an empty past', async () => {
    const warmup = { sequence_length: 3, past_sequence_length: 0, 'past_sequence_length + sequence_length': 3 };
    const { model, warnings } = await openOnly(attentionModel(), { warmup });
    expect({ independence: model.independence, warnings }).toEqual({ independence: 'proved', warnings: [] });
  });
});

describe('a ragged axis of which a request has nothing', () => {
  it.each([{}, { batching: 'alone' }])('is padded and cut back like any other, with %j', async (config) => {
    const ragged = { axis: 'length', pad: { x: 0 }, cut: { y: 1 } };
    const opened = await openOnly(renamedLengthModel(), { ragged, ...config });
    const session = await sessionOf(opened);
    const requests = [0, 3, 0, 1].map((length, index) => ({
      form: FORMS[index] as (typeof FORMS)[number],
      inputs: [given('x', 0, [2, length], index)],
    }));
    await expectAnsweredAsAlone(opened, requests, { names: ['y'], axes: [0] }, session);
    await expectAnsweredAsAlone(opened, requests.slice(2, 3), { names: ['y'], axes: [0] }, session);
  });
});
