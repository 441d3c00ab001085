import { mkdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import {
  asksForHelp,
  knownName,
  modelPath,
  parseCommand,
  parseOptions,
  UsageError,
  wholeNumber,
} from '../../../cli/arguments.ts';
import { batchscore } from '../../helpers/batchscore.ts';
import { REPOSITORY } from '../../helpers/command.ts';
import { useFolder } from '../../helpers/folders.ts';

const OPTIONS = { out: { type: 'string' }, json: { type: 'boolean' } } as const;

function refusalOf(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    if (error instanceof UsageError) return error.message;
  }
  return 'it was understood';
}

describe('the name of a model', () => {
  const inFolder = useFolder();

  it('is that of the repository before a folder here, which has a path', () => {
    mkdirSync(inFolder('models/docs'), { recursive: true });
    expect(modelPath('docs', inFolder('models'))).toBe(inFolder('models/docs'));
    expect(modelPath('./docs', inFolder('models'))).toBe('./docs');
    expect(modelPath('docs', inFolder())).toBe('docs');
  });
});

describe('what is typed', () => {
  it.each([
    [['file', '--ouf', 'x'], 'expected an option of this command, got --ouf; did you mean --out?'],
    [['file', '--colour'], 'expected an option of this command, got --colour'],
    [['file', '-x'], 'expected an option of this command, got -x'],
    [['file', '--out'], '--out: expected a value, got none'],
    [['file', '--out', ''], '--out: expected a value, got an empty text'],
    [['file', '--out', '--json'], '--out: expected a value, got none; one that begins with - is written --out=VALUE'],
    [['file', '--json=yes'], '--json: expected no value, got one'],
    [[], 'expected FILE, got nothing'],
    [['a', 'b'], 'expected FILE, got a b'],
    [['file', '--out', 'x', '--json'], 'it was understood'],
  ])('%j: %s', (args, sentence) => {
    expect(refusalOf(() => parseCommand(args, ['FILE'], OPTIONS))).toBe(sentence);
  });

  it('may be options alone', () => {
    expect(refusalOf(() => parseOptions(['file'], OPTIONS))).toBe("expected options alone, got 'file'");
  });

  it.each([
    ['sbmit', "expected a command, submit, collect, got 'sbmit'; did you mean submit?"],
    ['paint', "expected a command, submit, collect, got 'paint'"],
    [undefined, 'expected a command, submit, collect, got none'],
  ])('names no command by %j', (name, sentence) => {
    expect(refusalOf(() => knownName('a command', name, ['submit', 'collect']))).toBe(sentence);
  });

  it.each(['-1', '1.5', '', '11', 'many'])('is no whole number: %j', (text) => {
    const sentence = `--n: expected a whole number from 0 to 10, got '${text}'`;
    expect(refusalOf(() => wholeNumber('--n', text, 0, 10))).toBe(sentence);
  });

  it.each([[['-h']], [['file', '--help']]])('asks for help: %j', (args) => {
    expect([asksForHelp(args), asksForHelp(['help'])]).toEqual([true, false]);
  });
});

describe('batchscore', () => {
  it('says its version', async () => {
    const { version } = JSON.parse(readFileSync(`${REPOSITORY}/package.json`, 'utf8'));
    expect(await batchscore(['--version'])).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' });
  });

  it('says what its commands do, however it is asked', async () => {
    const asked = [['-h'], ['help'], ['--help'], ['collect', '-h'], ['help', 'collect']];
    const [whole, ...others] = await Promise.all(asked.map((args) => batchscore(args)));
    expect(whole).toEqual({ code: 0, stdout: expect.stringContaining('Usage: batchscore COMMAND'), stderr: '' });
    const ofCollect = { code: 0, stdout: expect.stringContaining('Usage: batchscore collect IDS'), stderr: '' };
    expect(others).toEqual([whole, whole, ofCollect, ofCollect]);
  });
});
