"""BentoML: adaptive batching of a batchable API whose input is a list, in one worker.

What its type cannot refuse is refused in the batch, alone.
"""

import bentoml

from scoring import MAX_BATCH, TIMEOUT_S, check, open_session, score_sound


@bentoml.service(workers=1, traffic={"timeout": TIMEOUT_S}, metrics={"enabled": False}, logging={"access": {"enabled": False}})
class Scorer:
    def __init__(self):
        self.session = open_session()

    # The dispatcher's goal for latency is that of the documentation's example.
    @bentoml.api(batchable=True, max_batch_size=MAX_BATCH, max_latency_ms=1000 * TIMEOUT_S, route="/")
    def predict(self, requests: list[dict]) -> list[dict]:
        return score_sound(self.session, [check(self.session, request) for request in requests])
