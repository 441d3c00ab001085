declare module 'asl-validator' {
  /** Writes defaults into the definition that it is given. */
  export default function validate(definition: unknown): {
    readonly isValid: boolean;
    errorsText(separator?: string): string;
  };
}
