/** Closes a session while its model runs, in a process of its own: a crash in native code would take jest along. */
import { openSession } from '../../../../lambda/onnx/session.ts';

const path = process.argv[2] ?? '';
const session = await openSession({ path, providers: ['cpu'], sessionOptions: { intraOpNumThreads: 1 } });

const data = new Float32Array(256 * 512);
const running = session.run({ inputs: [{ name: 'x', onnxType: 'float32', shape: [256, 512], data }] });
const [reply] = await Promise.all([running, session.close()]);
process.stdout.write(`closed, and the run gave ${reply.outputs[0]?.data.length} elements\n`);
