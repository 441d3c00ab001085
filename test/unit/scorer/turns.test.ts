import { expect, it } from '@jest/globals';
import { createTurns } from '../../../lambda/scorer/lanes.ts';
import { closedGate, whatCanHappen } from '../../helpers/manualClock.ts';
import { enoughTime } from '../../helpers/scoring.ts';

it('a turn that excludes others begins after those before it, and delays those after it', async () => {
  const turns = createTurns();
  const events: string[] = [];
  const gates = { before: closedGate(), alone: closedGate(), after: closedGate() };
  const workOf = (name: keyof typeof gates) => async () => {
    events.push(`${name} begins`);
    await gates[name].opened;
    events.push(`${name} ends`);
  };
  const all = [turns.share(workOf('before')), turns.have(enoughTime(), workOf('alone')), turns.share(workOf('after'))];
  for (const gate of Object.values(gates)) {
    await whatCanHappen();
    expect(events.length % 2).toBe(1);
    gate.open();
  }
  await Promise.all(all);

  expect(events).toEqual(Object.keys(gates).flatMap((name) => [`${name} begins`, `${name} ends`]));
});
