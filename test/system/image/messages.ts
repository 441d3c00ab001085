import { readFileSync } from 'node:fs';

/** A message's body, and what its result must hold. */
export interface ImageMessage {
  readonly body: string;
  readonly expected: unknown;
}

interface Digit {
  readonly pixels: readonly number[];
  readonly label: number;
}

interface Ticket {
  readonly text: string;
  readonly label: string;
}

/** Held-out samples that the models are right about: of the first digits, the second is a 3 that looks like a 9. */
const digits = samples<Digit>('digits').slice(2, 20);
const tickets = samples<Ticket>('tickets').slice(0, 10);

function samples<Sample>(model: string): Sample[] {
  const text = readFileSync(new URL(`../../../models/${model}/held-out.jsonl`, import.meta.url), 'utf8');
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
}

/** Requests in every form for both models, and every kind of message that cannot be scored, in turn. */
export function imageMessages(): ImageMessage[] {
  const [digit] = digits as [Digit];
  return [
    ...digits.map(inJson),
    ...digits.map(inBinary),
    ...digits.map(inShortForm),
    ...tickets.map(ofTicket),
    { body: '{"model_name":"words","instances":["The ÄÖÜ"]}', expected: { predictions: ['the äöü'] } },
    {
      body: `[${inJson(digit).body},${unknownModel(digit).body},${inJson(digit).body}]`,
      expected: packedAnswers(digit),
    },
    { body: 'seven, I think', expected: { code: 'INVALID_JSON' } },
    { body: request({ shape: [1, 63], data: digit.pixels.slice(1) }), expected: { code: 'INVALID_SHAPE' } },
    { body: request({ data: digit.pixels.with(0, 1e39) }), expected: { code: 'INVALID_DATA' } },
    { body: request({ datatype: 'INT64', data: digit.pixels }), expected: { code: 'INVALID_DATATYPE' } },
    { body: JSON.stringify({ model_name: 'tickets', text: 7 }), expected: { code: 'TRANSFORM_FAILED' } },
    unknownModel(digit),
  ];
}

/** A request for digits' label alone; `input` says the rest of its input. */
function request(input: object, others: object = {}): string {
  const inputs = [{ name: 'image', datatype: 'FP32', shape: [1, 64], ...input }];
  return JSON.stringify({ model_name: 'digits', inputs, outputs: [{ name: 'label' }], ...others });
}

function inJson({ pixels, label }: Digit): ImageMessage {
  const outputs = [{ name: 'label', datatype: 'INT64', shape: [1], data: [label] }];
  return { body: request({ data: pixels }), expected: { model_version: '1', outputs } };
}

function inBinary({ pixels, label }: Digit): ImageMessage {
  const contents = Buffer.from(Float32Array.from(pixels).buffer).toString('base64');
  const answer = Buffer.from(BigInt64Array.of(BigInt(label)).buffer).toString('base64');
  return { body: request({}, { raw_input_contents: [contents] }), expected: { raw_output_contents: [answer] } };
}

function inShortForm({ pixels, label }: Digit): ImageMessage {
  return { body: JSON.stringify({ instances: [pixels] }), expected: { predictions: [{ label }] } };
}

function ofTicket({ text, label }: Ticket): ImageMessage {
  return {
    body: JSON.stringify({ model_name: 'tickets', text }),
    expected: { model_name: 'tickets', result: { tickets: [{ label }] } },
  };
}

function unknownModel({ pixels }: Digit): ImageMessage {
  return { body: request({ data: pixels }, { model_name: 'letters' }), expected: { code: 'UNKNOWN_MODEL' } };
}

function packedAnswers(digit: Digit): unknown {
  return [inJson(digit).expected, unknownModel(digit).expected, inJson(digit).expected];
}
