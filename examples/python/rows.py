"""Writes the rows of iris as a Parquet file with a column of lists, and as a CSV file."""

import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.datasets import load_iris

features = load_iris(as_frame=True).data
pq.write_table(pa.table({'features': features.to_numpy('float32').tolist()}), 'iris.parquet')
features.columns = ['sepal_length', 'sepal_width', 'petal_length', 'petal_width']
features.to_csv('iris.csv', index=False)
