import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { readGpus, readNvidiaDevices } from '../../../lambda/onnx/provider.ts';
import { emptyFolder } from '../../helpers/awsServers.ts';
import { nvidiaSmi } from '../../helpers/hosts.ts';

/** As the driver prints it. */
const VERSION = `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (archlinux-builder@)
GCC version:  gcc version 11.3.0 (GCC)
`;
const information = (model: string, place: string): string => `Model: \t\t ${model}
IRQ:   \t\t 11
GPU UUID: \t GPU-3f5e2b51-8a2e-7c43-4f0b-5f4f8b1e9f6d
Bus Location: \t ${place}
`;

/** A folder in which the driver tells of devices by their places on the bus. */
async function driverOf(devices: Readonly<Record<string, string>>): Promise<string> {
  const folder = await emptyFolder();
  await mkdir(join(folder, 'gpus'));
  await writeFile(join(folder, 'version'), VERSION);
  for (const [place, model] of Object.entries(devices)) {
    await mkdir(join(folder, 'gpus', place));
    await writeFile(join(folder, 'gpus', place, 'information'), information(model, place));
  }
  return folder;
}

/** Answers as `nvidia-smi` does that is asked for the fields in this order, in numbers alone. */
const answering = (fields: string, ...lines: readonly string[]) =>
  nvidiaSmi(`[ "$*" = '--query-gpu=${fields} --format=csv,noheader,nounits' ] || exit 2
${lines.map((line) => `echo '${line}'`).join('\n')}`);

describe('the NVIDIA devices of a machine', () => {
  it('are told by its driver, in the order of their places on the bus', async () => {
    const folder = await driverOf({ '0000:00:1f.0': 'NVIDIA L40S', '0000:00:1e.0': 'NVIDIA L4' });

    expect(await readNvidiaDevices(folder)).toEqual({ driver: '580.95.05', names: ['NVIDIA L4', 'NVIDIA L40S'] });
    expect(await readNvidiaDevices(await driverOf({}))).toEqual({ driver: '580.95.05', names: [] });
  });

  it('are told by nvidia-smi where the driver’s folder is not there', async () => {
    const environment = await answering('driver_version,name', '580.95.05, NVIDIA A10G', '580.95.05, NVIDIA T4');

    expect(await readNvidiaDevices('/nowhere', environment)).toEqual({
      driver: '580.95.05',
      names: ['NVIDIA A10G', 'NVIDIA T4'],
    });
  });

  it('are not known where there is neither, or nvidia-smi finds no driver', async () => {
    expect(await readNvidiaDevices('/nowhere', { PATH: '/nowhere' })).toBeUndefined();
    expect(await readNvidiaDevices('/nowhere', await nvidiaSmi('echo failed; exit 9'))).toBeUndefined();
  });
});

describe('what the devices do', () => {
  const FIELDS = 'utilization.gpu,memory.used,memory.total';

  it('is read for each device, without what the driver does not tell', async () => {
    expect(await readGpus(await answering(FIELDS, '97, 11264, 15360', '[N/A], 3, [Not Supported]'))).toEqual([
      { usedPercent: 97, memoryUsedMib: 11264, memoryMib: 15360 },
      { usedPercent: undefined, memoryUsedMib: 3, memoryMib: undefined },
    ]);
  });

  it.each([
    ['nothing', ''],
    ['something else', 'No devices were found'],
    ['numbers with their units', '97 %, 11264 MiB, 15360 MiB'],
  ])('is not made up where the command prints %s', async (_, line) => {
    await expect(readGpus(await answering(FIELDS, line))).rejects.toThrow(
      `nvidia-smi: expected utilization.gpu, memory.used, memory.total of each device, got "${line}"`,
    );
  });

  it('is not known, with the reason, where the command fails, hangs or is not there', async () => {
    await expect(readGpus(await nvidiaSmi('echo "no driver"; exit 9'))).rejects.toThrow(
      'nvidia-smi: expected an answer, got no driver',
    );
    await expect(readGpus(await nvidiaSmi('sleep 90 & sleep 90'), 500)).rejects.toThrow(
      'nvidia-smi: expected an answer, got none in 0.5 s',
    );
    await expect(readGpus({ PATH: '/nowhere' })).rejects.toThrow(
      'nvidia-smi: expected the command on PATH, got none; have the host of the container share it',
    );
  });
});
