/*
 * Starts the scorer's process, which loads beside the other code. Import this file first in an entry that opens models.
 */
import { startScorerEarly } from './scorer.ts';

startScorerEarly();
