import { z } from 'zod';
import { hasCards } from '../session/provider.ts';
import { atLeast } from './numbers.ts';

const provider = z
  .looseObject(
    { name: z.string({ error: 'expected the name of a provider, such as "cuda"' }), deviceId: atLeast(0).optional() },
    { error: 'expected the name of a provider, or an object with it' },
  )
  .superRefine(({ name, ...options }, context) => {
    const passedOn = hasCards(name) ? ['deviceId'] : [];
    const ignored = Object.keys(options).filter((key) => !passedOn.includes(key));
    if (ignored.length === 0) return;
    const message =
      `expected ${passedOn.length === 0 ? 'no option' : 'deviceId alone'} of '${name}', got ${ignored.join(', ')}, ` +
      'which ONNX Runtime for Node would ignore; remove it';
    context.addIssue({ code: 'custom', message });
  })
  .transform(({ name, deviceId }) => (deviceId === undefined ? { name } : { name, deviceId }));

const LIST = 'expected an array of execution providers, such as ["cuda", "cpu"]';

const nameToObject = (given: unknown): unknown => (typeof given === 'string' ? { name: given } : given);

/** Execution providers, first choice first: names, or objects that say on which card. */
export const providers = z.array(z.preprocess(nameToObject, provider), { error: LIST }).min(1, { error: LIST });
