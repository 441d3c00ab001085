/** Waits for `promise`, for so many milliseconds at most. */
export async function within(ms: number, promise: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const outOfTime = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  try {
    await Promise.race([promise, outOfTime]);
  } finally {
    clearTimeout(timer);
  }
}
