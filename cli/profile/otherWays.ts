import { JOB_MEMORY_MB, JOB_RANGES, MAX_MESSAGE_BYTES } from '../../lambda/core/limits.ts';
import { duration } from '../format.ts';
import { type Expectation, type SettingsQuestion, settingsIfAny } from './chooseSettings.ts';
import { gatheringMs, HOST_COSTS, instanceDollars, rowsPerSecond, runTimes, vcpusOf } from './costs.ts';

/** Alternative to the simulated settings. */
export interface Way {
  readonly compute: string;
  readonly dollarsPerMillionRows: number;
  /** Time from a row's arrival to its result for 99 % of the rows. Undefined if it is unknown. */
  readonly p99AgeMs?: number | undefined;
}

/** Days of a month as AWS bills it: 730 hours. */
const DAYS_A_MONTH = 730 / 24;
export const SECONDS_A_MONTH = DAYS_A_MONTH * 86_400;
/** Rows in a message if the question has one row in each. */
const PACKED_ROWS = 100;
/** Usable share of a task's time, and its size on Fargate. */
const TASK = { busyShare: 0.8, vcpus: 1, gb: 2 };

/**
 * Returns the cost of the same rows in packed messages, with workers instead of the function, and as files for jobs.
 */
export function otherWays(question: SettingsQuestion, { batchSize }: Expectation): Way[] {
  return [...packed(question), worker(question, batchSize), job(question)];
}

function packed(question: SettingsQuestion): Way[] {
  const { messages, messagesPerSecond } = question;
  const { requestsPerMessage, messageBytes, resultBytes } = messages;
  const rows = Math.min(PACKED_ROWS, Math.floor(MAX_MESSAGE_BYTES / Math.max(messageBytes, resultBytes)));
  if (requestsPerMessage > 1 || rows < 2) return [];
  const sent = {
    ...messages,
    requestsPerMessage: rows,
    messageBytes: rows * messageBytes,
    resultBytes: rows * resultBytes,
  };
  const sending = { messagesPerSecond: messagesPerSecond / rows, messages: sent };
  const gatheredMs = gatheringMs(sending);
  // The cheapest settings beside the gathering, also if that alone takes more than the budget.
  const found = settingsIfAny({ ...question, ...sending, budgetMs: question.budgetMs + gatheredMs })?.chosen;
  if (found === undefined) return [];
  return [
    {
      compute: `lambda, ${rows} rows a message, gathered in ${duration(gatheredMs)}`,
      dollarsPerMillionRows: found.dollarsPerMillionRows,
      p99AgeMs: found.p99AgeMs,
    },
  ];
}

function worker(question: SettingsQuestion, batchSize: number): Way {
  const { prices, architecture, messages } = question;
  const isArm = architecture === 'arm64';
  const ofVcpu = isArm ? prices.fargateArmVcpuHour : prices.fargateX86VcpuHour;
  const ofGb = isArm ? prices.fargateArmGbHour : prices.fargateX86GbHour;
  const msPerRow = msOfRow(question, TASK.vcpus) + HOST_COSTS.messageMs / messages.requestsPerMessage;
  const tasks = Math.max(1, Math.ceil((rowsPerSecond(question) * msPerRow) / 1000 / TASK.busyShare));
  const hourly = tasks * (TASK.vcpus * ofVcpu + TASK.gb * ofGb);
  return {
    compute: `ecs, ${tasks} × ${TASK.vcpus} vCPU`,
    dollarsPerMillionRows: instanceDollars(hourly, batchSize, question),
  };
}

/** Returns the cost of one file a day as a job, by the arithmetic of docs/jobs.md. */
function job(question: SettingsQuestion): Way {
  const { prices, architecture, messages } = question;
  const memoryMb = JOB_MEMORY_MB.default;
  const rows = (rowsPerSecond(question) * SECONDS_A_MONTH) / DAYS_A_MONTH;
  const bytes = (rows * messages.messageBytes) / messages.requestsPerMessage;
  const parts = Math.ceil(bytes / JOB_RANGES.partBytes.default);
  const pieces = Math.ceil(bytes / JOB_RANGES.pieceBytes.default);
  const gbSecond = architecture === 'arm64' ? prices.lambdaArmGbSecond : prices.lambdaX86GbSecond;
  const seconds = (rows * msOfRow(question, vcpusOf(memoryMb))) / 1000;
  const compute = (seconds * memoryMb * gbSecond) / 1024 + (parts * prices.lambdaMillionRequests) / 1e6;
  const objects = (pieces * (2 * prices.s3ThousandPuts + 3 * prices.s3ThousandGets)) / 1000;
  const transitions = ((3 * parts + 4) * prices.stepFunctionsThousandTransitions) / 1000;
  return {
    compute: 'job, a file a day',
    dollarsPerMillionRows: ((compute + objects + transitions) / rows) * 1e6,
  };
}

/** Returns the milliseconds per row in runs of the best size, with decoding and encoding on the same CPUs. */
function msOfRow({ table, length }: SettingsQuestion, vcpus: number): number {
  const { rowsPerRun, msOf } = runTimes(table, vcpus, length);
  return msOf(rowsPerRun) / rowsPerRun + HOST_COSTS.requestMs / Math.min(1, vcpus);
}
