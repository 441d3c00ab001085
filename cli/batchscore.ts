import { runCommand, UsageError } from './arguments.ts';

const HELP = `Usage: batchscore COMMAND [arguments]

  submit FILE.jsonl         put requests on the request queue
  collect IDS --out FILE    get the results of what was submitted
  inspect MODEL             what a model takes and gives, and a request ready to send
  score MODEL FILE          score a file without a queue
  job ACTION …              score files in S3 in place
  publish FOLDER s3://…     put models into S3, for functions that fetch them at start
  profile MODEL             time a model's runs, and find settings and their cost on AWS

batchscore COMMAND --help says more.
`;

interface Command {
  readonly help: string;
  run(args: readonly string[]): Promise<number>;
}

/** A command's module is loaded only when it is the one to run: submit needs no ONNX Runtime. */
const COMMANDS: Readonly<Record<string, () => Promise<Command>>> = {
  submit: async () => (await import('./submit.ts')).submit,
  collect: async () => (await import('./collect.ts')).collect,
  score: async () => (await import('./score.ts')).score,
  job: async () => (await import('./job.ts')).job,
  inspect: async () => (await import('./inspect.ts')).inspect,
  publish: async () => (await import('./publish.ts')).publish,
  profile: async () => (await import('./profile.ts')).profile,
};

async function main([name, ...args]: readonly string[]): Promise<number> {
  if (name === undefined || name === '--help') {
    process.stdout.write(HELP);
    return name === undefined ? 2 : 0;
  }
  if (!Object.hasOwn(COMMANDS, name)) {
    throw new UsageError(`expected a command, ${Object.keys(COMMANDS).join(', ')}; got '${name}'`);
  }
  const command = await COMMANDS[name]?.();
  if (args.includes('--help')) {
    process.stdout.write(command?.help ?? '');
    return 0;
  }
  return (await command?.run(args)) ?? 1;
}

await runCommand(main);
