import { expect, it } from '@jest/globals';
import { FAMILIES } from '../../../lambda/onnx/operatorRules.ts';
import { docPage } from '../../helpers/command.ts';

it('docs/models.md lists every operator with its rule', () => {
  const rows = FAMILIES.map(
    ({ operators, apart }) => `| ${operators.map((name) => `\`${name}\``).join(', ')} | ${apart} |`,
  );

  expect(docPage('models.md')).toContain(['| operators | rows stay apart |', '| --- | --- |', ...rows, ''].join('\n'));
});
