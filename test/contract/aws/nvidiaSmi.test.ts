import { describe, expect, it } from '@jest/globals';
import { readGpus } from '../../../lambda/aws/nvidiaDevices.ts';
import { nvidiaSmi } from '../../helpers/hosts.ts';

/** Answers as `nvidia-smi` does that is asked for the fields in this order, in numbers alone. */
const answering = (...lines: readonly string[]) =>
  nvidiaSmi(`[ "$*" = '--query-gpu=utilization.gpu,memory.used,memory.total --format=csv,noheader,nounits' ] || exit 2
${lines.map((line) => `echo '${line}'`).join('\n')}`);

describe('what the devices do', () => {
  it('is read for each device', async () => {
    const environment = await answering('97, 11264, 15360', '0, 3, 15360');

    expect(await readGpus(environment)).toEqual([
      { usedPercent: 97, memoryUsedMib: 11264, memoryMib: 15360 },
      { usedPercent: 0, memoryUsedMib: 3, memoryMib: 15360 },
    ]);
  });

  it('lacks what the driver does not tell', async () => {
    const environment = await answering('[N/A], 11264, [Not Supported]');

    expect(await readGpus(environment)).toEqual([
      { usedPercent: undefined, memoryUsedMib: 11264, memoryMib: undefined },
    ]);
  });

  it.each([
    ['nothing', '', '""'],
    ['something else', 'No devices were found', '"No devices were found"'],
    ['numbers with their units', '97 %, 11264 MiB, 15360 MiB', '"97 %, 11264 MiB, 15360 MiB"'],
  ])('is not made up where the command prints %s', async (_, line, told) => {
    await expect(readGpus(await answering(line))).rejects.toThrow(
      `nvidia-smi: expected utilization.gpu, memory.used, memory.total of each device, got ${told}`,
    );
  });

  it('is told with the reason where the command fails', async () => {
    const said = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.";

    await expect(readGpus(await nvidiaSmi(`echo "${said}"; exit 9`))).rejects.toThrow(
      `nvidia-smi: expected an answer, got ${said}`,
    );
  });

  it('is told to be unknown where there is no such command', async () => {
    await expect(readGpus({ PATH: '/nowhere' })).rejects.toThrow(
      'nvidia-smi: expected the command on PATH, got none; have the host of the container share it',
    );
  });

  it('is not waited for where the command hangs, with whatever it started', async () => {
    const environment = await nvidiaSmi('sleep 90 & sleep 90');

    await expect(readGpus(environment, 500)).rejects.toThrow('nvidia-smi: expected an answer, got none in 0.5 s');
  });
});
