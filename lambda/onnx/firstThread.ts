/*
 * Starts the first model's thread, which loads ONNX Runtime while the rest of the code loads. Import this file first in
 * an entry that opens models. Two cores save 60 to 90 ms of a start.
 */
import { startThreadEarly } from './session.ts';

startThreadEarly();
