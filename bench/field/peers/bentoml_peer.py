"""BentoML: adaptive batching of a batchable API whose input is a list, in one worker.

What its type cannot refuse is refused in the batch, alone.
"""

import bentoml

from scoring import MAX_BATCH, TIMEOUT_S, decode, open_session, score


@bentoml.service(workers=1, traffic={"timeout": TIMEOUT_S}, metrics={"enabled": False})
class Scorer:
    def __init__(self):
        self.session = open_session()

    # The dispatcher's goal for latency is that of the documentation's example.
    @bentoml.api(batchable=True, max_batch_size=MAX_BATCH, max_latency_ms=1000 * TIMEOUT_S, route="/")
    def predict(self, requests: list[dict]) -> list[dict]:
        decoded = [self.check(request) for request in requests]
        answers = iter(score(self.session, [one for one in decoded if "error" not in one]))
        return [one if "error" in one else next(answers) for one in decoded]

    def check(self, request):
        try:
            return decode(self.session, request)
        except (ValueError, KeyError, TypeError) as error:
            return {"error": str(error)}
