/*
 * To be imported before all else by an entry that opens models: the scorer's process loads beside the rest of the code.
 */
import { startScorerEarly } from './scorer.ts';

startScorerEarly();
