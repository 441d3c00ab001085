import { expect, it } from '@jest/globals';
import { runScript } from '../../helpers/command.ts';
import { FAULTY } from './account.ts';

const NONE = Object.fromEntries(FAULTY.map((what) => [what, 0]));

it('every message is answered once and rightly through a short storm, by both hosts', async () => {
  const args = ['--minutes', '0.2', '--messages', '3000', '--seed', '1', '--json'];
  const { code, stdout, stderr } = await runScript('test/system/faults/testFaults.ts', args);
  expect({ code, why: code === 0 ? '' : stderr }).toEqual({ code: 0, why: '' });
  const { total, faults } = JSON.parse(stdout);
  expect(total).toMatchObject(NONE);
  expect(total.answered + total.ownFault).toBe(total.sent);
  expect(Object.keys(faults).length).toBeGreaterThan(5);
}, 300_000);
