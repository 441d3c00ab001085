"""Ray Serve: `@serve.batch` with the HTTP proxy on this node. Each request is checked before it joins a batch.

Its performance guide recommends `RAY_SERVE_THROUGHPUT_OPTIMIZED`, HAProxy instead of its own proxy, and no log line
per request.
"""

import asyncio
import os
import signal

os.environ["RAY_SERVE_THROUGHPUT_OPTIMIZED"] = "1"
os.environ["RAY_SERVE_ENABLE_HA_PROXY"] = "1"

import ray
from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse

from scoring import MAX_BATCH, PORT, TIMEOUT_S, decode, open_session, score


# The limit is above the batch size, so that a batch gathers while another runs, as the performance guide says.
@serve.deployment(
    num_replicas=1,
    max_ongoing_requests=4 * MAX_BATCH,
    ray_actor_options={"num_cpus": 1},
    logging_config={"enable_access_log": False},
)
class Scorer:
    def __init__(self):
        self.session = open_session()

    @serve.batch(max_batch_size=MAX_BATCH, batch_wait_timeout_s=0.001)
    async def score(self, requests):
        # In that mode, this loop also handles the HTTP requests, so nothing may block it.
        return await asyncio.to_thread(score, self.session, requests)

    async def __call__(self, http: Request):
        try:
            request = decode(self.session, await http.json())
        except (ValueError, KeyError, TypeError) as error:
            return JSONResponse({"error": str(error)}, 422)
        return await self.score(request)


if __name__ == "__main__":
    ray.init(include_dashboard=False, num_cpus=2, log_to_driver=False, _metrics_export_port=None)
    serve.start(http_options={"host": "127.0.0.1", "port": PORT, "request_timeout_s": TIMEOUT_S})
    serve.run(Scorer.bind())
    signal.pause()
