"""mosec: one stage with batches of FIELD_MAX_BATCH and a wait of 1 ms. Its README recommends less than a run takes.

With FIELD_STAGES=2, an earlier stage decodes each request alone, so that a wrong one does not affect others.

JSON uses msgspec's codec, which its guide recommends over the standard library's.
"""

import os
import sys

import msgspec
from mosec import Server, ValidationError, Worker

from scoring import MAX_BATCH, PORT, TIMEOUT_S, decode, open_session, score

WAIT_MS = 1


class Scorer(Worker):
    def __init__(self):
        super().__init__()
        self.session = open_session()

    def deserialize(self, data):
        try:
            return decode(self.session, msgspec.json.decode(data))
        except (ValueError, KeyError, TypeError) as error:
            raise ValidationError(str(error)) from error

    def serialize(self, data):
        return msgspec.json.encode(data)

    def forward(self, data):
        return score(self.session, data)


class Decoder(Scorer):
    def forward(self, data):
        return data


if __name__ == "__main__":
    sys.argv[1:] = ["--address", "127.0.0.1", "--port", str(PORT), "--timeout", str(1000 * TIMEOUT_S)]
    server = Server()
    if os.environ.get("FIELD_STAGES") == "2":
        server.append_worker(Decoder, num=1, timeout=TIMEOUT_S)
    server.append_worker(Scorer, num=1, max_batch_size=MAX_BATCH, max_wait_time=WAIT_MS, timeout=TIMEOUT_S)
    server.run()
