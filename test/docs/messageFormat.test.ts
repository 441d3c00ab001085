import { describe, expect, it } from '@jest/globals';
import { ERROR_CODES } from '../../lambda/core/contract/failure.ts';
import type { PayloadReader } from '../../lambda/core/contract/payload.ts';
import { scoreRecords } from '../../lambda/core/scoreRecords.ts';
import { docExamples, docPage } from '../helpers/docExamples.ts';
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

const PAGE = docPage('message-format.md');

/** The codes named in the first column of the tables whose section says `kind`. */
function documentedCodes(page: string, kind: 'Permanent' | 'Transient'): string[] {
  const section = page.slice(page.indexOf(`\n${kind}:`));
  const table = section.slice(section.indexOf('\n| `'), section.indexOf('\n\n', section.indexOf('\n| `')));
  return [...table.matchAll(/^\| `([A-Z_]+)` \|/gm)].map(([, code = '']) => code);
}

describe('docs/message-format.md', () => {
  const examples = docExamples(PAGE);
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
