import { expect, it } from '@jest/globals';
import { ALL_METRIC_UNITS } from '../../../lambda/core/observer.ts';
import { docPage } from '../../helpers/command.ts';

it('docs/operations.md lists every metric by its unit', () => {
  const rows = Map.groupBy(Object.entries(ALL_METRIC_UNITS), ([, unit]) => unit)
    .entries()
    .map(([unit, metrics]) => `| ${unit.toLowerCase()} | ${metrics.map(([name]) => `\`${name}\``).join(', ')} |`);

  expect(docPage('operations.md')).toContain(['| unit | metrics |', '| --- | --- |', ...rows, ''].join('\n'));
});
