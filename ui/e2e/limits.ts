/** Time for a process of the product to start, on a machine that is busy with builds. */
export const START_MS = 60_000;
