import type { JobStorage } from '../../core/job/storage.ts';
import type { JobHead, Part } from '../../core/job/words.ts';
import { openCompressedText } from './compressedSource.ts';
import { requestOfFields } from './csvRows.ts';
import { requestOfLine, rowsOfLines } from './lineRows.ts';
import { openParquet } from './parquet/parquetReader.ts';
import type { PieceReader } from './pieceRows.ts';
import { openPlainText } from './textSource.ts';

/** @param mostLineBytes of a line; longer ones are refused as rows */
export function openReader(storage: JobStorage, head: JobHead, part: Part, mostLineBytes: number): PieceReader {
  if (head.format === 'parquet') return openParquet(storage, head, part);
  const open = head.compression === 'none' ? openPlainText : openCompressedText;
  const source = open(storage, head, part, mostLineBytes);
  const readLine = head.format === 'csv' ? requestOfFields(head) : requestOfLine;
  return {
    async read(piece, hasTime) {
      const bytes = await source.read(piece, hasTime);
      return bytes === undefined ? undefined : rowsOfLines(bytes, mostLineBytes, readLine);
    },
    close: () => source.close(),
  };
}
