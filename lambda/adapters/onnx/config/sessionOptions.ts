import { z } from 'zod';

/** What ONNX Runtime can be told of a session, less the execution providers: they have a key of their own. */
export const SESSION_OPTIONS = [
  'enableCpuMemArena',
  'enableGraphCapture',
  'enableMemPattern',
  'enableProfiling',
  'executionMode',
  'externalData',
  'extra',
  'freeDimensionOverrides',
  'graphOptimizationLevel',
  'interOpNumThreads',
  'intraOpNumThreads',
  'logId',
  'logSeverityLevel',
  'logVerbosityLevel',
  'optimizedModelFilePath',
  'preferredOutputLocation',
  'profileFilePrefix',
];

/** Their values are ONNX Runtime's to check; keys that it does not know it ignores, the misspelt ones with them. */
export const sessionOptions = z.record(z.string(), z.unknown()).superRefine((options, context) => {
  for (const key of Object.keys(options)) {
    if (SESSION_OPTIONS.includes(key)) continue;
    const message =
      key === 'executionProviders'
        ? 'use the key "providers" instead of executionProviders'
        : `expected keys among ${SESSION_OPTIONS.join(', ')}, got ${key}; correct or remove it`;
    context.addIssue({ code: 'custom', path: [key], message });
  }
});
