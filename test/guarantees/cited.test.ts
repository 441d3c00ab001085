import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { REPOSITORY } from '../helpers/command.ts';

const PAGE = readFileSync(join(REPOSITORY, 'docs/guarantees.md'), 'utf8');

/** `7. Nothing leaves the account` */
const CLAUSES = Array.from(PAGE.matchAll(/^(\d\.) \*\*(.+?)\.?\*\*/gm), ([, number, title]) => `${number} ${title}`);

/** The first cells of a table, `of` what they are. */
function rowsOf(header: string, of: string): string[] {
  const [, body = ''] = PAGE.split(`| ${header} |`);
  const lines = body.split('\n').slice(2);
  const rows = lines.slice(
    0,
    lines.findIndex((line) => !line.startsWith('|')),
  );
  return rows.map(
    (line) =>
      `${of}: ${line
        .split('|')[1]
        ?.trim()
        .replace(/(:| \().*$/, '')}`,
  );
}

/** What tests cite: the name of a `describe`, and of each limit that `limits.test.ts` goes beyond. */
function citations(): string[] {
  const folders = ['test/guarantees', 'test/contract', 'test/system'];
  const files = folders.flatMap((folder) =>
    readdirSync(join(REPOSITORY, folder), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.test.ts'))
      .map((file) => readFileSync(join(REPOSITORY, folder, file), 'utf8')),
  );
  const cited = files.flatMap((text) => Array.from(text.matchAll(/describe\(\s*'((?:\d\. |Acknowledged: ).+?)'/g)));
  const limits = readFileSync(join(REPOSITORY, 'test/guarantees/limits.test.ts'), 'utf8');
  return [
    ...cited.map(([, citation = '']) => citation),
    ...Array.from(limits.matchAll(/^ {2}'(.+)': \[/gm), ([, limit]) => `Limits: ${limit}`),
  ];
}

describe('the page of guarantees', () => {
  it('has a test for each of its clauses, kinds of records and limits, and no test cites what it does not say', () => {
    const promised = [
      ...CLAUSES,
      ...rowsOf('the record | result | SQS', 'Acknowledged'),
      ...rowsOf('limit | default | beyond it', 'Limits'),
    ];

    expect(promised).toHaveLength(7 + 4 + 7);
    expect([...new Set(citations())].toSorted()).toEqual(promised.toSorted());
  });
});
