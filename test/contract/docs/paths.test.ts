import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { REPOSITORY } from '../../helpers/command.ts';

const PAGES = globSync(['*.md', 'docs/*.md', 'docs/adr/*.md'], { cwd: REPOSITORY });

/** What a reader or a command makes. */
const NOT_YET_THERE = ['models/digits/2/model.onnx', 'bench/results/latest.json', 'bench/field/.venv'];
/** Of an app that docs/construct.md makes. */
const OF_THE_APP = ['lib/shop-stack.ts', 'test/shop.test.ts'];

describe.each(PAGES)('%s', (page) => {
  const text = readFileSync(join(REPOSITORY, page), 'utf8');

  it('names files and folders of the repository that exist', () => {
    const missing = codeSpansIn(text)
      .filter(looksLikePath)
      .filter((path) => globSync(path, { cwd: REPOSITORY }).length === 0);
    expect(missing.filter((path) => ![...NOT_YET_THERE, ...OF_THE_APP].includes(path))).toEqual([]);
  });

  it('links to pages and headings that exist', () => {
    const targets = [...withoutFences(text).matchAll(/\]\((?!https?:)([^)]+)\)/g)].map(([, target = '']) => target);
    expect(targets.filter((target) => !leadsSomewhere(target, page))).toEqual([]);
  });
});

describe('docs/architecture.md', () => {
  const text = readFileSync(join(REPOSITORY, 'docs/architecture.md'), 'utf8');
  const rows = text.split('\n').filter((line) => line.startsWith('| `'));
  const rooms = rows.map((row) => codeSpansIn(row));

  it('names in each row files and folders that exist, in the repository or in the folder of the row', () => {
    const missing = rooms.flatMap(([folder = '', ...inside]) =>
      inside
        .filter((name) => /\/$|\.ts$/.test(name))
        .filter((name) => !existsSync(join(REPOSITORY, name)) && !existsSync(join(REPOSITORY, folder, name))),
    );
    expect(missing).toEqual([]);
  });

  it.each(['cli', 'infra', 'bench'])('names every folder in %s', (parent) => {
    const named = rooms.flatMap(([folder = '', ...others]) => [
      folder,
      ...others.flatMap((name) => [name, `${folder}${name}`]),
    ]);
    expect(foldersIn(parent).filter((name) => !named.includes(`${parent}/${name}/`))).toEqual([]);
  });
});

function foldersIn(parent: string): string[] {
  const entries = readdirSync(join(REPOSITORY, parent), { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory() && entry.name !== 'results').map(({ name }) => name);
}

function withoutFences(text: string): string {
  return text.replaceAll(/^```[\s\S]*?^```$/gm, '');
}

function codeSpansIn(text: string): string[] {
  return [...withoutFences(text).matchAll(/`([^`\n]+)`/g)].map(([, code = '']) => code);
}

const ROOT_ENTRIES = readdirSync(REPOSITORY);

/** A path from one of the repository's own entries, or one that ends like a source file. It has no `<placeholders>`. */
function looksLikePath(code: string): boolean {
  if (!/^[\w.*-]+(\/[\w.*-]*)+$/.test(code)) return false;
  return ROOT_ENTRIES.includes(code.split('/')[0] ?? '') || /\.(ts|js|py|md|json)$/.test(code);
}

function leadsSomewhere(target: string, page: string): boolean {
  const [path = '', anchor] = target.split('#');
  const file = path === '' ? join(REPOSITORY, page) : join(REPOSITORY, dirname(page), path);
  if (!existsSync(file)) return false;
  return anchor === undefined || headingsOf(readFileSync(file, 'utf8')).includes(anchor);
}

/** The anchors of a page's headings, as GitHub writes them. */
function headingsOf(text: string): string[] {
  return [...withoutFences(text).matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\w\- ]/g, '')
      .replaceAll(' ', '-'),
  );
}
