import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { scoreRecords } from '../../../lambda/hosts/records.ts';
import { type OnnxModelRepository, openRepository } from '../../../lambda/onnx/repository.ts';
import { docExamples, docPage } from '../../helpers/command.ts';
import { enoughTime, memoryWriter, scoringDependencies, standardRecord } from '../../helpers/scoring.ts';

describe('docs/transforms.md', () => {
  let models: OnnxModelRepository;
  beforeAll(async () => {
    models = await openRepository({
      directory: fileURLToPath(new URL('../../../models', import.meta.url)),
      defaultModel: 'digits',
      maxBatchRows: 512,
      maxBatchElements: 4_194_304,
      providers: ['cpu'],
      allowProviderFallback: false,
      warn: () => {},
    });
  });
  afterAll(() => models.close());

  it.each(docExamples(docPage('transforms.md')))('answers as written: $title', async ({ request, result }) => {
    const writer = memoryWriter();
    await scoreRecords(
      [standardRecord(request, { messageId: 'm-1' })],
      scoringDependencies({ models, writer }),
      enoughTime(),
    );
    expect(writer.documentsOf('m-1')).toEqual([result]);
  });
});
