import { describe, expect, it } from '@jest/globals';
import { createProbing } from '../../../lambda/hosts/consumer.ts';
import { createManualClock } from '../../helpers/manualClock.ts';

function probing() {
  const clock = createManualClock();
  const state = { isOut: false, polls: 0, changes: 0 };
  const probing = createProbing({
    isOut: () => state.isOut,
    poll: () => void state.polls++,
    onChange: () => void state.changes++,
    clock,
  });
  return { clock, state, probing };
}

describe('probing during an outage', () => {
  it('polls after 1, 2, 4, 8 and then every 16 seconds, as long as each probe fails', () => {
    const { clock, state, probing: probe } = probing();
    state.isOut = true;
    for (const seconds of [1, 2, 4, 8, 16, 16]) {
      probe.look();
      const before = state.polls;
      clock.advance(1000 * seconds - 1);
      expect([state.polls, probe.isPausing()]).toEqual([before, true]);
      clock.advance(1);
      expect([state.polls, probe.isPausing()]).toEqual([before + 1, false]);
    }
  });

  it('pauses once, however many batches meet the outage meanwhile, and tells of it once', () => {
    const { clock, state, probing: probe } = probing();
    state.isOut = true;
    for (let batch = 0; batch < 5; batch++) probe.look();
    clock.advance(1_000);

    expect(state).toMatchObject({ polls: 1, changes: 1 });
  });

  it('ends the pause with the outage, and begins with a second at the next one', () => {
    const { clock, state, probing: probe } = probing();
    state.isOut = true;
    probe.look();
    clock.advance(1_000);
    probe.look();
    state.isOut = false;
    probe.look();
    expect([probe.isPausing(), state.changes]).toEqual([false, 2]);
    state.isOut = true;
    probe.look();
    clock.advance(1_000);

    expect(state.polls).toBe(2);
  });
});
