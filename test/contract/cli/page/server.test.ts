import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type PageServer, startPageServer } from '../../../../cli/page/pageServer.ts';
import { type Asking, ask, post } from '../../../helpers/command.ts';

let page: PageServer;
let told: unknown[] = [];
beforeAll(async () => {
  page = await startPageServer({
    port: undefined,
    preferredPort: 0,
    controls: {
      '/told': (body) => {
        told.push(body);
        return { heard: true };
      },
    },
  });
});
afterAll(() => page.close());

/** `own` stands for the page's own host. */
function asking({ headers = {}, ...rest }: Asking): Asking {
  const { host } = new URL(page.url);
  const filled = Object.entries(headers).map(([name, value]) => [name, value.replace('own', host)]);
  return { ...rest, headers: Object.fromEntries(filled) };
}

const JSON_TYPE = { 'content-type': 'application/json' };
const TOLD = { method: 'POST', path: '/told', body: '{}' };

describe('the server of the page', () => {
  const change = (headers: Record<string, string>): Asking => ({ ...TOLD, headers: { ...JSON_TYPE, ...headers } });

  it.each<[string, Asking]>([
    ['the page, asked for by a name that was made to point here', { headers: { host: 'evil.example' } }],
    ['the page, asked for on another port', { headers: { host: '127.0.0.1:1' } }],
    ['a script, asked for from another site', { path: '/dev.js', headers: { origin: 'https://evil.example' } }],
    ['a change, without a word on who asks', change({})],
    ['a change, asked for from another site', change({ origin: 'https://evil.example' })],
    ['a change, asked for from another port of this machine', change({ origin: 'http://127.0.0.1:1' })],
    ['a change, asked for from a file', change({ origin: 'null' })],
    ['a change, with nothing but that a browser says so', change({ 'sec-fetch-site': 'same-origin' })],
    ['a change, with the right origin and another host', change({ origin: 'http://own', host: 'evil.example' })],
  ])('refuses %s', async (_, refused) => {
    told = [];
    const { status, text } = await ask(page.url, asking(refused));
    expect(status).toBe(403);
    expect(JSON.parse(text).error).toMatch(/^(Host|Origin): expected .+, got .+; .+/);
    expect(told).toEqual([]);
  });

  it('answers to both names of this machine', async () => {
    const { port } = new URL(page.url);
    for (const host of [`127.0.0.1:${port}`, `localhost:${port}`]) {
      expect((await ask(page.url, { headers: { host } })).status).toBe(200);
    }
  });

  it('lets nothing but what it serves run, and nothing frame it', async () => {
    const { headers } = await ask(page.url, {});
    const policy = String(headers['content-security-policy']);
    expect(policy.split('; ')).toEqual(
      expect.arrayContaining(["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"]),
    );
    expect(policy).not.toContain('unsafe');
    expect(headers).toMatchObject({
      'x-content-type-options': 'nosniff',
      'cross-origin-resource-policy': 'same-origin',
      'cache-control': 'no-store',
    });
  });

  it('serves no other file of the machine', async () => {
    for (const path of [
      '/tsconfig.json',
      '/../server.ts',
      '/%2e%2e/server.ts',
      '//etc/passwd',
      '/browser/devScript.ts',
    ]) {
      const { status } = await ask(page.url, asking({ path, headers: { origin: 'http://own' } }));
      expect([path, status]).toEqual([path, 404]);
    }
  });

  it('takes JSON of its own page, and hands it on', async () => {
    told = [];
    const { status, text } = await post(page.url, '/told', { what: 1 });
    expect([status, JSON.parse(text), told]).toEqual([200, { heard: true }, [{ what: 1 }]]);
  });

  const OWN = { ...JSON_TYPE, origin: 'http://own' };

  it.each<[string, number, Asking]>([
    ['a body that is no JSON', 400, { ...TOLD, body: '{', headers: OWN }],
    ['a body that says it is none', 400, { ...TOLD, headers: { ...OWN, 'content-type': 'text/plain' } }],
    ['a body beyond 64 KiB', 400, { ...TOLD, body: `"${'x'.repeat(65_536)}"`, headers: OWN }],
    ['what is not there', 404, { ...TOLD, path: '/unknown', headers: OWN }],
    ['another method', 404, { ...TOLD, method: 'PUT', headers: OWN }],
  ])('refuses %s', async (_, expected, refused) => {
    told = [];
    const { status, text } = await ask(page.url, asking(refused));
    expect(status).toBe(expected);
    expect(JSON.parse(text)).toEqual({ error: expect.any(String) });
    expect(told).toEqual([]);
  });

  it('says that its port is taken where it was asked for that one, and else takes another', async () => {
    const port = Number(new URL(page.url).port);
    const options = { controls: {} };
    await expect(startPageServer({ ...options, port, preferredPort: 0 })).rejects.toThrow(
      `--page-port: expected ${port} on 127.0.0.1 to be free`,
    );
    const other = await startPageServer({ ...options, port: undefined, preferredPort: port });
    expect(other.url).not.toBe(page.url);
    await other.close();
  });
});
