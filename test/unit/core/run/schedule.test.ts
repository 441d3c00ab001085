import { expect, it } from '@jest/globals';
import { createSchedule } from '../../../../lambda/core/run.ts';
import { lineModel } from '../../../helpers/scoring.ts';

it('runs of a device are expected to end one after the other', () => {
  let now = 0;
  const schedule = createSchedule(() => now);
  const model = lineModel();
  const end = schedule.begin(model, 100);
  schedule.begin(model, 100);
  expect(schedule.busyMs(model)).toBe(200);

  now = 100;
  end();

  expect(schedule.busyMs(model)).toBe(100);
});
