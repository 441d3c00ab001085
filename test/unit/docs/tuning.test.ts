import { describe, expect, it } from '@jest/globals';
import { CONFIG_KEYS, CONFIG_PREFIX } from '../../../lambda/settings.ts';
import { docPage } from '../../helpers/command.ts';

describe('docs/tuning.md', () => {
  it('names settings that there are', () => {
    const named = docPage('tuning.md').match(new RegExp(`${CONFIG_PREFIX}[A-Z_]+`, 'g')) ?? [];
    expect(named.length).toBeGreaterThan(5);
    expect(Object.values<string>(CONFIG_KEYS)).toEqual(expect.arrayContaining(named));
  });
});
