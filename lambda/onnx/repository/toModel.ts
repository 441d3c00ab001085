import type { Model } from '../../core/model.ts';
import { readConstants } from '../config/constants.ts';
import type { ModelConfig } from '../config/modelConfig.ts';
import { readRagged } from '../config/ragged.ts';
import { createBufferPool } from '../session/bufferPool.ts';
import type { ModelContract } from '../session/contract.ts';
import { runInSession } from '../session/runInSession.ts';
import type { Session } from '../session/session.ts';
import type { ModelLocation } from './findModels.ts';

/**
 * A session as a model, with the limits that its contract and its config.json set.
 *
 * @param defaultMaxBatchRows most rows in one run where config.json names no number
 * @throws Error when config.json does not agree with the contract
 */
export function toModel(
  { name, version }: ModelLocation,
  contract: ModelContract,
  session: Session,
  config: ModelConfig,
  defaultMaxBatchRows: number,
): Model {
  const { inputs, outputs, bakedRows } = contract;
  const constants = readConstants(config.constants ?? {}, contract.constants);
  const pool = createBufferPool(session.cards);
  const maxBatchRows = bakedRows ?? config.maxBatchRows ?? defaultMaxBatchRows;
  const ladder = (bakedRows === undefined ? (config.ladder ?? []) : [bakedRows]).toSorted((a, b) => a - b);
  if ((ladder[0] ?? 0) > maxBatchRows) {
    throw new Error(
      `expected a ladder with a rung of at most maxBatchRows ${maxBatchRows}, got [${ladder.join(', ')}]`,
    );
  }
  return {
    name,
    version,
    inputs,
    outputs,
    constants: constants.map((constant) => constant.name),
    maxBatchRows,
    ladder,
    ragged: config.ragged === undefined ? undefined : readRagged(config.ragged, contract),
    allocate: pool.allocate,
    cards: session.cards,
    run: (tensors, signal, card) => runInSession(session, { inputs, outputs, constants }, tensors, pool, signal, card),
  };
}
