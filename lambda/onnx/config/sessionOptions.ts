import { z } from 'zod';
import { nearestName } from '../../core/wrongValue.ts';

/** What ONNX Runtime can be told of a session, less the execution providers: they have a key of their own. */
export const SESSION_OPTIONS = [
  'enableCpuMemArena',
  'enableMemPattern',
  'enableProfiling',
  'executionMode',
  'externalData',
  'extra',
  'graphOptimizationLevel',
  'interOpNumThreads',
  'intraOpNumThreads',
  'logId',
  'logSeverityLevel',
  'optimizedModelFilePath',
  'preferredOutputLocation',
  'profileFilePrefix',
];

/** Options that ONNX Runtime for Node takes for the sake of browsers, and does not read. */
export const IGNORED_OPTIONS = ['enableGraphCapture', 'freeDimensionOverrides', 'logVerbosityLevel'];

/**
 * Their values are ONNX Runtime's to check; keys that it does not know it ignores, the misspelt ones with them. `extra`
 * holds its session settings, such as `{"session": {"use_device_allocator_for_initializers": "1"}}`.
 *
 * @see https://github.com/microsoft/onnxruntime/blob/main/include/onnxruntime/core/session/onnxruntime_session_options_config_keys.h
 */
export const sessionOptions = z
  .looseObject(
    {
      extra: z
        .record(z.string(), z.unknown(), { error: "expected an object with ONNX Runtime's session settings" })
        .optional(),
    },
    { error: "expected an object with ONNX Runtime's session options" },
  )
  .superRefine((options, context) => {
    for (const key of Object.keys(options)) {
      const message = whyNot(key);
      if (message !== undefined) context.addIssue({ code: 'custom', path: [key], message });
    }
  });

function whyNot(key: string): string | undefined {
  if (SESSION_OPTIONS.includes(key)) return undefined;
  if (key === 'executionProviders') {
    return 'expected none here, got it; use the key "providers" instead of executionProviders';
  }
  if (IGNORED_OPTIONS.includes(key)) {
    return `expected an option that ONNX Runtime for Node reads, got ${key}, which it would ignore; remove it`;
  }
  const nearest = nearestName(key, SESSION_OPTIONS);
  const cure = nearest === undefined ? 'correct or remove it' : `did you mean ${nearest}?`;
  return `expected keys among ${SESSION_OPTIONS.join(', ')}, got ${key}; ${cure}`;
}
