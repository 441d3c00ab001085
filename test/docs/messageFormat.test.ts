import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { ERROR_CODES } from '../../lambda/core/failure.ts';
import type { PayloadReader } from '../../lambda/core/payload.ts';
import { scoreRecords } from '../../lambda/core/scoreRecords.ts';
import {
  echoModel,
  enoughTime,
  lineModel,
  memoryWriter,
  repositoryOf,
  scoringDependencies,
  sumModel,
} from '../helpers/models.ts';
import { standardRecord } from '../helpers/records.ts';

const PAGE = readFileSync(new URL('../../docs/message-format.md', import.meta.url), 'utf8');

interface Example {
  readonly title: string;
  readonly request: string;
  readonly payload: string | undefined;
  readonly result: unknown;
}

/** Each `json request` fence with the `json result` after it, and the `json payload` before it if there is one. */
function examplesOf(page: string): Example[] {
  const examples: Example[] = [];
  let title = '';
  let payload: string | undefined;
  let request: string | undefined;
  for (const [, heading, kind, text = ''] of page.matchAll(/^## (.+)$|^```json (\w+)\n([\s\S]*?)^```$/gm)) {
    if (heading !== undefined) title = heading;
    if (kind === 'payload') payload = text;
    if (kind === 'request') request = text;
    if (kind === 'result' && request !== undefined) {
      examples.push({ title: `${title} ${examples.length + 1}`, request, payload, result: JSON.parse(text) });
      request = undefined;
      payload = undefined;
    }
  }
  return examples;
}

/** The codes named in the first column of the tables whose section says `kind`. */
function documentedCodes(page: string, kind: 'Permanent' | 'Transient'): string[] {
  const section = page.slice(page.indexOf(`\n${kind}:`));
  const table = section.slice(section.indexOf('\n| `'), section.indexOf('\n\n', section.indexOf('\n| `')));
  return [...table.matchAll(/^\| `([A-Z_]+)` \|/gm)].map(([, code = '']) => code);
}

describe('docs/message-format.md', () => {
  const examples = examplesOf(PAGE);
  const models = repositoryOf(
    sumModel(),
    lineModel(),
    echoModel('INT64', [], { name: 'exact' }),
    echoModel('FP32', [], { name: 'floats' }),
    echoModel('BYTES', [], { name: 'words' }),
  );

  it('has examples', () => {
    expect(examples.length).toBeGreaterThanOrEqual(11);
  });

  it.each(examples)('answers as written: $title', async ({ request, payload, result }) => {
    const payloads: PayloadReader = {
      read: async ({ bucket, key }) =>
        `${bucket}/${key}` === 'payload-bucket/payloads/1' ? String(payload) : 'nothing',
    };
    const writer = memoryWriter();
    const deps = { ...scoringDependencies({ models, writer }), payloads };
    await scoreRecords([standardRecord(request, { messageId: 'm-1' })], deps, enoughTime());
    expect(writer.documentsOf('m-1')).toEqual([result]);
  });

  it.each(['Permanent', 'Transient'] as const)('lists every %s code, and no other', (kind) => {
    const codes = Object.entries(ERROR_CODES).filter(([, is]) => is === kind.toLowerCase());
    expect(documentedCodes(PAGE, kind).toSorted()).toEqual(codes.map(([code]) => code).toSorted());
  });
});
