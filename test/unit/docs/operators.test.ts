import { expect, it } from '@jest/globals';
import { FAMILIES } from '../../../lambda/onnx/rules/families.ts';
import { docPage } from '../../helpers/command.ts';

it('docs/models.md lists every operator that keeps rows apart only under a condition', () => {
  const withCondition = FAMILIES.filter(({ apart }) => !/^always(;|$)/.test(apart));
  const rows = Map.groupBy(withCondition, ({ apart }) => apart)
    .entries()
    .map(([apart, families]) => {
      const names = families.flatMap(({ operators }) => operators).map((name) => `\`${name}\``);
      return `| ${apart} | ${names.join(', ')} |`;
    });

  expect(docPage('models.md')).toContain(['| rows stay apart | operators |', '| --- | --- |', ...rows, ''].join('\n'));
});
