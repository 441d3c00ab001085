/** Operations whose inputs hold texts and numbers alone, unless an attribute is binary: their JSON is the request's body. */
const PLAIN = new Set(['SendMessageBatch', 'DeleteMessageBatch', 'ChangeMessageVisibilityBatch', 'BatchWriteItem']);

interface Protocol {
  serializeRequest(operation: { readonly name: string }, input: object, context: object): Promise<object>;
}

/**
 * Makes a client of SQS or DynamoDB spell large inputs with `JSON.stringify`. The SDK writes them character by character
 * along a schema, which for a packed message takes longer than to score what is in it. ADR 16 has the figures.
 */
export function spellPlainJson({ config: { protocol } }: { readonly config: { readonly protocol?: unknown } }): void {
  if (!isProtocol(protocol)) throw new Error('expected a client with a protocol, got one without');
  const serialize = protocol.serializeRequest.bind(protocol);
  protocol.serializeRequest = async (operation, input, context) => {
    if (!PLAIN.has(operation.name) || holdsBytes(input)) return serialize(operation, input, context);
    const request = await serialize(operation, {}, context);
    return Object.assign(request, { body: Buffer.from(JSON.stringify(input)) });
  };
}

/** Bytes go as base64, which `JSON.stringify` knows nothing of. */
function holdsBytes(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  // The keys of an array would be texts, made anew each time: they took longer than all the rest.
  if (Array.isArray(value)) return value.some(holdsBytes);
  if (ArrayBuffer.isView(value)) return true;
  for (const key in value) if (holdsBytes((value as Record<string, unknown>)[key])) return true;
  return false;
}

function isProtocol(protocol: unknown): protocol is Protocol {
  return typeof protocol === 'object' && protocol !== null && 'serializeRequest' in protocol;
}
