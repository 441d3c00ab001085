"""Triton from its PyPI package: the Python backend with Triton's HTTP front end and dynamic batcher.

Its guide recommends to start with the largest useful batch and no delay, and to measure. It batches requests of equal
shape.
"""

import os
import sysconfig

from pytriton.decorators import batch
from pytriton.model_config import DynamicBatcher, ModelConfig, QueuePolicy, Tensor
from pytriton.triton import Triton, TritonConfig

from scoring import DTYPES, MAX_BATCH, PORT, TIMEOUT_S, open_session


def tensors(values):
    return [
        Tensor(name=v.name, dtype=DTYPES[v.type], shape=tuple(d if isinstance(d, int) else -1 for d in v.shape[1:]) or (1,))
        for v in values
    ]


if __name__ == "__main__":
    # The server must load the library of this Python, as the installation guide says.
    os.environ["LD_LIBRARY_PATH"] = sysconfig.get_config_var("LIBDIR")
    session = open_session()
    names = [output.name for output in session.get_outputs()]
    scalar = {v.name for v in [*session.get_inputs(), *session.get_outputs()] if len(v.shape) == 1}

    @batch
    def infer(**feeds):
        values = session.run(names, {n: f[:, 0] if n in scalar else f for n, f in feeds.items()})
        return {n: v[:, None] if n in scalar else v for n, v in zip(names, values)}

    limits = QueuePolicy(default_timeout_microseconds=1_000_000 * TIMEOUT_S)
    config = TritonConfig(http_address="127.0.0.1", http_port=PORT, allow_grpc=False, allow_metrics=False)
    with Triton(config=config) as triton:
        triton.bind(
            model_name="model",
            infer_func=infer,
            inputs=tensors(session.get_inputs()),
            outputs=tensors(session.get_outputs()),
            config=ModelConfig(max_batch_size=MAX_BATCH, batcher=DynamicBatcher(default_queue_policy=limits)),
        )
        triton.serve()
