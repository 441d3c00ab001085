import { execFileSync } from 'node:child_process';
import { copyFileSync, linkSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { encodeModel } from '../../../../bench/workload/encodeModel.ts';
import { createOfflineScoring, OFFLINE_LIMITS } from '../../../../cli/offline/scoreCommand.ts';
import { requestRows } from '../../../../lambda/jobs/rows.ts';
import { openModelAlone } from '../../../../lambda/onnx/repository.ts';
import { columnsModel, voiceModel } from '../../../helpers/axisModels.ts';
import { batchscore } from '../../../helpers/batchscore.ts';
import { useFolder } from '../../../helpers/folders.ts';
import { changed } from '../../../helpers/graph.ts';
import {
  endlessModel,
  identityModel,
  lookupModel,
  lowerCaseModel,
  maskedMeanModel,
  sequenceModel,
  turningModel,
  unloadableModel,
} from '../../../helpers/onnxModels.ts';
import { scoreModels } from '../../../helpers/scoring.ts';
import { putModel } from '../models.ts';

const inFolder = useFolder();

const RAGGED = { ragged: { axis: 'length', pad: { values: 0, mask: 0 }, allowedSizes: [16, 32] } };
const AXES = { batchAxis: { tokens: 1, words: 2, same_tokens: 1, same_words: 2 } };
const VOICE = { batchAxis: { state: 1, new_state: 1 }, constants: { sr: 16_000 } };

const MODELS: Readonly<Record<string, readonly [model: () => Uint8Array, config?: object]>> = {
  'several ragged inputs': [maskedMeanModel, RAGGED],
  'batch axes 1 and 2, and strings': [columnsModel, AXES],
  'a state and a constant': [voiceModel, VOICE],
  strings: [() => identityModel('BYTES', ['n', 2])],
  FP16: [() => identityModel('FP16')],
  BOOL: [() => identityModel('BOOL')],
  INT64: [() => identityModel('INT64', ['batch'])],
  'a fixed batch': [() => identityModel('FP32', [4, 3])],
  "it's a “model” $(name)": [identityModel],
};

function ofOpset40(): Uint8Array {
  return changed(identityModel(), ({ opsetImport }) => {
    for (const one of opsetImport) one.version = 40;
  });
}

/** `error` is its sentence. */
async function inspect(args: readonly string[]) {
  const { code, stdout, stderr } = await batchscore(['inspect', ...args]);
  return { code, stdout, error: /^batchscore: (.*?)\n(?:Run it .*\n)?$/s.exec(stderr)?.[1] };
}

async function put(name: string): Promise<string> {
  const [model, config = {}] = MODELS[name] as (typeof MODELS)[string];
  const path = await putModel(inFolder(), name, model());
  writeFileSync(join(path, 'config.json'), JSON.stringify(config));
  return path;
}

/** What the model answers to requests, one a line, as `batchscore score` does. */
async function scored(path: string, lines: readonly string[]): Promise<object[]> {
  const warn = (): void => {};
  const options = { maxBatchRows: 8, maxBatchElements: 4096, providers: ['cpu'], allowProviderFallback: false, warn };
  const models = await openModelAlone(path, options);
  const scoring = createOfflineScoring(scoreModels(models, OFFLINE_LIMITS), warn);
  const { single } = await scoring.score(requestRows([...lines.keys()], lines));
  await models.close();
  return single.map((result) => JSON.parse(result?.text ?? ''));
}

/** What a shell hands to the AWS CLI as the message's body. */
function bodyIn(awsCli: string): string {
  return execFileSync('sh', ['-c', `aws() { printf %s "$8"; }; REQUEST_QUEUE=url; ${awsCli}`], { encoding: 'utf8' });
}

describe('what batchscore inspect prints', () => {
  it.each([...Object.keys(MODELS), 'digits', 'tickets'])(
    'is requests that the model takes, in both forms and as a command: %s',
    async (name) => {
      const path = name in MODELS ? await put(name) : join('models', name);
      const { code, stdout } = await inspect([path, '--json']);
      const { samples, send } = JSON.parse(stdout);
      const lines = samples.flatMap(({ json, binary = json }: { json: object; binary?: object }) => [
        JSON.stringify(json),
        JSON.stringify(binary),
      ]);
      const answers = await scored(path, lines);
      const refused = answers.filter((answer) => 'error' in answer);
      expect({ code, count: samples.length, refused }).toEqual({ code: 0, count: 4, refused: [] });
      expect(answers[0]).toEqual({ message_id: '0', ...samples[0].answer });
      expect(JSON.parse(bodyIn(send.awsCli))).toEqual(samples[0].json);
    },
  );

  it('says what the model takes and gives, its axes, its verdict and its runs', async () => {
    await put('several ragged inputs');
    const { stdout } = await inspect(['several ragged inputs', '--models', inFolder()]);
    expect(stdout).toMatch(/^rows {4}rows are independent, by the graph of the model$/m);
    expect(stdout).toMatch(/^ragged {2}'length' of values, mask: lengths of 16, 32, padded within a run$/m);
    expect(stdout).toMatch(/^ {2}values {2}FP32 {6}\[batch, length\] {2}batch axis 0, ragged axis 1$/m);
    expect(stdout).toMatch(/^ {2}mean {5}FP32 {6}\[batch, 1\] {7}batch axis 0$/m);
  });

  it('is cut where it is long, and then the commands read a file that --samples writes', async () => {
    const path = await putModel(inFolder(), 'wide', identityModel('FP32', ['batch', 1000]));
    const file = inFolder('requests.jsonl');
    const { stdout } = await inspect([path, '--samples', file]);
    const [first = ''] = readFileSync(file, 'utf8').split('\n');
    expect(stdout).toContain(`${first.slice(0, 700)}…\n(cut after 700 of `);
    expect(Math.max(...stdout.split('\n').map((line) => line.length))).toBeLessThan(800);
    expect(stdout).toContain(
      `npx batchscore inspect ${path} --samples requests.jsonl\nhead -n 1 requests.jsonl > request.json\n`,
    );
    expect(stdout).toContain('--message-body file://request.json\n');
  });

  it('never writes its samples over the model', async () => {
    const model = join(await putModel(inFolder(), 'kept', identityModel()), '1', 'model.onnx');
    const before = readFileSync(model);
    const link = inFolder('link.jsonl');
    linkSync(model, link);
    for (const file of [model, link]) {
      expect((await inspect([model, '--samples', file])).error).toMatch(/^--samples: expected another file than/);
    }
    expect(readFileSync(model)).toEqual(before);
  });

  it('shows names as text, whatever they would do to a terminal', async () => {
    const name = 'it\'s \x1b[2J"\n\x9b31m';
    const value = { name, datatype: 'FP32', shape: ['n\x1b]0;', 2] } as const;
    const model = encodeModel({
      inputs: [value],
      outputs: [{ ...value, name: `${name} out` }],
      nodes: [{ op: 'Identity', inputs: [name], outputs: [`${name} out`] }],
    });
    const path = await putModel(inFolder(), 'controls', model);
    const { stdout } = await inspect([path]);
    expect(stdout.replaceAll('\n', '')).not.toMatch(/\p{Cc}/u);
    expect(stdout).toContain(String.raw`  it's \u001b[2J"\u000a\u009b31m  FP32      [n\u001b]0;, 2]`);
    const { send } = JSON.parse((await inspect([path, '--json'])).stdout);
    expect(JSON.parse(bodyIn(send.awsCli)).inputs[0].name).toBe(name);
  });

  it('says why there is no sample, and what to do', async () => {
    const path = await putModel(inFolder(), 'turning', turningModel());
    const { code, stdout } = await inspect([path]);
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: expect.stringMatching(/No request was run: the model has a loop/),
    });
    expect(stdout).toMatch(/^ {2}1 × {2}Loop: /m);
    expect((await inspect([path, '--samples', inFolder('none.jsonl')])).error).toMatch(/--samples: expected a request/);
  });

  it('ends with 1 where no made-up request is answered, and shows the first', async () => {
    const path = await putModel(inFolder(), 'endless', endlessModel());
    const { code, stdout, error } = await inspect([path, '--json']);
    const { failed, samples } = JSON.parse(stdout);
    expect({ code, samples, failed }).toEqual({
      code: 1,
      samples: [],
      failed: {
        place: 'a made-up request',
        json: expect.objectContaining({ model_name: 'endless' }),
        reason: expect.stringMatching(/memory/),
      },
    });
    expect(error).toBe(
      `a made-up request: expected scores, got: ${failed.reason}; put requests that it answers into samples.jsonl beside config.json`,
    );
    expect((await inspect([path])).stdout).toMatch(
      /^Request \(a made-up request, and not answered\)\n\{"id":"sample-1","model_name":"endless".*\n\nWhy it failed\n.*memory/m,
    );
  });

  it('ends with 1 where a request of samples.jsonl is not answered, and names its line', async () => {
    const path = await putModel(inFolder(), 'lookup', lookupModel());
    const samples = join(path, 'samples.jsonl');
    writeFileSync(samples, '{"instances":[1]}\n\n{"instances":[7]}\n');
    const { code, stdout, error } = await inspect([path]);
    expect({ code, error }).toEqual({
      code: 1,
      error: expect.stringMatching(
        /^.*samples\.jsonl:3: expected scores, got: .*indices.*; mend the line, or delete it$/,
      ),
    });
    expect(stdout).toContain(
      'ran     1 request, of samples.jsonl, as JSON and in binary; the first: index [1] → value [1]\n',
    );
    expect(stdout).toContain(`Request (${samples}:3, and not answered)\n{"id":"sample-2","model_name":"lookup"`);
    writeFileSync(samples, '{"instances":[1]}\n');
    expect(await inspect([path])).toMatchObject({ code: 0, error: undefined });
  });

  it('names the outputs that config.json leaves out', async () => {
    const path = await putModel(inFolder(), 'left out', maskedMeanModel());
    writeFileSync(join(path, 'config.json'), JSON.stringify({ outputs: ['mean'] }));
    const { stdout } = await inspect([path]);
    expect(stdout).toMatch(/^left out {2}doubled, which "outputs" in config.json does not name$/m);
  });

  it.each([
    ['a sequence', sequenceModel, 'sequence', /output 'pieces': expected a tensor of a type/],
    ['an operator that is not there', unloadableModel, 'FP32', /NoSuchOperator/],
    ['an opset to come', ofOpset40, 'FP32', /expected an opset of at most \d+, got 40; export it with target_opset=/],
    [
      'operators of trees to come',
      () => changed(identityModel(), ({ opsetImport }) => opsetImport.push({ domain: 'ai.onnx.ml', version: 40 })),
      'FP32',
      /of 'ai\.onnx\.ml' of at most (\d+), got 40; .* as in target_opset=\{'': 21, 'ai\.onnx\.ml': \1\}; ONNX Runtime/,
    ],
    [
      'a node without its input',
      () => changed(identityModel(), ({ graph }) => graph?.node?.[0]?.input?.splice(0, 1, 'nowhere')),
      'FP32',
      /: expected 'nowhere', an input of a node, to be an input of the model, .*, got none; export it again; ONNX Runtime/,
    ],
    ['an odd type', () => identityModel(16), 'bfloat16', /bfloat16, which ONNX Runtime for Node cannot carry/],
  ])('tells what the file says of a model that does not open: %s', async (_, model, datatype, reason) => {
    const path = await putModel(inFolder(), 'broken', model());
    const { stdout, error } = await inspect([path, '--json']);
    const { outputs, operators, error: said } = JSON.parse(stdout);
    expect({ datatype: outputs[0].datatype, operators: operators.length }).toEqual({ datatype, operators: 1 });
    expect(said).toMatch(reason);
    expect(error).toBe(said);
  });
});

describe('batchscore inspect', () => {
  it.each([
    [['/no/model'], /^\/no\/model: expected a model folder, .*, got none of these; check the name/],
    [
      ['digit'],
      /^digit: expected a model folder, a \.onnx file or a model of models \(digits, tickets\), .*did you mean digits\?$/,
    ],
  ])('refuses %j in one sentence', async (args, message) => {
    expect((await inspect(args)).error).toMatch(message);
  });
});

describe('a model with a tokenizer', () => {
  it('is shown with a request that has a text, and its answer', async () => {
    const tokens = ['batch', 'sequence'];
    const path = await putModel(inFolder(), 'words', identityModel('INT64', tokens, 'input_ids'));
    copyFileSync(new URL('../../../helpers/tokenizers/wordpiece.json', import.meta.url), join(path, 'tokenizer.json'));
    writeFileSync(join(path, 'config.json'), '{"tokenizer": "tokenizer.json"}');

    const { code, stdout } = await inspect([path]);

    expect(code).toBe(0);
    expect(stdout).toContain('"text":"One example of a text."');
    expect(stdout).toContain('"shape":[1,');
    expect(stdout).toMatch(/tokenizer +takes texts/);
    expect(stdout).not.toMatch(/transform +takes/);
  });
});

describe('a model that needs a locale', () => {
  it('says which, and what to do where the machine has none', async () => {
    const path = await putModel(inFolder(), 'words', lowerCaseModel('xx_XX.UTF-8'));
    const { code, stdout, error } = await inspect([path]);
    expect(code).toBe(1);
    expect(stdout.replaceAll(/\s+/g, ' ')).toContain('StringNormalizer: needs its locale on the machine, en_US.UTF-8');
    expect(`${stdout}${error}`).toContain('install xx_XX.UTF-8 here, or set locale="C.UTF-8" in the graph');
  });

  it('is refused by publish where no image has it', async () => {
    await putModel(inFolder(), 'words', lowerCaseModel('de_DE.UTF-8'));
    const { code, stderr } = await batchscore(['publish', inFolder(), 's3://bucket']);
    expect(code).toBe(1);
    expect(stderr).toContain(
      "expected a StringNormalizer with a locale that images have (C.UTF-8, en_US.UTF-8), got 'de_DE.UTF-8'; set " +
        'locale="C.UTF-8" in the graph',
    );
  });
});
