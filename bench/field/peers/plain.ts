/**
 * One session of onnxruntime-node: behind plain HTTP, a run for each request, or, with a file of requests, as a loop that
 * parses, stacks, runs and stringifies what its parent asks for, and nothing else.
 */
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { answerParent } from '../../harness/child.ts';

/** A body of the Open Inference Protocol. */
interface Body {
  readonly inputs: readonly { name: string; datatype: string; shape: number[]; data: number[] }[];
}

const { FIELD_MODEL = '', FIELD_PORT = '', FIELD_BODIES } = process.env;
const session = await InferenceSession.create(FIELD_MODEL, {
  extra: { session: { intra_op: { allow_spinning: '0' } } },
});

async function score(bodies: readonly Body[]): Promise<string[]> {
  const [first] = bodies;
  const feeds = first?.inputs.map(({ name, datatype, shape: [, ...rest] }, index) => {
    const all = bodies.map(({ inputs }) => inputs[index]);
    const shape = [all.reduce((rows, one) => rows + (one?.shape[0] ?? 0), 0), ...rest];
    const data = all.length === 1 ? (all[0]?.data ?? []) : all.flatMap((one) => one?.data ?? []);
    return [name, datatype === 'INT64' ? new Tensor('int64', data, shape) : new Tensor('float32', data, shape)];
  });
  const outputs = Object.entries(await session.run(Object.fromEntries(feeds ?? [])));
  let row = 0;
  return bodies.map(({ inputs }) => {
    const rows = inputs[0]?.shape[0] ?? 0;
    const answer = outputs.map(
      ([
        name,
        {
          data,
          dims: [all = 1, ...rest],
        },
      ]) => {
        const each = data.length / all;
        const own = Array.from(data.slice(row * each, (row + rows) * each) as ArrayLike<unknown>, Number);
        return { name, shape: [rows, ...rest], data: own };
      },
    );
    row += rows;
    return JSON.stringify({ outputs: answer });
  });
}

if (FIELD_BODIES === undefined) {
  createServer((request, response) => {
    text(request)
      .then(async (body) => response.end((await score([JSON.parse(body)]))[0]))
      .catch((error: unknown) => response.writeHead(422).end(JSON.stringify({ error: String(error) })));
  }).listen(Number(FIELD_PORT), '127.0.0.1');
} else {
  const lines = readFileSync(FIELD_BODIES, 'utf8').trimEnd().split('\n');
  answerParent(async ({ batch, ms }: { batch: number; ms: number }) => {
    const [startedAt, cpu] = [performance.now(), process.cpuUsage()];
    let done = 0;
    for (; performance.now() < startedAt + ms; done += batch) {
      const some = Array.from({ length: batch }, (_, index) => lines[(done + index) % lines.length] ?? '');
      await score(some.map((line) => JSON.parse(line)));
    }
    const { user, system } = process.cpuUsage(cpu);
    return { done, wallMs: performance.now() - startedAt, cpuMs: (user + system) / 1000 };
  });
}
