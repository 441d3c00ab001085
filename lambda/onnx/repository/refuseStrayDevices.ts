import { join } from 'node:path';
import { CONFIG_FILE } from '../../core/places.ts';
import type { ModelConfig } from '../config/modelConfig.ts';
import { hasCards, nameOf } from '../session/provider.ts';
import type { ModelLocation } from './findModels.ts';
import type { ModelDefaults } from './loadModel.ts';

/**
 * Refuses cards for a provider that has none.
 *
 * @throws Error naming the file, and what to do
 */
export function refuseStrayDevices(
  { folder }: Pick<ModelLocation, 'folder'>,
  { devices, providers }: ModelConfig,
  defaults: ModelDefaults,
): void {
  const { takesCards = hasCards } = defaults;
  const [first = 'cpu'] = providers ?? defaults.providers;
  if (devices === undefined || takesCards(first)) return;
  throw new Error(
    `${join(folder, CONFIG_FILE)}: devices: expected a provider with cards first (cuda, tensorrt), got ` +
      `${nameOf(first)}; choose one as "providers", or remove "devices"`,
  );
}
