import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { TUNING_AMOUNTS } from '../../../infra/constructs/plan.ts';
import { SETTINGS, type Setting } from '../../../lambda/settings.ts';
import { docPage, REPOSITORY } from '../../helpers/command.ts';

/** The interfaces whose members docs/construct.md lists, each below a heading of its name. */
const TABLES = [
  'BatchScoringProps',
  'QueueStoreProps',
  'TableStoreProps',
  'BucketStoreProps',
  'ExistingQueue',
  'S3Models',
  'EfsModels',
  'ContainerImage',
  'CaptureOptions',
  'AlarmThresholds',
  'Tuning',
  'LambdaOptions',
  'FunctionResources',
  'FunctionNetwork',
  'LambdaGpuOptions',
  'ServiceOptions',
  'EcsOptions',
  'EcsGpuOptions',
  'JobOptions',
];

const SOURCES = globSync('infra/**/*.ts', { cwd: REPOSITORY }).map((file) =>
  readFileSync(join(REPOSITORY, file), 'utf8'),
);

const MEMBER = /(?:\/\*\*(?<doc>(?:(?!\*\/)[\s\S])*)\*\/\s+)?readonly (?<name>\w+)(?<isOptional>\?)?: (?<type>[^;]+);/g;

/** A row for each member: its name and type, what it says of itself, its default. Then those of what it extends. */
function rowsOf(name: string): string[] {
  const declaration = new RegExp(
    `interface ${name}\\b(?:<.*>)?(?:\\s+extends (?<bases>[^{]*))? \\{\\n(?<body>[\\s\\S]*?)\\n\\}`,
  );
  const found = SOURCES.map((source) => declaration.exec(source)?.groups).find((groups) => groups !== undefined);
  const { bases = '', body = '' } = found ?? {};
  const meaningOf = (member: string, doc: string) => (name === 'Tuning' ? `\`${variableOf(member)}\`` : doc);
  const rows = [...body.matchAll(MEMBER)].map(({ groups: { doc = '', name = '', isOptional, type = '' } = {} }) => {
    const words = doc.replaceAll(/\s*\n\s*\*?\s*/g, ' ').replace(/@see .*$/, '');
    const [what = '', byDefault = isOptional ? '' : 'required'] = words.split('@default').map((text) => text.trim());
    const cells = [`\`${name}: ${type.replace(' | undefined', '')}\``, meaningOf(name, what), byDefault];
    return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  });
  const others = bases.split(/,\s*/).filter((base) => base !== '' && !TABLES.includes(base));
  return [...rows, ...others.flatMap(rowsOf)];
}

/** The variable of the host that a prop of the tuning sets: docs/configuration.md says what it does. */
function variableOf(prop: string): string | undefined {
  const name = Object.entries(TUNING_AMOUNTS).find(([, [amount]]) => amount === prop)?.[0] ?? prop;
  return Object.entries<Setting>(SETTINGS).find(([known]) => known === name)?.[1].variable;
}

/** `UPDATE=1 npm test -- test/unit/docs/construct` writes the tables. */
it('docs/construct.md lists every prop as the code has it', () => {
  const page = docPage('construct.md');
  const listed = TABLES.reduce((text, name) => {
    const header = `| prop | ${name === 'Tuning' ? 'variable' : 'what it is'} | default |`;
    const table = [header, '| --- | --- | --- |', ...rowsOf(name)].join('\n');
    return text.replace(new RegExp(`(?<=### ${name}\\n\\n)(?:\\|.*\\n)*`), () => `${table}\n`);
  }, page);
  expect(TABLES.filter((name) => !page.includes(`### ${name}\n\n`))).toEqual([]);
  if (process.env.UPDATE !== undefined) return writeFileSync(`${REPOSITORY}/docs/construct.md`, listed);
  expect(page).toBe(listed);
});
