import { existsSync } from 'node:fs';
import { run } from './command.ts';

/** What builds and runs images without a daemon or a registry: Debian packages, and where each puts what is used. */
const PACKAGES = {
  buildah: '/usr/bin/buildah',
  mmdebstrap: '/usr/bin/mmdebstrap',
  'debian-archive-keyring': '/usr/share/keyrings/debian-archive-keyring.gpg',
};

/** What makes a library that stands in for the driver. */
const PACKAGES_FOR_CUDA = { gcc: '/usr/bin/gcc' };

/**
 * Installs the packages that are missing, where it may.
 *
 * @throws Error saying what to install where it may not
 */
export async function installHostPackages({ cuda }: { readonly cuda: boolean }): Promise<void> {
  const needed = { ...PACKAGES, ...(cuda && PACKAGES_FOR_CUDA) };
  const missing = Object.entries(needed).flatMap(([name, file]) => (existsSync(file) ? [] : [name]));
  if (missing.length === 0) return;
  if (process.getuid?.() !== 0 || !existsSync('/usr/bin/apt-get')) {
    throw new Error(
      `images cannot be built here: expected ${missing.join(', ')} to be installed, got nothing; run ` +
        `sudo apt-get install ${missing.join(' ')}, or run this as root on Debian or Ubuntu`,
    );
  }
  console.log(`installing ${missing.join(', ')} with apt-get`);
  await run('apt-get', ['update', '-qq']);
  await run('env', ['DEBIAN_FRONTEND=noninteractive', 'apt-get', 'install', '-qq', '-y', ...missing]);
}
