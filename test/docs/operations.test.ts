import { describe, expect, it } from '@jest/globals';
import { Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { type IGrantable, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { PRICES } from '../../infra/index.ts';
import { docPage } from '../helpers/docExamples.ts';
import { createScoring } from '../infra/setup.ts';

interface Statement {
  readonly Action: string | readonly string[];
}

describe('docs/operations.md', () => {
  const page = docPage('operations.md');

  it.each([
    ['producer', 'grantSubmit'],
    ['consumer', 'grantCollect'],
  ] as const)('allows a %s by hand what %s allows', (who, method) => {
    const text = page.match(new RegExp(`^\`\`\`json ${who}\n([\\s\\S]*?)^\`\`\`$`, 'm'))?.[1] ?? '';
    const scoring = createScoring({ results: ['queue', 'table', 'bucket'] });
    const role = new Role(Stack.of(scoring), 'Someone', { assumedBy: new ServicePrincipal('ec2.amazonaws.com') });
    const grant: (grantee: IGrantable) => unknown = scoring[method].bind(scoring);
    grant(role);
    const policies = Template.fromStack(Stack.of(scoring)).findResources('AWS::IAM::Policy');
    const granted = Object.entries(policies)
      .filter(([id]) => id.startsWith('Someone'))
      .flatMap(([, { Properties }]) => Properties.PolicyDocument.Statement);
    expect(actionsOf(JSON.parse(text).Statement)).toEqual(actionsOf(granted));
  });

  it('computes with the prices of the list', () => {
    const { lambdaArmGbSecond, instanceHour, sqsStandardMillionRequests, dynamodbMillionWrites } = PRICES;
    for (const price of [lambdaArmGbSecond, sqsStandardMillionRequests.toFixed(2), dynamodbMillionWrites]) {
      expect(page).toContain(`${price} $`);
    }
    for (const type of ['g4dn.xlarge', 'g6.xlarge']) {
      const month = ((instanceHour[type] ?? 0) * 1.15 * 730).toFixed(2);
      expect(page).toContain(`${type} 730 h × ${instanceHour[type]} $ × 1.15 = ${month} $`);
    }
    expect(page).toContain(PRICES.date);
  });
});

function actionsOf(statements: readonly Statement[]): string[] {
  return [...new Set(statements.flatMap(({ Action }) => [Action].flat()))].toSorted();
}
