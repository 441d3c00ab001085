import fc from 'fast-check';

/** What a body says besides its id and elements: bodies of one frame differ as those of one producer do. */
interface Frame {
  readonly binary: boolean;
  readonly order: readonly string[];
  readonly inputOrder: readonly number[];
  readonly rows: number;
  /** Whitespace after each comma, colon and bracket. */
  readonly space: string;
  /** Members besides those that are needed, written, some of them a second time. */
  readonly extras: readonly string[];
  /** A second `data` in every input, before the one that counts. */
  readonly secondData: boolean;
}

/** What differs between bodies of one frame; texts are written as they stand in the body. */
interface Contents {
  readonly id: string | undefined;
  readonly elements: readonly string[];
  readonly base64: readonly string[];
}

/** The inputs of the model that these bodies are for. */
export const BODY_INPUTS = [
  { name: 'matrix', datatype: 'FP32', columns: 2, bytes: 4 },
  { name: 'index', datatype: 'INT64', columns: 1, bytes: 8 },
  { name: 'flags', datatype: 'UINT8', columns: 1, bytes: 1 },
] as const;

const SPACES = ['', '', '', '', ' ', ' ', '\n  ', '\t', '\r', '\u00a0'];

const EXTRAS = [
  '"parameters":{}',
  '"parameters":{"data":[1,2],"id":"order-1"}',
  '"parameters":{"trace":"[1]","n":[-0]}',
  '"parameters":{"binary_data_output":true}',
  '"parameters":{"id":"","x":"a"}',
  '"parameters":{"__proto__":{"id":"b"},"probe0":"probe0"}',
  '"parameters":{"a":[0.5,0],"b":[0.5,1],"c":[0.5,2]}',
  '"model_name":"wide"',
  '"model_name":"\\u0077ide"',
  '"model_version":"1"',
  '"outputs":[{"name":"out"}]',
  '"outputs":[]',
  '"id":"order-1"',
  '"id":"a"',
  '"\\u0069d":"b"',
  '"inputs":[]',
  '"inputs":[{"name":"flags","data":[1]}]',
  '"raw_input_contents":["AAAA"]',
];

const anyFrame: fc.Arbitrary<Frame> = fc.record({
  binary: fc.boolean(),
  order: fc.shuffledSubarray(['id', 'inputs', 'raw', 'extras'], { minLength: 4 }),
  inputOrder: fc.shuffledSubarray([0, 1, 2], { minLength: 3 }),
  rows: fc.integer({ min: 1, max: 3 }),
  space: fc.constantFrom(...SPACES),
  extras: fc.oneof(
    { weight: 5, arbitrary: fc.constant<string[]>([]) },
    { weight: 2, arbitrary: fc.subarray(EXTRAS, { maxLength: 2 }) },
  ),
  secondData: fc.oneof({ weight: 9, arbitrary: fc.constant(false) }, fc.constant(true)),
});

/** Mostly plain; among the others, texts that stand elsewhere in the body, or look like its structure. */
const ODD_IDS = [
  '',
  'a',
  'b',
  'id',
  'inputs',
  'data',
  'matrix',
  'FP32',
  ':',
  ',',
  '","',
  '":"',
  '[1]',
  '[0.5,0]',
  'probe0',
];
const anyId = fc.oneof(
  { weight: 4, arbitrary: fc.integer({ min: 0, max: 9999 }).map((n) => `"order-${n}"`) },
  { weight: 2, arbitrary: fc.constantFrom(...ODD_IDS).map((id) => JSON.stringify(id)) },
  { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 5 }).map((id) => JSON.stringify(id)) },
  {
    weight: 1,
    arbitrary: fc.constantFrom('1', 'null', '{}', '"\\u0061"', '"\\/"', `"${'i'.repeat(1025)}"`, '"\u007f"'),
  },
);

const anyPlain = fc.integer({ min: 0, max: 255 }).map(String);
const anyOdd = fc.constantFrom(
  ...['-0', '1e0', '1.0', '2E+1', '0.1', '7.', '01', '+1', '1e400', '9007199254740993'],
  ...['"NaN"', '"1"', '"]"', 'null', 'true', '[1]', '[1,2]', '{}', '', '"', '1,2', 'NaN'],
);
const anyElement = fc.oneof({ weight: 6, arbitrary: anyPlain }, { weight: 1, arbitrary: anyOdd });

function anyElements(count: number, columns: number): fc.Arbitrary<string> {
  const exactly = fc.array(anyElement, { minLength: count, maxLength: count });
  const flat = exactly.map((elements) => `[${elements.join(',')}]`);
  const plain = fc.array(anyPlain, { minLength: count, maxLength: count }).map((elements) => `[${elements.join(',')}]`);
  const nested = exactly.map((elements) => {
    const rows = Array.from({ length: count / columns }, (_, row) =>
      elements.slice(row * columns, (row + 1) * columns),
    );
    return `[${rows.map((row) => `[${row.join(',')}]`).join(',')}]`;
  });
  const odd = fc.constantFrom('[]', '[1]', '[1,2,3]', '7', '"[1]"', 'null', '{"a":[1]}', ' [1] ', '[1', '1]', '[1]]');
  return fc.oneof(
    { weight: 16, arbitrary: plain },
    { weight: 2, arbitrary: flat },
    { weight: 1, arbitrary: nested },
    { weight: 1, arbitrary: odd },
  );
}

function anyBase64(bytes: number): fc.Arbitrary<string> {
  const encoded = fc.uint8Array({ minLength: bytes, maxLength: bytes }).map((data) => Buffer.from(data));
  const plain = encoded.map((data) => `"${data.toString('base64')}"`);
  const other = fc.oneof(
    encoded.map((data) => `"${data.toString('base64url')}"`),
    encoded.map((data) => `"${data.toString('base64').replaceAll('/', '\\/')}"`),
    encoded.map(
      (data) => `"\\u00${data.toString('base64').charCodeAt(0).toString(16)}${data.toString('base64').slice(1)}"`,
    ),
    encoded.map((data) => `"${data.toString('base64').replace('A', '\u0141')}"`),
    encoded.map((data) => `"${data.toString('base64').replace('A', '\n')}"`),
    fc.constantFrom('""', '7', 'null', '["AAAA"]', '"===="', '"A"', '"AA=="'),
  );
  return fc.oneof({ weight: 16, arbitrary: plain }, { weight: 2, arbitrary: other });
}

function anyContents({ rows }: Frame): fc.Arbitrary<Contents> {
  return fc.record({
    id: fc.option(anyId, { nil: undefined, freq: 8 }),
    elements: fc.tuple(...BODY_INPUTS.map(({ columns }) => anyElements(rows * columns, columns))),
    base64: fc.tuple(...BODY_INPUTS.map(({ columns, bytes }) => anyBase64(rows * columns * bytes))),
  });
}

function format(frame: Frame, { id, elements, base64 }: Contents): string {
  const { binary, order, inputOrder, rows, space, extras, secondData } = frame;
  const list = (texts: readonly string[]): string => texts.join(`,${space}`);
  const inputs = inputOrder.map((index) => {
    const { name, datatype, columns } = BODY_INPUTS[index] as (typeof BODY_INPUTS)[number];
    const shape = columns === 1 && index === 2 ? `[${rows}]` : `[${rows},${columns}]`;
    const data = binary ? [] : [...(secondData ? ['"data":[1]'] : []), `"data":${space}${elements[index]}`];
    return `{${list([`"name":${space}"${name}"`, `"datatype":"${datatype}"`, `"shape":${shape}`, ...data])}}`;
  });
  const members: Readonly<Record<string, readonly string[]>> = {
    id: id === undefined ? [] : [`"id":${space}${id}`],
    inputs: [`"inputs":${space}[${list(inputs)}]`],
    raw: binary ? [`"raw_input_contents":${space}[${list(inputOrder.map((index) => base64[index] as string))}]`] : [],
    extras,
  };
  return `{${space}${list(order.flatMap((key) => members[key] ?? []))}}`;
}

/** One character is another one, is not there, or is there twice. */
const anyMutation = fc.record({
  at: fc.double({ min: 0, max: 1, noNaN: true }),
  taken: fc.integer({ min: 0, max: 2 }),
  put: fc.oneof(fc.constantFrom(...'"\\[]{},:0-.eA=\n \u0141'), fc.constant('')),
});

function mutate(body: string, { at, taken, put }: { at: number; taken: number; put: string }): string {
  const position = Math.floor(at * body.length);
  return body.slice(0, position) + put + body.slice(position + taken);
}

/** Bodies as a few producers send them, one after the other or mixed, some of them broken. */
export const anyBodies: fc.Arbitrary<string[]> = fc.array(anyFrame, { minLength: 1, maxLength: 2 }).chain((frames) => {
  const whole = fc
    .constantFrom(...frames)
    .chain((frame) => anyContents(frame).map((contents) => format(frame, contents)));
  const broken = fc.tuple(whole, anyMutation).map(([body, mutation]) => mutate(body, mutation));
  const either = fc.oneof({ weight: 4, arbitrary: whole }, { weight: 1, arbitrary: broken });
  return fc.array(either, { minLength: 2, maxLength: 8 });
});

/** Packed bodies of what a few producers send; each may be broken, or so long that it is outlined. */
export const anyPackedBodies: fc.Arbitrary<string[]> = fc.array(
  fc
    .tuple(
      fc.tuple(fc.constantFrom('', '', '', ' ', '\n', '\u00a0'), fc.constantFrom('', '', '', ' ', '\r\n')),
      fc.constantFrom(0, 0, 0, 65_536),
      fc.option(anyMutation, { freq: 4 }),
      anyBodies,
    )
    .map(([[before, after], padding, mutation, bodies]) => {
      const list = `[${before}${bodies.join(`${after},${before}`)}${' '.repeat(padding)}${after}]${before}`;
      return mutation === null ? list : mutate(list, mutation);
    }),
  { minLength: 1, maxLength: 3 },
);
