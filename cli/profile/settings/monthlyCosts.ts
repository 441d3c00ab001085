/**
 * What the rows of a month cost by each way that they can be sent: a message for each through the queue, many in a message,
 * to workers in place of the function, or as files to jobs.
 */
import { JOB_MEMORY_MB, JOB_RANGES, MAX_MESSAGE_BYTES } from '../../../lambda/core/limits.ts';
import { estimate } from '../../job.ts';
import { type Expectation, type SettingsQuestion, settingsOf } from './chooseSettings.ts';
import { HOST_COSTS, instanceDollars, rowsPerSecond, runTimes, vcpusOf } from './invocationCosts.ts';

export interface MonthlyCost {
  readonly way: 'queue' | 'packed' | 'worker' | 'job';
  /** How rows are sent, and what scores them. */
  readonly how: string;
  /** US dollars. */
  readonly dollarsPerMonth: number;
  /** From a row's arrival to its result, of all but the slowest hundredth; undefined where nothing tells. */
  readonly p99AgeMs?: number | undefined;
}

/** A month as AWS bills it: 730 hours. */
const DAYS_A_MONTH = 730 / 24;
export const SECONDS_A_DAY = 86_400;
export const SECONDS_A_MONTH = DAYS_A_MONTH * SECONDS_A_DAY;
/** Rows in a message where the question has one in each. */
const PACKED_ROWS = 100;
/** Of a task: what it may be used, and its size on Fargate. */
const TASK = { busyShare: 0.8, vcpus: 1, gb: 2 };

/** @param chosen the settings that were chosen for the question */
export function monthlyCosts(question: SettingsQuestion, chosen: Expectation): MonthlyCost[] {
  const rows = rowsPerSecond(question) * SECONDS_A_MONTH;
  const { requestsPerMessage } = question.messages;
  const packed = requestsPerMessage === 1 ? Math.min(PACKED_ROWS, fitting(question)) : requestsPerMessage;
  const queued = (way: 'queue' | 'packed', perMessage: number): MonthlyCost[] => {
    const found = perMessage === requestsPerMessage ? chosen : settingsOf(sentAs(question, perMessage))?.chosen;
    if (found === undefined) return [];
    const { dollarsPerMillionRows, p99AgeMs, batchSize, windowSeconds } = found;
    const sent = perMessage === 1 ? 'a message a row' : `${perMessage} rows a message`;
    const how = `${sent}, batches of ${batchSize} within ${windowSeconds} s`;
    return [{ way, how, dollarsPerMonth: (rows * dollarsPerMillionRows.total) / 1e6, p99AgeMs }];
  };
  return [
    ...queued('queue', 1),
    ...(packed > 1 ? queued('packed', packed) : []),
    worker(question, chosen, rows),
    job(question, rows),
  ];
}

/** Rows that a message holds. */
function fitting({ messages: { messageBytes, resultBytes } }: SettingsQuestion): number {
  return Math.floor(MAX_MESSAGE_BYTES / Math.max(messageBytes, resultBytes));
}

/** The same rows with so many in a message. */
function sentAs(question: SettingsQuestion, requestsPerMessage: number): SettingsQuestion {
  const { messages, messagesPerSecond } = question;
  const times = requestsPerMessage / messages.requestsPerMessage;
  return {
    ...question,
    trace: undefined,
    messagesPerSecond: messagesPerSecond / times,
    messages: {
      ...messages,
      requestsPerMessage,
      messageBytes: messages.messageBytes * times,
      resultBytes: messages.resultBytes * times,
    },
  };
}

function worker(question: SettingsQuestion, { batchSize }: Expectation, rows: number): MonthlyCost {
  const { prices, architecture, messages } = question;
  const isArm = architecture === 'arm64';
  const ofVcpu = isArm ? prices.fargateArmVcpuHour : prices.fargateX86VcpuHour;
  const ofGb = isArm ? prices.fargateArmGbHour : prices.fargateX86GbHour;
  const msPerRow = msOfRow(question, TASK.vcpus) + HOST_COSTS.messageMs / messages.requestsPerMessage;
  const tasks = Math.max(1, Math.ceil((rowsPerSecond(question) * msPerRow) / 1000 / TASK.busyShare));
  const hourly = tasks * (TASK.vcpus * ofVcpu + TASK.gb * ofGb);
  return {
    way: 'worker',
    how: `messages as asked, ${tasks} × ${TASK.vcpus} vCPU and ${TASK.gb} GB on Fargate, busy or not`,
    dollarsPerMonth: (rows * instanceDollars(hourly, 0, batchSize, question).total) / 1e6,
  };
}

/** A file a day. */
function job(question: SettingsQuestion, rows: number): MonthlyCost {
  const { prices, architecture, messages } = question;
  const memoryMb = JOB_MEMORY_MB.default;
  const ofDay = rows / DAYS_A_MONTH;
  const { minutes, dollars } = estimate(
    {
      rows: ofDay,
      bytes: (ofDay * messages.messageBytes) / messages.requestsPerMessage,
      rowsPerSecond: 1000 / msOfRow(question, vcpusOf(memoryMb)),
      concurrency: JOB_RANGES.concurrency.default,
      memoryMb,
      architecture: architecture === 'arm64' ? 'arm64' : 'x64',
      partBytes: JOB_RANGES.partBytes.default,
      pieceBytes: JOB_RANGES.pieceBytes.default,
    },
    prices,
  );
  const taking = minutes < 1 ? 'less than a minute' : `${Math.ceil(minutes)} min`;
  return {
    way: 'job',
    how: `a file a day in S3, which takes ${taking}`,
    dollarsPerMonth: dollars.all * DAYS_A_MONTH,
  };
}

/** Milliseconds of a row in runs as they are best, decoded and encoded on the same CPUs. */
function msOfRow({ table, length }: SettingsQuestion, vcpus: number): number {
  const { rowsPerRun, msOf } = runTimes(table, vcpus, length);
  return msOf(rowsPerRun) / rowsPerRun + HOST_COSTS.requestMs / Math.min(1, vcpus);
}
