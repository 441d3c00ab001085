/**
 * Reads a handler's partial batch response: which of the sent message IDs failed.
 *
 * Nothing, `null`, `{}` and an empty or null `batchItemFailures` say that all succeeded.
 *
 * @throws for what Lambda takes as a failure of the whole batch: a response that is not an object, or an
 *   `itemIdentifier` that is missing, empty or of no message in the batch.
 * @see https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html#services-sqs-batchfailurereporting
 */
export function failedMessageIds(response: unknown, sentIds: ReadonlySet<string>): Set<string> {
  const failures = batchItemFailures(overTheWire(response));
  return new Set(failures.map((failure, index) => itemIdentifier(failure, index, sentIds)));
}

// Lambda sends the response as JSON: what JSON cannot hold is an error there, and must be one here.
function overTheWire(response: unknown): unknown {
  return JSON.parse(JSON.stringify(response) ?? 'null');
}

function batchItemFailures(response: unknown): unknown[] {
  if (response === null) return [];
  if (typeof response !== 'object' || Array.isArray(response)) {
    throw new Error(`response: expected {"batchItemFailures": […]} or nothing, got ${kindOf(response)}`);
  }
  const failures = 'batchItemFailures' in response ? response.batchItemFailures : null;
  if (failures === null) return [];
  if (!Array.isArray(failures)) {
    throw new Error(`batchItemFailures: expected an array, got ${kindOf(failures)}`);
  }
  return failures;
}

function itemIdentifier(failure: unknown, index: number, sentIds: ReadonlySet<string>): string {
  const id =
    typeof failure === 'object' && failure !== null && 'itemIdentifier' in failure ? failure.itemIdentifier : undefined;
  if (typeof id !== 'string' || !sentIds.has(id)) {
    throw new Error(
      `batchItemFailures[${index}].itemIdentifier: expected the messageId of a record in the event, ` +
        `got ${typeof id === 'string' ? JSON.stringify(id) : kindOf(id)}`,
    );
  }
  return id;
}

function kindOf(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  return Array.isArray(value) ? 'an array' : `a value of type ${typeof value}`;
}
