import type { EnvironmentContext, JestEnvironmentConfig } from '@jest/environment';
import { TestEnvironment as NodeEnvironment } from 'jest-environment-node';

const SHARED_WITH_THE_OUTER_REALM = [
  'ArrayBuffer',
  'SharedArrayBuffer',
  'DataView',
  'Uint8Array',
  'Uint8ClampedArray',
  'Uint16Array',
  'Uint32Array',
  'BigUint64Array',
  'Int8Array',
  'Int16Array',
  'Int32Array',
  'BigInt64Array',
  'Float16Array',
  'Float32Array',
  'Float64Array',
] as const;

/**
 * Node's environment with the typed arrays of the realm that Node's own modules live in.
 *
 * Jest gives each test file fresh globals; what arrives from a worker thread or from native code
 * is made with the outer ones, and neither `instanceof` nor ONNX Runtime sees the two as the same.
 */
export default class RealmEnvironment extends NodeEnvironment {
  constructor(config: JestEnvironmentConfig, context: EnvironmentContext) {
    super(config, context);
    for (const name of SHARED_WITH_THE_OUTER_REALM) {
      Object.defineProperty(this.global, name, { value: globalThis[name], configurable: true, writable: true });
    }
  }
}
