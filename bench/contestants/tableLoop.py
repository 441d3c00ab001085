"""Scores a CSV or Parquet file with a typical loop: read a chunk, run it, write it."""

import sys

import numpy as np
import onnxruntime
import pandas as pd

ROWS = 10_000


def chunks(path):
    if path.endswith(".csv"):
        yield from pd.read_csv(path, chunksize=ROWS)
    else:
        import pyarrow.parquet

        for batch in pyarrow.parquet.ParquetFile(path).iter_batches(ROWS):
            yield batch.to_pandas()


model, path, out = sys.argv[1:]
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
types = {"tensor(float)": np.float32, "tensor(string)": object}
inputs = [(one.name, types[one.type]) for one in session.get_inputs()]
outputs = [one.name for one in session.get_outputs()]
for index, chunk in enumerate(chunks(path)):
    feed = {name: chunk[[name]].to_numpy(dtype=kind) for name, kind in inputs}
    results = session.run(outputs, feed)
    frame = pd.DataFrame({name: values.reshape(-1) for name, values in zip(outputs, results)})
    frame.insert(0, "id", chunk["id"].to_numpy())
    frame.to_csv(out, mode="w" if index == 0 else "a", header=index == 0, index=False)
