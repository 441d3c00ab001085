import { readFileSync, writeFileSync } from 'node:fs';
import { expect, it } from '@jest/globals';
import { docPage, REPOSITORY } from '../../helpers/command.ts';

/** The interfaces whose members docs/construct.md lists, each below a heading of its name, and where they are. */
const TABLES = {
  BatchScoringProps: 'infra/constructs/props.ts',
  QueueStoreProps: 'infra/stores/queueStore.ts',
  TableStoreProps: 'infra/stores/tableStore.ts',
  BucketStoreProps: 'infra/stores/bucketStore.ts',
  CaptureOptions: 'infra/constructs/props.ts',
  AlarmThresholds: 'infra/monitoring/alarms.ts',
  Tuning: 'infra/constructs/props.ts',
  LambdaOptions: 'infra/compute/lambdaCompute.ts',
  FunctionResources: 'infra/compute/scoringFunction.ts',
  LambdaGpuOptions: 'infra/compute/lambdaGpuCompute.ts',
  ServiceOptions: 'infra/compute/serviceOptions.ts',
  EcsOptions: 'infra/compute/ecsCompute.ts',
  EcsGpuOptions: 'infra/compute/ecsGpuCompute.ts',
  JobOptions: 'infra/jobs/jobOptions.ts',
};

const MEMBER = /\/\*\*(?<doc>(?:(?!\*\/)[\s\S])*)\*\/\s+readonly (?<name>\w+)\??: (?<type>[^;]+);/g;

/** A row for each member: its name and type, what it says of itself, its default. */
function tableOf(name: string, file: string): string {
  const source = readFileSync(`${REPOSITORY}/${file}`, 'utf8');
  const [, body = ''] = new RegExp(`export interface ${name}\\b[^{]*\\{\\n([\\s\\S]*?)\\n\\}`).exec(source) ?? [];
  const rows = [...body.matchAll(MEMBER)].map(({ groups: { doc = '', name = '', type = '' } = {} }) => {
    const words = doc.replaceAll(/\s*\n\s*\*?\s*/g, ' ').replace(/@see .*$/, '');
    const [what = '', byDefault = ''] = words.split('@default').map((text) => text.trim());
    const cells = [`\`${name}\``, `\`${type.replace(' | undefined', '')}\``, what, byDefault];
    return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  });
  return ['| name | type | what it is | default |', '| --- | --- | --- | --- |', ...rows].join('\n');
}

/** `UPDATE=1 npm test -- test/unit/docs/construct` writes the tables. */
it('docs/construct.md lists every prop as the code has it', () => {
  const page = docPage('construct.md');
  const listed = Object.entries(TABLES).reduce(
    (text, [name, file]) =>
      text.replace(new RegExp(`(?<=### ${name}\\n\\n)(?:\\|.*\\n)*`), () => `${tableOf(name, file)}\n`),
    page,
  );
  if (process.env.UPDATE !== undefined) writeFileSync(`${REPOSITORY}/docs/construct.md`, listed);
  expect(Object.keys(TABLES).filter((name) => !page.includes(`### ${name}\n\n`))).toEqual([]);
  expect(page).toBe(listed);
});
