import { poissonArrivals } from './arrivals.ts';
import type { Form } from './forms.ts';

/** What a form of compute costs at some rates, with the settings that were chosen for one of them. */
export interface FormCurve {
  readonly name: string;
  readonly points: readonly { readonly messagesPerSecond: number; readonly dollarsPerMillionRows: number }[];
}

/** Five to each power of ten, from 0.01 to 10,000 messages a second. */
const RATES = Array.from({ length: 31 }, (_, step) => 10 ** (step / 5 - 2));
const MESSAGES = 1_000;

/** Of the forms on which something was measured: batch size, window and memory stay, concurrency grows as it must. */
export function formCurves(forms: readonly Form[]): FormCurve[] {
  return forms.flatMap(({ name, dollarsAt }) =>
    dollarsAt === undefined
      ? []
      : [
          {
            name,
            points: RATES.map((messagesPerSecond) => ({
              messagesPerSecond,
              dollarsPerMillionRows: dollarsAt(poissonArrivals(messagesPerSecond, MESSAGES)).total,
            })),
          },
        ],
  );
}
