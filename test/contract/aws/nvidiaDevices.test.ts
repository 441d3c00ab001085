import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { readNvidiaDevices } from '../../../lambda/aws/nvidiaDevices.ts';

/** As the driver prints it. */
const VERSION = `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (archlinux-builder@)
GCC version:  gcc version 11.3.0 (GCC)
`;
const information = (model: string, place: string): string => `Model: \t\t ${model}
IRQ:   \t\t 11
GPU UUID: \t GPU-3f5e2b51-8a2e-7c43-4f0b-5f4f8b1e9f6d
Bus Type: \t PCIe
Bus Location: \t ${place}
Device Minor: \t 0
GPU Excluded:\t No
`;

describe('the NVIDIA devices of a machine', () => {
  let folder: string;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'batchscore-driver-'));
  });

  afterEach(async () => {
    await rm(folder, { recursive: true });
  });

  async function putDriver(devices: Readonly<Record<string, string>>): Promise<void> {
    await mkdir(join(folder, 'gpus'));
    await writeFile(join(folder, 'version'), VERSION);
    for (const [place, model] of Object.entries(devices)) {
      await mkdir(join(folder, 'gpus', place));
      await writeFile(join(folder, 'gpus', place, 'information'), information(model, place));
    }
  }

  async function putNvidiaSmi(script: string): Promise<void> {
    await writeFile(join(folder, 'nvidia-smi'), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  }

  it('are told by its driver, in the order of their places on the bus', async () => {
    await putDriver({ '0000:00:1f.0': 'NVIDIA L40S', '0000:00:1e.0': 'NVIDIA L4' });

    expect(await readNvidiaDevices(folder)).toEqual({ driver: '580.95.05', names: ['NVIDIA L4', 'NVIDIA L40S'] });
  });

  it('may be none, with a driver', async () => {
    await putDriver({});

    expect(await readNvidiaDevices(folder)).toEqual({ driver: '580.95.05', names: [] });
  });

  it('are told by nvidia-smi where the driver’s folder is not there', async () => {
    await putNvidiaSmi("echo '580.95.05, NVIDIA A10G'; echo '580.95.05, NVIDIA T4'");

    expect(await readNvidiaDevices(join(folder, 'none'), { PATH: folder })).toEqual({
      driver: '580.95.05',
      names: ['NVIDIA A10G', 'NVIDIA T4'],
    });
  });

  it.each([
    ['there is neither', undefined],
    ['nvidia-smi finds no driver', "echo 'NVIDIA-SMI has failed'; exit 9"],
  ])('are not known where %s', async (_, script) => {
    if (script !== undefined) await putNvidiaSmi(script);

    expect(await readNvidiaDevices(join(folder, 'none'), { PATH: folder })).toBeUndefined();
  });
});
