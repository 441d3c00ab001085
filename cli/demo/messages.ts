import { readFile } from 'node:fs/promises';

/** One message to send, and what its result must say. */
export interface DemoMessage {
  readonly id: string;
  readonly body: string;
  /** The digit's true label; undefined for a message that is broken on purpose. */
  readonly label: number | undefined;
  /** The digit as it is sent. */
  readonly pixels?: readonly number[];
}

interface Sample {
  readonly pixels: readonly number[];
  readonly label: number;
}

/** The held-out digits, repeated to `count` messages, with a dozen broken ones spread among them. */
export async function demoMessages(samplesFile: URL, count: number): Promise<DemoMessage[]> {
  const samples = parseSamples(await readFile(samplesFile, 'utf8'));
  const digits = Array.from({ length: count }, (_, index): DemoMessage => {
    const { pixels, label } = samples[index % samples.length] as Sample;
    const id = `digit-${index}`;
    return { id, body: requestFor(id, { data: pixels }), label, pixels };
  });
  const broken = brokenMessages(samples[0] as Sample);
  const every = Math.max(1, Math.floor(count / broken.length));
  return spread(digits, broken, every);
}

function parseSamples(text: string): Sample[] {
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
}

/** A request for the digits model; `input` and `request` say what differs from a plain one. */
function requestFor(id: string, input: object, request: object = {}): string {
  const image = { name: 'image', datatype: 'FP32', shape: [1, 64], ...input };
  return JSON.stringify({ id, model_name: 'digits', inputs: [image], ...request });
}

function brokenMessages({ pixels }: Sample): DemoMessage[] {
  const withFirst = (value: unknown) => [value, ...pixels.slice(1)];
  const image = { name: 'image', datatype: 'FP32', shape: [1, 64], data: pixels };
  const bodies: [what: string, body: (id: string) => string][] = [
    ['not-json', () => 'seven, I think'],
    ['nan', (id) => requestFor(id, { data: pixels }).replace('"data":[0', '"data":[NaN')],
    ['no-request', () => '42'],
    ['wrong-shape', (id) => requestFor(id, { shape: [1, 63], data: pixels.slice(1) })],
    ['short-data', (id) => requestFor(id, { data: pixels.slice(1) })],
    ['wrong-dtype', (id) => requestFor(id, { datatype: 'INT64', data: pixels })],
    ['null', (id) => requestFor(id, { data: withFirst(null) })],
    ['out-of-range', (id) => requestFor(id, { data: withFirst(1e39) })],
    ['unknown-model', (id) => requestFor(id, { data: pixels }, { model_name: 'letters' })],
    ['unknown-version', (id) => requestFor(id, { data: pixels }, { model_version: '99' })],
    ['unknown-input', (id) => requestFor(id, { name: 'picture', data: pixels })],
    ['doubled-input', (id) => requestFor(id, { data: pixels }, { inputs: [image, image] })],
  ];
  return bodies.map(([what, body]) => ({ id: `broken-${what}`, body: body(`broken-${what}`), label: undefined }));
}

function spread<T>(items: readonly T[], extra: readonly T[], every: number): T[] {
  const mixed: T[] = [];
  const left = [...extra];
  for (const [index, item] of items.entries()) {
    if (index % every === 0) mixed.push(...left.splice(0, 1));
    mixed.push(item);
  }
  return [...mixed, ...left];
}
