"""Compares scores in a Parquet file with those of the original: compare.py PICKLE TABLE SCORES."""

import pickle
import sys

import pandas as pd

source, sample, scores = sys.argv[1:]
with open(source, 'rb') as file:
    model = pickle.load(file)
table, found = pd.read_parquet(sample), pd.read_parquet(scores)
differences = (model.predict_proba(table)[:, 1] - found['probabilities.1']).abs()
# A row with an error has no score, so that its difference is NaN.
differ = ~(differences <= 0.001)
print(f'{len(found)} rows, {differ.sum()} of them differ, by {differences.max():.5f} at most')
