"""LitServe: batching with `batch` and `unbatch` and a short batch timeout, as its documentation recommends.

It decodes within the batch. An exception would fail the whole batch, so a wrong request becomes an error value.
"""

import litserve as ls

from scoring import MAX_BATCH, PORT, TIMEOUT_S, check, open_session, score_sound


class Scorer(ls.LitAPI):
    def setup(self, device):
        self.session = open_session()

    def decode_request(self, request):
        return check(self.session, request)

    def batch(self, inputs):
        return inputs

    def predict(self, inputs):
        return score_sound(self.session, inputs)

    def unbatch(self, output):
        return output


if __name__ == "__main__":
    api = Scorer(max_batch_size=MAX_BATCH, batch_timeout=0.001)
    server = ls.LitServer(api, accelerator="cpu", workers_per_device=1, timeout=TIMEOUT_S, fast_queue=True)
    server.run(host="127.0.0.1", port=PORT, log_level="error", access_log=False, generate_client_file=False)
