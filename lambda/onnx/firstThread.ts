/*
 * To be imported before all else by an entry that opens models: the thread of the first one, and ONNX Runtime in it,
 * load beside the rest of the code. Two cores save 60 to 90 ms of a start.
 */
import { startThreadEarly } from './session.ts';

startThreadEarly();
