import { duration, figure } from './format.js';

/** @typedef {import('../wire.ts').SecondSeen} SecondSeen */
/** @typedef {{ readonly name: string, readonly of: (second: SecondSeen) => number | null }} Line */
/** @typedef {{ readonly title: string, readonly lines: readonly [Line, Line], readonly spell: (value: number) => string }} Chart */

/**
 * What size and window change.
 *
 * @type {readonly Chart[]}
 */
export const EFFECTS = [
  {
    title: 'Queue to result',
    spell: duration,
    lines: [
      { name: 'p50', of: ({ p50Ms }) => p50Ms },
      { name: 'p99', of: ({ p99Ms }) => p99Ms },
    ],
  },
  {
    title: 'Fill and padding',
    spell: (value) => `${figure(value)} %`,
    lines: [
      { name: 'of the batch size', of: ({ records, room }) => (room === 0 ? null : (100 * records) / room) },
      {
        name: 'of rows run are padding',
        of: ({ rows, paddedRows }) => (paddedRows === 0 ? null : 100 * (1 - rows / paddedRows)),
      },
    ],
  },
];

/**
 * What goes through.
 *
 * @type {readonly Chart[]}
 */
export const FLOW = [
  {
    title: 'Messages a second',
    spell: (value) => `${figure(value)}/s`,
    lines: [
      { name: 'answered', of: ({ answered }) => answered },
      { name: 'sent from here', of: ({ sent }) => sent },
    ],
  },
  {
    title: 'Together',
    spell: figure,
    lines: [
      {
        name: 'messages in an invocation',
        of: ({ records, invocations }) => (invocations === 0 ? null : records / invocations),
      },
      { name: 'rows in a micro-batch', of: ({ rows, runs }) => (runs === 0 ? null : rows / runs) },
    ],
  },
];
