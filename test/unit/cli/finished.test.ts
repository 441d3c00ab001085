import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { listenForInterruption } from '../../../cli/terminal.ts';

describe('after Ctrl-C', () => {
  let said: string[];
  beforeEach(() => {
    said = [];
    jest.useFakeTimers();
    jest.spyOn(process.stderr, 'write').mockImplementation((text) => said.push(String(text)) > 0);
  });
  afterEach(() => {
    process.removeAllListeners('SIGINT').removeAllListeners('SIGTERM');
    jest.restoreAllMocks();
    jest.useRealTimers();
  });

  it('says what is being finished when that takes a moment', () => {
    listenForInterruption('the work', () => {});
    process.emit('SIGINT');
    jest.advanceTimersByTime(1000);
    expect(said).toEqual(['finishing the work; Ctrl-C again leaves at once\n']);
  });

  it('says nothing of finishing once the work is done', () => {
    const { finished } = listenForInterruption('the work', () => {});
    process.emit('SIGINT');
    finished();
    jest.advanceTimersByTime(1000);
    expect(said).toEqual([]);
  });

  it('hears no signals once the work is done', () => {
    const heard = () => process.listenerCount('SIGINT') + process.listenerCount('SIGTERM');
    const before = heard();
    const { finished } = listenForInterruption('the work', () => {});
    expect(heard()).toBe(before + 2);
    finished();
    expect(heard()).toBe(before);
  });
});
