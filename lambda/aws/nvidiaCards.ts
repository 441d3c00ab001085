import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { askNvidiaSmi } from './nvidiaSmi.ts';

/** What a machine has of NVIDIA. */
export interface NvidiaCards {
  /** The driver's version, such as `580.95.05`. */
  readonly driver: string;
  /** The name of each card that this process may use, such as `NVIDIA L4`, in the order of their numbers. */
  readonly names: readonly string[];
}

const DRIVER = '/proc/driver/nvidia';

/**
 * The cards of this machine, as the driver or else `nvidia-smi` tells; undefined where neither does.
 *
 * @param driver the folder in which the driver tells of itself
 * @param environment whose `PATH` has `nvidia-smi`
 * @see https://download.nvidia.com/XFree86/Linux-x86_64/580.95.05/README/procinterface.html
 */
export async function readNvidiaCards(
  driver = DRIVER,
  environment: NodeJS.ProcessEnv = process.env,
): Promise<NvidiaCards | undefined> {
  try {
    return await readDriver(driver);
  } catch {
    return askForCards(environment).catch(() => undefined);
  }
}

async function readDriver(folder: string): Promise<NvidiaCards> {
  const [, driver] = /(\d+(?:\.\d+)+)/.exec(await readFile(join(folder, 'version'), 'utf8')) ?? [];
  if (driver === undefined) throw new Error(`${folder}: expected a version of the driver, got none`);
  const cards = join(folder, 'gpus');
  // Folders are named for the cards' places on the bus, the order in which CUDA counts cards of one kind.
  const places = (await readdir(cards)).toSorted();
  const names = await Promise.all(places.map((place) => readName(join(cards, place, 'information'))));
  return { driver, names };
}

async function readName(path: string): Promise<string> {
  const [, name = 'a card without a name'] = /^Model:\s*(.+?)\s*$/m.exec(await readFile(path, 'utf8')) ?? [];
  return name;
}

async function askForCards(environment: NodeJS.ProcessEnv): Promise<NvidiaCards> {
  const cards = (await askNvidiaSmi(['driver_version', 'name'], environment)).map((line) => line.split(', '));
  const [driver = ''] = cards[0] ?? [];
  return { driver, names: cards.map(([, name = '']) => name) };
}
