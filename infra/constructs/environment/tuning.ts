/** Settings of the scoring itself; each is a variable of the host's environment. */
export interface Tuning {
  /** Most rows in one run. @default 512 */
  readonly maxBatchRows?: number;
  /** Most elements that the inputs of one run hold together, padding included. @default 4194304 */
  readonly maxBatchElements?: number;
  /** Most rows in one request. @default 10000 */
  readonly maxRequestRows?: number;
  /** Most requests in one packed message. @default 10000 */
  readonly maxRequestsPerMessage?: number;
  /** Most characters of the answer to one message. @default a 64th of the memory, in bytes */
  readonly maxAnswerCharacters?: number;
  /** Milliseconds before the deadline after which nothing is started. @default 1000 */
  readonly deadlineMarginMs?: number;
  /**
   * Percent of a model's run time that goes into running rows alone as well, to compare their answers. 0: nothing is
   * compared. @default 1
   */
  readonly checkPercent?: number;
  /** Most bytes of an object that is read from the payload bucket. @default a 64th of the memory */
  readonly maxPayloadBytes?: number;
  /** Whether to load all models at start, rather than when a request names them. @default true */
  readonly preload?: boolean;
  /** ONNX Runtime execution providers, first choice first, comma-separated. @default 'cpu', and 'cuda' with a GPU */
  readonly providers?: string;
  /** Whether to go on with the next provider, with a warning, when one cannot be loaded. @default false */
  readonly allowProviderFallback?: boolean;
}
