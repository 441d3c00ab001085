import type { EventData } from 'node:test';

type TestEvent =
  | { readonly type: 'test:pass'; readonly data: EventData.TestPass }
  | { readonly type: 'test:fail'; readonly data: EventData.TestFail }
  | { readonly type: 'other' };

/** Tells every promise, and why it is broken, and closes with a line that any CI can read: `N passed, N failed`. */
export default async function* report(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const counts = { passed: 0, failed: 0 };
  for await (const event of events) {
    if (event.type !== 'test:pass' && event.type !== 'test:fail') continue;
    const { name, details } = event.data;
    if (details.type === 'suite') {
      yield whySuiteFailed(event);
    } else if (event.type === 'test:pass') {
      counts.passed++;
      yield `✓ ${name} (${Math.round(details.duration_ms)} ms)\n`;
    } else {
      counts.failed++;
      yield `✕ ${name}\n${indent(event.data.details.error)}`;
    }
  }
  yield `${counts.passed} passed, ${counts.failed} failed\n`;
}

/** A suite fails with its tests, which is told already, or before them. */
function whySuiteFailed(event: TestEvent): string {
  const failedItself = event.type === 'test:fail' && event.data.details.error.cause instanceof Error;
  return failedItself ? `✕ ${event.data.name}\n${indent(event.data.details.error)}` : '';
}

function indent(error: Error): string {
  const { stack, message } = error.cause instanceof Error ? error.cause : error;
  return `${stack ?? message}\n`.replaceAll(/^(?=.)/gm, '    ');
}
