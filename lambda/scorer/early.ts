/*
 * Starts the scorer's process, which loads while the rest of the code loads. Import this file first in an entry that
 * opens models.
 */
import { startScorerEarly } from './scorer.ts';

startScorerEarly();
