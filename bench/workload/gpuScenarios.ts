import { encodeResnet, PICTURE_SHAPE } from './models/resnet.ts';
import { encodeTransformer } from './models/transformer.ts';
import type { Random } from './random.ts';
import { type InputTensor, MODEL_SEED, type Scenario, scenarioNamed } from './scenarios.ts';

/** What all texts are long, in tokens: of one length, so that a run of theirs has no padding. */
const LENGTH = 32;

const TRANSFORMER: Scenario = {
  ...scenarioNamed('transformer'),
  lengths: { typical: LENGTH, draw: () => LENGTH },
  modelConfig: { ragged: { axis: 'sequence', pad: { input_ids: 0, attention_mask: 0 }, ladder: [LENGTH] } },
};

/** The models that a GPU is measured with. */
export const GPU_SCENARIOS: readonly Scenario[] = [
  scenarioNamed('mlp-small'),
  scenarioNamed('mlp-wide'),
  TRANSFORMER,
  { ...TRANSFORMER, name: 'transformer-fp16', encodeModel: () => encodeTransformer(MODEL_SEED, 'FP16') },
  {
    ...scenarioNamed('convnet'),
    name: 'resnet-50',
    encodeModel: () => encodeResnet(MODEL_SEED),
    drawInputs: (random) => [drawPicture(random)],
  },
];

function drawPicture(random: Random): InputTensor {
  const data = new Uint8Array(PICTURE_SHAPE.reduce((product, dim) => product * dim, 1));
  for (let i = 0; i < data.length; i++) data[i] = random.below(256);
  return { name: 'picture', datatype: 'UINT8', shape: [1, ...PICTURE_SHAPE], data };
}
