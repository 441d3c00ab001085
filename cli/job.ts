import { hasCode } from '../lambda/aws/awsError.ts';
import { messageOf } from '../lambda/core/failure.ts';

import { knownName } from './arguments.ts';
import { cancelJob, fetchResults, resumeJob, showStatus, waitForJob } from './job/running.ts';
import { submitJob } from './job/submit.ts';
import { JOB_DEPLOYMENT_HELP } from './network/deployment.ts';

const HELP = `Usage: batchscore job ACTION [arguments] [options]

Scores files in S3 in place: JSON lines, CSV or Parquet, any size. One row out for every row in, in
order, under the output prefix of the deployment.

  submit s3://BUCKET/KEY  start the job of an object; the same version, asked for in the same
                          way, is one job. One that started a job as it was put is that job.
                          Prints its ID
  status JOB              how it stands
  wait JOB                wait until it has ended
  cancel JOB              end it; what is finished stays
  resume JOB              score what has no result, of a job that has ended
  fetch JOB --out FILE    get all results as one file

  of submit:
  --model NAME            the model (default: the deployment's)
  --model-version N       its version (default: the highest)
  --inputs INPUT=COLUMNS  of CSV and Parquet: the columns of an input, such as image=p0..p63 or
                          x=a,b; for each input that has not the name of its only column
  --keep COLUMNS          of CSV and Parquet: columns to carry beside the results
  --format FORMAT         jsonl, csv or parquet (default: by the key's ending)
  --compression NAME      none, gzip or zstd (default: by the key's ending)
  --concurrency N         most calls at a time (default: the deployment's)
  --out s3://BUCKET/KEY/  a folder under the output prefix (default: the output prefix)
  --again                 start a new job with a folder of its own, whatever was submitted before
  --wait                  wait until it has ended
  --estimate              print parts, rows, dollars and minutes, and start nothing
  --rows-per-second N     of the estimate: what one call scores (default 20000)
  --memory MB             of the estimate: the function's memory (default 1769)

${JOB_DEPLOYMENT_HELP}
  --json                  print the answer as one JSON object
  --help                  show this

Exit code: 0 started, or done and all rows scored, 3 done, and some rows were answered with an error
or given up, 1 the job failed or was cancelled, 2 wrong usage, 130 stopped by Ctrl-C, 143 by SIGTERM:
the job goes on.
`;

const ACTIONS = {
  submit: submitJob,
  status: showStatus,
  wait: waitForJob,
  cancel: cancelJob,
  resume: resumeJob,
  fetch: fetchResults,
} satisfies Readonly<Record<string, (args: readonly string[]) => Promise<number>>>;

const NAMES = Object.keys(ACTIONS) as (keyof typeof ACTIONS)[];

async function run([name, ...args]: readonly string[]): Promise<number> {
  try {
    return await ACTIONS[knownName('an action', name, NAMES)](args);
  } catch (cause) {
    if (!hasCode(cause, 'ECONNREFUSED')) throw cause;
    throw new Error(
      `expected the deployment's jobs, nothing listens there (${messageOf(cause)}); is npm run dev running?`,
      {
        cause,
      },
    );
  }
}

export const job = { help: HELP, run };
