import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import type { Template } from 'aws-cdk-lib/assertions';
import type { IGrantable } from 'aws-cdk-lib/aws-iam';
import { ecsCompute, ecsGpuCompute, lambdaGpuCompute } from '../../infra/index.ts';
import { docPage, REPOSITORY } from '../helpers/command.ts';
import { createScoring, synthesize, templateOf } from '../helpers/stacks.ts';
import { rightsIn, rightsOf, roleIn } from './policies.ts';

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
    const text = readFileSync(join(REPOSITORY, 'examples', 'policies', `${who}.json`), 'utf8');
    expect(page).toContain(`(../examples/policies/${who}.json)`);
    const scoring = createScoring({ results: ['queue', 'table', 'bucket'], jobs: {} });
    const grant: (grantee: IGrantable) => unknown = scoring[method].bind(scoring);
    grant(roleIn(scoring, 'Someone'));
    const granted = rightsOf(scoring, 'Someone').map(asOnThePage).toSorted();
    expect(granted).toEqual(rightsIn(JSON.parse(text).Statement));
  });

  it.each([
    ['a function with jobs', { jobs: {} }],
    ['a service', { compute: ecsCompute() }],
  ])('says of every alarm of %s what to do first', (_, props) => {
    const text = page.slice(page.indexOf('\n## Alarms\n'), page.indexOf('\n## Logs\n'));
    const named = [...text.matchAll(/`([A-Z]\w+)`(?=[^|\n]*\|[^|\n]*\|[^|\n]+\|\n)/g)].map(([, name]) => name);
    const alarms = Object.values(createScoring(props).alarms).map(({ node }) => node.id);
    expect(alarms.length).toBeGreaterThan(9);
    expect(named).toEqual(expect.arrayContaining(alarms));
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

/** The name that the page has for what the template refers to. */
const NAMES = {
  Requests: 'arn:aws:sqs:REGION:ACCOUNT:REQUEST_QUEUE',
  DeadLetters: 'arn:aws:sqs:REGION:ACCOUNT:DEAD_LETTER_QUEUE',
  Results: 'arn:aws:sqs:REGION:ACCOUNT:RESULT_QUEUE',
  ResultTable: 'arn:aws:dynamodb:REGION:ACCOUNT:table/RESULT_TABLE',
  PayloadBucket: 'arn:aws:s3:::PAYLOAD_BUCKET',
  ResultBucket: 'arn:aws:s3:::RESULT_BUCKET',
  JobsBucket: 'arn:aws:s3:::JOB_BUCKET',
  Jobs: 'STATE_MACHINE',
  ComputelambdaFunction: 'arn:aws:lambda:REGION:ACCOUNT:function:FUNCTION',
};

function asOnThePage(right: string): string {
  return Object.entries(NAMES)
    .reduce((text, [id, name]) => text.replaceAll(`<${id}>`, name), right)
    .replace(/<ComputelambdaFunctionSqsEventSource\w+>/, 'UUID');
}
