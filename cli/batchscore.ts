import { messageOf } from '../lambda/core/failure.ts';
import { asksForHelp, knownName, type Main, ownVersion, runCommand, type Streams } from './arguments.ts';
import { writeText } from './terminal.ts';

const HELP = `Usage: batchscore COMMAND [arguments]

  submit FILE.jsonl         put requests on the request queue
  collect IDS --out FILE    get the results of what was submitted
  status MESSAGE_ID         what became of a message
  inspect MODEL             what a model takes and gives, and a request ready to send
  score MODEL FILE          score a file without a queue
  job ACTION …              score files in S3 in place
  dev                       SQS, the function and a page on this machine
  publish FOLDER s3://…     put models into S3, for functions that fetch them at start
  profile MODEL             time a model's runs, and find settings and their cost on AWS

batchscore COMMAND --help says more; batchscore --version says which version this is.
`;

interface Command {
  readonly help: string;
  readonly run: Main;
}

/** Loaders of the command modules. Only the command that runs is loaded, because `submit` needs no ONNX Runtime. */
const COMMANDS = {
  submit: async () => (await import('./network/submitCommand.ts')).submit,
  collect: async () => (await import('./network/collectCommand.ts')).collect,
  status: async () => (await import('./network/collectCommand.ts')).status,
  score: async () => (await import('./offline/scoreCommand.ts')).score,
  job: async () => (await import('./job.ts')).job,
  inspect: async () => (await import('./inspect/inspectCommand.ts')).inspect,
  dev: async () => (await import('./dev.ts').catch(sayWhatToInstall)).dev,
  publish: async () => (await import('./network/publishCommand.ts')).publish,
  profile: async () => (await import('./profile/profileCommand.ts')).profile,
} satisfies Readonly<Record<string, () => Promise<Command>>>;

/** Names the package to install. The servers that replace AWS in `dev` are not dependencies of the package. */
function sayWhatToInstall(cause: unknown): never {
  const [, name] = /Cannot find package '(fauxqs)'/.exec(messageOf(cause)) ?? [];
  if (name === undefined) throw cause;
  throw new Error(`dev: expected the package ${name}, an SQS server, got none; run npm install --save-dev ${name}`, {
    cause,
  });
}

const OPENS_MODELS: readonly string[] = ['score', 'inspect'] satisfies (keyof typeof COMMANDS)[];
const NAMES = Object.keys(COMMANDS) as (keyof typeof COMMANDS)[];

export async function batchscore([name, ...args]: readonly string[], streams: Streams): Promise<number> {
  const print = (text: string, exitCode = 0): number => {
    writeText(streams.stdout, text);
    return exitCode;
  };
  switch (name) {
    case undefined:
      return print(HELP, 2);
    case '--version':
    case '-v':
      return print(`${ownVersion()}\n`);
    case '--help':
    case '-h':
      return print(HELP);
    case 'help':
      return print(args.length === 0 ? HELP : (await commandOf(args[0])).help);
  }
  // The scorer's process loads in parallel with the command.
  if (OPENS_MODELS.includes(name) && !asksForHelp(args))
    (await import('../lambda/scorer/scorer.ts')).startScorerEarly();
  const command = await commandOf(name);
  return asksForHelp(args) ? print(command.help) : command.run(args, streams);
}

async function commandOf(name: string | undefined): Promise<Command> {
  return COMMANDS[knownName('a command', name, NAMES)]();
}

export const main = (): Promise<void> => runCommand(batchscore);

if (import.meta.main) await main();
