"""LitServe: batching with `batch` and `unbatch` of its documentation, which also recommends a short batch timeout."""

import litserve as ls
from fastapi import HTTPException

from scoring import MAX_BATCH, PORT, TIMEOUT_S, decode, open_session, score


class Scorer(ls.LitAPI):
    def setup(self, device):
        self.session = open_session()

    def decode_request(self, request):
        try:
            return decode(self.session, request)
        except (ValueError, KeyError, TypeError) as error:
            raise HTTPException(422, str(error)) from error

    def batch(self, inputs):
        return inputs

    def predict(self, inputs):
        return score(self.session, inputs)

    def unbatch(self, output):
        return output


if __name__ == "__main__":
    api = Scorer(max_batch_size=MAX_BATCH, batch_timeout=0.01)
    server = ls.LitServer(api, accelerator="cpu", workers_per_device=1, timeout=TIMEOUT_S, fast_queue=True)
    server.run(host="127.0.0.1", port=PORT, log_level="error", access_log=False, generate_client_file=False)
