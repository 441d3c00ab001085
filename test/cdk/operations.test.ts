import { describe, expect, it } from '@jest/globals';
import { Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { type IGrantable, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { ecsCompute, ecsGpuCompute, lambdaGpuCompute } from '../../infra/index.ts';
import { docPage } from '../helpers/command.ts';
import { createScoring, synthesize, templateOf } from '../helpers/stacks.ts';

interface Statement {
  readonly Action: string | readonly string[];
  readonly Resource: unknown;
  readonly Condition?: unknown;
}

describe('docs/operations.md', () => {
  const page = docPage('operations.md');

  /** What the table of graphs in a section names, in its order. */
  function explainedIn(section: string): string[] {
    const text = page.slice(page.indexOf(`\n## ${section}\n`));
    const table = text.slice(text.indexOf('\n| graph |'));
    const rows = table.slice(0, table.indexOf('\n\n')).split('\n').slice(3);
    return rows.map((row) => row.slice(2, row.indexOf(' | ')).replace(/…$/, ''));
  }

  it.each([
    ['producer', 'grantSubmit'],
    ['consumer', 'grantCollect'],
    ['operator', 'grantOperate'],
    ['submitter', 'grantSubmitJobs'],
  ] as const)('allows a %s by hand what %s allows', (who, method) => {
    const text = page.match(new RegExp(`^\`\`\`json ${who}\n([\\s\\S]*?)^\`\`\`$`, 'm'))?.[1] ?? '';
    const scoring = createScoring({ results: ['queue', 'table', 'bucket'], jobs: {} });
    const role = new Role(Stack.of(scoring), 'Someone', { assumedBy: new ServicePrincipal('ec2.amazonaws.com') });
    const grant: (grantee: IGrantable) => unknown = scoring[method].bind(scoring);
    grant(role);
    const policies = Template.fromStack(Stack.of(scoring)).findResources('AWS::IAM::Policy');
    const granted = Object.entries(policies)
      .filter(([id]) => id.startsWith('Someone'))
      .flatMap(([, { Properties }]) => Properties.PolicyDocument.Statement);
    expect(rightsIn(JSON.parse(text).Statement)).toEqual(rightsIn(granted));
  });

  it.each([
    ['a function', {}],
    ['a GPU', { compute: lambdaGpuCompute() }],
  ])('explains every graph of the dashboard of %s, from top to bottom', (_, props) => {
    const explained = explainedIn('Read the dashboard');
    const shown = graphTitles(synthesize(props));
    expect(shown.length).toBeGreaterThan(10);
    const order = shown.map((title) => explained.findIndex((name) => title.startsWith(name)));
    expect(order).toEqual(order.toSorted((a, b) => a - b));
    expect(new Set(order)).toEqual(new Set(explained.keys()));
  });

  it.each([
    ['Fargate', ecsCompute(), ['GPUs']],
    ['GPUs on ECS', ecsGpuCompute(), []],
  ])('explains every graph of the dashboard of a service on %s', (_, compute, notShown) => {
    const ofService = explainedIn('ECS');
    const shown = graphTitles(templateOf(createScoring({ compute })));
    const explained = [...explainedIn('Read the dashboard'), ...ofService];
    expect(shown.filter((title) => !explained.some((name) => title.startsWith(name)))).toEqual([]);
    expect(ofService.filter((name) => !shown.some((title) => title.startsWith(name)))).toEqual(notShown);
  });

  it('explains every graph of jobs, from top to bottom', () => {
    const messages = graphTitles(synthesize());
    const shown = graphTitles(synthesize({ jobs: {} })).filter((title) => !messages.includes(title));
    const explained = explainedIn('Jobs');
    expect(shown.map((title) => explained.findIndex((name) => title.startsWith(name)))).toEqual([...explained.keys()]);
  });
});

/** The titles of the dashboard's widgets, in their order. */
function graphTitles(template: Template): string[] {
  const [dashboard] = Object.values(template.findResources('AWS::CloudWatch::Dashboard'));
  const parts: readonly unknown[] = dashboard?.Properties.DashboardBody['Fn::Join'][1];
  const body = parts.map((part) => (typeof part === 'string' ? part : 'reference')).join('');
  return JSON.parse(body).widgets.map(({ properties }: { properties: { title: string } }) => properties.title);
}

/** What statements allow, one line for each action on each resource, as the page names them. */
function rightsIn(statements: readonly Statement[]): string[] {
  const rights = statements.flatMap(({ Action, Resource, Condition = {} }) =>
    [Action]
      .flat()
      .flatMap((action) =>
        [Resource].flat().map((resource) => `${action} ${named(resource)} ${JSON.stringify(named(Condition))}`),
      ),
  );
  return [...new Set(rights)].toSorted();
}

/** The name that the page has for what the template refers to. */
const NAMES = [
  [/^AWS::Partition$/, 'aws'],
  [/^AWS::Region$/, 'REGION'],
  [/^AWS::AccountId$/, 'ACCOUNT'],
  [/^ScoringRequests[0-9A-F]+$/, 'arn:aws:sqs:REGION:ACCOUNT:REQUEST_QUEUE'],
  [/^ScoringDeadLetters[0-9A-F]+$/, 'arn:aws:sqs:REGION:ACCOUNT:DEAD_LETTER_QUEUE'],
  [/^ScoringResults[0-9A-F]+$/, 'arn:aws:sqs:REGION:ACCOUNT:RESULT_QUEUE'],
  [/^ScoringResultTable[0-9A-F]+$/, 'arn:aws:dynamodb:REGION:ACCOUNT:table/RESULT_TABLE'],
  [/^ScoringPayloadBucket[0-9A-F]+$/, 'arn:aws:s3:::PAYLOAD_BUCKET'],
  [/^ScoringResultBucket[0-9A-F]+$/, 'arn:aws:s3:::RESULT_BUCKET'],
  [/^ScoringJobsBucket[0-9A-F]+$/, 'arn:aws:s3:::JOB_BUCKET'],
  [/^ScoringComputelambdaFunction[0-9A-F]+$/, 'arn:aws:lambda:REGION:ACCOUNT:function:FUNCTION'],
  [/^ScoringComputelambdaFunctionSqsEventSource\w+$/, 'UUID'],
] as const;

function named(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(named);
  if (typeof node !== 'object' || node === null) return node;
  const { Ref, 'Fn::GetAtt': attribute, 'Fn::Join': joined } = node as Record<string, readonly [string, unknown[]]>;
  if (joined !== undefined) {
    return joined[1]
      .map(named)
      .join(joined[0])
      .replace(/Test-Scoring-Jobs-\w+/, 'STATE_MACHINE');
  }
  const id = String(Ref ?? attribute?.[0]);
  if (id !== 'undefined') return NAMES.find(([of]) => of.test(id))?.[1] ?? id;
  return Object.fromEntries(Object.entries(node).map(([key, value]) => [key, named(value)]));
}
