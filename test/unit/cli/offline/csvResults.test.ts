import { describe, expect, it } from '@jest/globals';
import { createRandom } from '../../../../bench/workload/random.ts';
import { createResultFile } from '../../../../lambda/jobs/resultFiles.ts';
import { echoModel, inMemoryModel, lineModel, sumModel } from '../../../helpers/scoring.ts';
import { scoreData } from './scoreData.ts';

describe('results as CSV', () => {
  it('are one line for each row, with code and error where there is no score', async () => {
    const { csv } = await scoreData(lineModel(), 'id,x\na,1\nb,one\n"c,""d""",inf\ne,', {
      format: 'csv',
      spec: { keep: ['id'] },
    });
    expect(csv).toEqual([
      'message_id,id,y,code,error',
      '2,a,3,,',
      `3,b,,INVALID_DATA,"column 'x': expected a value of FP32, got ""one""; fix that row"`,
      '4,"c,""d""",inf,,',
      expect.stringMatching(/^5,e,,INVALID_DATA,/),
    ]);
  });

  it('have a column for each element of a vector, JSON for what has an open or a second axis, and texts as they are', async () => {
    const file = '{"left":[1,2],"right":[3,4],"bias":5}';
    const open = await scoreData(sumModel(), file, { format: 'objects' });
    expect(open.csv).toEqual(['message_id,sums,total,label,code,error', '1,"[4,6]",15,total 15,,']);
    const vector = await scoreData(echoModel('FP32', [1, 3]), '{"in":[0.1,2,-3]}');
    expect(vector.csv).toEqual(['message_id,out.0,out.1,out.2,code,error', '1,0.1,2,-3,,']);
    const matrix = await scoreData(echoModel('BOOL', [2, 2]), '{"in":[true,false,true,true]}');
    expect(matrix.csv).toEqual(['message_id,out,code,error', '1,"[true,false,true,true]",,']);
    const wide = await scoreData(echoModel('INT8', [1025]), `{"in":[${new Array(1025).fill(1)}]}`);
    expect(wide.csv[0]).toBe('message_id,out,code,error');
    const text = await scoreData(echoModel('BYTES', []), '{"in":"Infinity"}\n{"in":"a\\nb"}');
    expect(text.csv.slice(1)).toEqual(['1,Infinity,,', '2,"a\nb",,']);
  });

  it.each([
    ['FP64', /^-?\d{0,17}(\.\d{1,17})?$/],
    ['INT64', /^-?\d{1,15}$/],
    ['UINT8', /^\d{1,2}$/],
  ] as const)('have the number that a decimal of %s says, to the last bit', async (datatype, form) => {
    const random = createRandom(5);
    const digits = (most: number): string => String(random.next()).slice(2, 3 + Math.floor(random.next() * most));
    const made = Array.from({ length: 1000 }, () => `${random.next() < 0.5 ? '-' : ''}${digits(16)}.${digits(16)}`);
    const texts = [...made, ...made.map((text) => text.split('.')[0] as string), '-0', '.5', '-.5', '007', '0.1', '12'];
    const cells = texts.filter((text) => form.test(text));
    const { csv } = await scoreData(echoModel(datatype, []), `in\n${cells.join('\n')}`, { format: 'csv' });
    const scores = csv.slice(1).map((line) => Number(line.split(',')[1]));
    expect(cells.length).toBeGreaterThan(10);
    expect(scores).toEqual(cells.map((cell) => (datatype === 'FP64' ? Number(cell) : Number(cell) + 0)));
  });

  it('leave a column that is carried along its name', async () => {
    const spec = { keep: ['out', 'output.out'] };
    const { csv } = await scoreData(echoModel('INT64', []), 'in,out,output.out\n9007199254740993,b,c', {
      format: 'csv',
      spec,
    });
    expect(csv).toEqual(['message_id,out,output.out,output.output.out,code,error', '2,b,c,9007199254740993,,']);
  });

  it('never have two columns of one name', async () => {
    const spec = { keep: ['message_id', 'code', 'error', 'result.code'] };
    const { csv } = await scoreData(lineModel(), 'x,message_id,code,error,result.code\n1,id,DE,2 %,z\n?,id,DE,,', {
      format: 'csv',
      spec,
    });
    expect(csv).toEqual([
      'result.message_id,message_id,code,error,result.code,y,result.result.code,result.error',
      '2,id,DE,2 %,z,3,,',
      expect.stringMatching(/^3,id,DE,,,,INVALID_DATA,"column 'x': /),
    ]);
    const twins = await createResultFile(
      'csv',
      [
        { name: 'a', datatype: 'FP32', shape: ['batch', 2] },
        { name: 'a.1', datatype: 'FP32', shape: ['batch'] },
      ],
      [],
    );
    expect(twins.head).toBe('message_id,a.0,a.1,output.a.1,code,error\n');
  });

  it('have nothing in a column that is carried along where the line is no row, whatever it is called', async () => {
    const { csv } = await scoreData(lineModel(), 'x,constructor\n1\n1,b', {
      format: 'csv',
      spec: { keep: ['constructor'] },
    });
    expect(csv).toEqual([
      'message_id,constructor,y,code,error',
      expect.stringMatching(/^2,,,INVALID_REQUEST,/),
      '3,b,3,,',
    ]);
  });

  it('have what a transform makes of the outputs as JSON', async () => {
    const model = echoModel('FP32', [], { transform: { encode: () => ({ label: 'a "b"' }) } });
    const { csv } = await scoreData(model, '{"in":1}', { format: 'objects' });
    expect(csv).toEqual(['message_id,result,code,error', '1,"{""label"":""a \\""b\\""""}",,']);
  });

  it('are refused where an output is not of the shape that the model says', async () => {
    const contract = {
      inputs: [{ name: 'x', datatype: 'FP32', shape: ['batch'] }],
      outputs: [{ name: 'y', datatype: 'FP32', shape: ['batch', 3] }],
    } as const;
    const lying = inMemoryModel(contract, ([x]) => [{ ...(x as never as { name: string }), name: 'y' } as never]);
    await expect(scoreData(lying, '{"x":1}')).rejects.toThrow(
      /output 'y': expected 3 elements a row, as the model says, got 1/,
    );
  });
});
