/** A client of the AWS SDK, which looks for its region when it is first used. */
interface RegionalClient {
  readonly config: { region(): Promise<string> };
}

/** @throws Error saying what to set when a client has no region, which the SDK reports as if it might pass */
export async function assertRegion(clients: readonly RegionalClient[]): Promise<void> {
  try {
    await Promise.all(clients.map(({ config }) => config.region()));
  } catch (cause) {
    throw new Error('expected an AWS region, got none; set region, AWS_REGION, or the region of the AWS profile', {
      cause,
    });
  }
}
