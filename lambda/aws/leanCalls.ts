import type { MiddlewareStack, Provider, UserAgent } from '@smithy/types';

/** The parts of an AWS client that this file deals with. */
export interface LeanClient<I extends object, O extends object> {
  readonly middlewareStack: MiddlewareStack<I, O>;
  readonly config: {
    readonly defaultUserAgentProvider: Provider<UserAgent>;
    readonly userAgentAppId: Provider<string | undefined>;
  };
}

/**
 * Takes from each call of a client what nobody uses: the log object that the SDK makes of every input and output, for
 * a logger that drops it; retries, where there is one attempt; and the spelling of the user agent, which is the same
 * every time. ADR 16 has the figures.
 */
export function leaveOutIdleWork<I extends object, O extends object>(
  { middlewareStack, config }: LeanClient<I, O>,
  { retries }: { readonly retries: boolean },
): void {
  middlewareStack.remove('loggerMiddleware');
  middlewareStack.add(spellUserAgentOnce(config), {
    name: 'getUserAgentMiddleware',
    step: 'build',
    priority: 'low',
    override: true,
  });
  // Kept by name: the SDK signs behind it.
  if (!retries) {
    middlewareStack.add((next) => next, {
      name: 'retryMiddleware',
      step: 'finalizeRequest',
      priority: 'high',
      override: true,
    });
  }
}

function spellUserAgentOnce({ defaultUserAgentProvider, userAgentAppId }: LeanClient<object, object>['config']) {
  const spell = async (): Promise<string> => {
    const sections = await defaultUserAgentProvider();
    const appId = await userAgentAppId();
    return [...sections, ...(appId ? [['app', appId] as const] : [])].map(spellSection).join(' ');
  };
  let spelled: Promise<string> | undefined;
  return <A extends { readonly request: unknown }, R>(next: (args: A) => Promise<R>) =>
    async (args: A): Promise<R> => {
      spelled ??= spell();
      if (hasHeaders(args.request)) args.request.headers['user-agent'] = await spelled;
      return next(args);
    };
}

/** `aws-sdk-js/3.1169.0`, `os/linux#6.1`, `lang/js` */
function spellSection([name, version]: readonly [string, string?]): string {
  const plain = (name.startsWith('api/') ? name.toLowerCase() : name).replace(/[^\w!$%&'*+\-.^`|~/]/g, '-');
  if (version === undefined) return plain;
  return `${plain}${plain.includes('/') ? '#' : '/'}${version.replace(/[^\w!$%&'*+\-.^`|~#]/g, '-')}`;
}

function hasHeaders(request: unknown): request is { readonly headers: Record<string, string> } {
  return typeof request === 'object' && request !== null && 'headers' in request;
}
