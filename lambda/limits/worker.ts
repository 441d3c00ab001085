/** Bytes of bodies that make a batch full. */
export const BATCH_BYTES = 32 * 1024 * 1024;
/** Of the seconds from SIGTERM until the process is killed: after these, what is being scored is cut short. */
export const DRAIN_SHARE = 0.75;
/** Of the same: after these, the process ends in any case. */
export const END_SHARE = 0.95;
