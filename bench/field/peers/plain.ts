/** Server with one onnxruntime-node session behind plain HTTP. It runs the model once per request. */
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import { InferenceSession, Tensor } from 'onnxruntime-node';

interface Body {
  readonly inputs: readonly { name: string; datatype: string; shape: number[]; data: number[] }[];
}

const { FIELD_MODEL = '', FIELD_PORT = '' } = process.env;
const session = await InferenceSession.create(FIELD_MODEL, {
  extra: { session: { intra_op: { allow_spinning: '0' } } },
});

async function score({ inputs }: Body): Promise<string> {
  const feeds = inputs.map(({ name, datatype, shape, data }) => [
    name,
    datatype === 'INT64' ? new Tensor('int64', data, shape) : new Tensor('float32', data, shape),
  ]);
  const values = await session.run(Object.fromEntries(feeds));
  const outputs = Object.entries(values).map(([name, { dims, data }]) => ({
    name,
    shape: dims,
    data: Array.from(data as ArrayLike<unknown>, Number),
  }));
  return JSON.stringify({ outputs });
}

createServer((request, response) => {
  text(request)
    .then(async (body) => response.end(await score(JSON.parse(body))))
    .catch((error: unknown) => response.writeHead(422).end(JSON.stringify({ error: String(error) })));
}).listen(Number(FIELD_PORT), '127.0.0.1');
