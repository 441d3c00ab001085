const NEWLINE = 10;
const CARRIAGE_RETURN = 13;
const BYTE_ORDER_MARK = '\uFEFF';
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * The lines of a stream of UTF-8, without their ends. Only \\n and \\r\\n end a line: JSON may hold the other
 * separators, U+2028 and U+2029, as they are. A byte order mark at the start is left out.
 *
 * @throws Error naming the line that is not UTF-8
 */
export async function* linesOf(stream: AsyncIterable<Buffer | string>): AsyncGenerator<string> {
  let pending: Buffer[] = [];
  let number = 0;
  const take = (): string => {
    const bytes = pending.length === 1 ? (pending[0] as Buffer) : Buffer.concat(pending);
    pending = [];
    number += 1;
    const text = decode(bytes.at(-1) === CARRIAGE_RETURN ? bytes.subarray(0, -1) : bytes, number);
    return number === 1 && text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text;
  };
  for await (const chunk of stream) {
    const bytes = Buffer.isBuffer(chunk) ? chunk : Buffer.from(chunk);
    let start = 0;
    for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, start)) {
      pending.push(bytes.subarray(start, end));
      yield take();
      start = end + 1;
    }
    if (start < bytes.length) pending.push(bytes.subarray(start));
  }
  if (pending.length > 0) yield take();
}

function decode(bytes: Buffer, number: number): string {
  const other = number === 1 && OTHERS.find(([start]) => bytes.subarray(0, start.length).equals(start));
  if (other) throw new Error(`line 1: expected UTF-8, got ${other[1]}`);
  try {
    return UTF8.decode(bytes);
  } catch (cause) {
    throw new Error(`line ${number}: expected UTF-8, got other bytes; convert the file`, { cause });
  }
}

/** How files begin that are often given in place of text, which none of them is, and what to do with them. */
const OTHERS: readonly (readonly [start: Buffer, what: string])[] = [
  [Buffer.from([0x1f, 0x8b]), 'gzip; unpack the file, as with gunzip'],
  [Buffer.from('PK\x03\x04'), 'a zip, such as a sheet of Excel is; unpack the file, or save the sheet as CSV'],
  [Buffer.from([0xff, 0xfe]), 'UTF-16, as PowerShell writes it; save the file as UTF-8'],
  [
    Buffer.from('\x93NUMPY', 'latin1'),
    'an array of NumPy; score it with batchscore score MODEL FILE, as a file that ends in .npy or with --format npy',
  ],
  [Buffer.from('PAR1\x15'), 'Parquet; put it into S3 and score it with batchscore job submit s3://BUCKET/KEY'],
];
