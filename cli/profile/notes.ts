import { arch } from 'node:os';
import type { Measurement } from './measure/measureModel.ts';
import { HOST_COSTS, vcpusOf } from './settings/invocation.ts';
import type { SettingsQuestion } from './settings/settings.ts';

/** What holds of all figures, a sentence each. */
export function notesOf(
  { prices, architecture, messages }: SettingsQuestion,
  { coldStart }: Measurement,
  memoryMb: number,
): string[] {
  const { messageMs, requestMs, roundTripMs } = HOST_COSTS;
  const here = arch() === 'arm64' ? 'arm64' : 'x86_64';
  const startMs = coldStart.processMs + coldStart.libraryMs + coldStart.loadMs + coldStart.warmUpMs;
  const startSeconds = startMs / 1000 / Math.min(1, vcpusOf(memoryMb));
  return [
    `Runs were timed on this machine (${here}); a function's share of a vCPU is taken to be as fast${here === architecture ? '' : `, also on ${architecture}, where nothing was measured`}.`,
    `A new environment also starts, about ${startSeconds.toFixed(1)} s with ${memoryMb} MB, and longer where its image is not cached; its first messages wait for that, which no age above holds.`,
    `Peak memory is that of a process with the model alone; a function also holds its clients and its event.`,
    `Besides the runs, an invocation takes ${messageMs} ms a message, ${requestMs} ms a request and ${roundTripMs} ms for calls to SQS: assumed, not measured here.`,
    `A request is taken to have ${messages.messageBytes / messages.requestsPerMessage} bytes, a result ${messages.resultBytes / messages.requestsPerMessage}.`,
    `Prices of ${prices.date}, ${prices.region}, without logs, metrics, alarms and storage. What is not measured has no price.`,
  ];
}
