import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { ecsCompute, ecsGpuCompute } from '../../infra/index.ts';
import { loadConfig } from '../../lambda/hosts/config.ts';
import { REPOSITORY } from '../helpers/command.ts';
import {
  containerIn,
  createApp,
  createScoring,
  createStack,
  deployedEnvironment,
  only,
  templateOf,
  workerEnvironmentIn,
} from '../helpers/stacks.ts';

/** What a stage of a Dockerfile says, with the stages that it is built on: the value of each instruction, in their order. */
function instructionsOf(dockerfile: string, stage: string): { readonly name: string; readonly value: string }[] {
  const [base = '', ...lines] =
    dockerfile
      .replaceAll(/\\\n/g, '')
      .split(/^FROM /m)
      .find((text) => new RegExp(` AS ${stage}\n`).test(text))
      ?.split('\n') ?? [];
  const [below = ''] = base.split(' ');
  const own = lines.flatMap((line) => {
    const [, name, value] = /^([A-Z]+) (.*)$/.exec(line) ?? [];
    return name === undefined || value === undefined ? [] : [{ name, value }];
  });
  return base === '' ? [] : [...instructionsOf(dockerfile, below), ...own];
}

/** The image that the stack of a compute builds, and the task that runs it. */
function deployed(compute: ReturnType<typeof ecsCompute>) {
  const app = createApp();
  const scoring = createScoring({ compute, image: undefined, models: join(REPOSITORY, 'models') }, createStack(app));
  const template = templateOf(scoring);
  app.synth();
  const { dockerImages } = JSON.parse(readFileSync(join(app.outdir, 'Test.assets.json'), 'utf8'));
  const [{ source }] = Object.values(dockerImages) as [
    { source: { directory: string; dockerBuildTarget: string; platform: string } },
  ];
  const folder = join(app.outdir, source.directory);
  const instructions = instructionsOf(readFileSync(join(folder, 'Dockerfile'), 'utf8'), source.dockerBuildTarget);
  const values = (wanted: string) => instructions.filter(({ name }) => name === wanted).map(({ value }) => value);
  const environment = values('ENV').flatMap((line) => [...line.matchAll(/(\w+)=(\S+)/g)].map(([, ...pair]) => pair));
  return {
    folder,
    source,
    task: only(template, 'AWS::ECS::TaskDefinition'),
    container: containerIn(template),
    taskEnvironment: workerEnvironmentIn(template),
    image: {
      environment: Object.fromEntries(environment) as Record<string, string>,
      command: JSON.parse(values('ENTRYPOINT').at(-1) ?? '[]') as string[],
      user: values('USER').at(-1),
      volumes: values('VOLUME').flatMap((value) => JSON.parse(value) as string[]),
    },
  };
}

describe.each([
  ['ecs', ecsCompute(), 'worker', 'linux/arm64'],
  ['ecs-gpu', ecsGpuCompute(), 'worker-gpu', 'linux/amd64'],
])('the image of %s, and the task that runs it', (_, compute, stage, platform) => {
  let all: ReturnType<typeof deployed>;
  beforeAll(() => {
    all = deployed(compute);
  });

  it("are the worker's, for the same processor", () => {
    const { RuntimePlatform } = all.task as { RuntimePlatform: { CpuArchitecture: string } };

    expect(all.source).toMatchObject({ dockerBuildTarget: stage, platform });
    expect(RuntimePlatform.CpuArchitecture).toBe(platform === 'linux/arm64' ? 'ARM64' : 'X86_64');
  });

  it('start what is in the image, and check its health by what is in it', () => {
    const { command } = all.image;
    const { Command: check } = all.container.HealthCheck as { Command: string[] };

    expect([command[0], check.slice(0, 2)]).toEqual(['node', ['CMD', 'node']]);
    for (const file of [command.at(-1), check.at(-1)]) expect(existsSync(join(all.folder, file ?? ''))).toBe(true);
    expect(all.container).not.toHaveProperty('EntryPoint');
    expect(all.container).not.toHaveProperty('Command');
    expect(all.container).not.toHaveProperty('User');
  });

  it('agree on the health port, and on an environment that the worker takes', () => {
    const { environment } = all.image;

    expect(all.taskEnvironment.BATCHSCORE_HEALTH_PORT).toBe(environment.BATCHSCORE_HEALTH_PORT);
    expect(loadConfig({ ...environment, ...deployedEnvironment(all.taskEnvironment) })).toMatchObject({
      healthPort: Number(environment.BATCHSCORE_HEALTH_PORT),
      providers: [stage === 'worker-gpu' ? 'cuda' : 'cpu'],
    });
    for (const name of ['NODE_OPTIONS', 'HOME', 'LD_LIBRARY_PATH', 'PATH', 'NVIDIA_DRIVER_CAPABILITIES']) {
      expect(all.taskEnvironment).not.toHaveProperty(name);
    }
    expect({ ...environment, ...all.taskEnvironment }).not.toHaveProperty('NVIDIA_VISIBLE_DEVICES');
  });

  it('let a user other than root write to the same folder alone', () => {
    const { MountPoints, ReadonlyRootFilesystem } = all.container as {
      MountPoints?: { ContainerPath: string; ReadOnly: boolean }[];
      ReadonlyRootFilesystem?: boolean;
    };

    expect(Number(all.image.user)).toBeGreaterThan(0);
    expect(ReadonlyRootFilesystem).toBe(true);
    expect(MountPoints).toMatchObject(all.image.volumes.map((path) => ({ ContainerPath: path, ReadOnly: false })));
    expect([all.image.volumes, all.image.environment.HOME]).toEqual([['/tmp'], '/tmp']);
  });
});
