/** A figure that must be reached, and whether it was. */
export interface Target {
  readonly target: string;
  readonly figure: string;
  readonly reached: boolean;
}
