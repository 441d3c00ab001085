/** Element types that ONNX Runtime for Node cannot carry, by number. @see onnx.proto, TensorProto.DataType */
const TYPES_NOT_CARRIED: Readonly<Record<string, string>> = {
  14: 'complex64',
  15: 'complex128',
  16: 'bfloat16',
  17: 'float8e4m3fn',
  18: 'float8e4m3fnuz',
  19: 'float8e5m2',
  20: 'float8e5m2fnuz',
  21: 'uint4',
  22: 'int4',
  23: 'float4e2m1',
};

/** What is wrong, in words, and what to do: ONNX Runtime itself says `Unsupported data type: 16`. */
export function explainLoadError(message: string): string {
  if (message.includes("package 'onnxruntime-node'")) {
    return `${message}; run npm install onnxruntime-node --onnxruntime-node-install=skip (for CPU)`;
  }
  return message.replace(/(Unsupported data type: )(\d+)/, (whole, text: string, number: string) => {
    const name = TYPES_NOT_CARRIED[number];
    return name === undefined ? whole : `${text}${name}, which ONNX Runtime for Node cannot carry; export another type`;
  });
}
