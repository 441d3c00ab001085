/** MB of a function's memory that come with one vCPU. @see https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html */
export const MB_PER_VCPU = 1_769;
