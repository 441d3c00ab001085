/** In a process that `openProcesses` started: answers what its parent asks, and ends with it. */
export function answerParent<Question>(answer: (question: Question) => unknown): void {
  process.on('message', async (question: Question) => process.send?.(await answer(question)));
  process.once('disconnect', () => process.exit());
}
