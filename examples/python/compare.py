"""Compares scores in a Parquet file with those of the original: compare.py PICKLE TABLE SCORES."""

import pickle
import sys

import numpy as np
import pandas as pd

source, sample, scores = sys.argv[1:]
with open(source, 'rb') as file:
    model = pickle.load(file)
table, found = pd.read_parquet(sample), pd.read_parquet(scores)
probabilities = found.filter(regex=r'^probabilities\.\d+$').to_numpy()
# A row with an error has no score, so that its difference is NaN.
differences = np.abs(model.predict_proba(table) - probabilities).max(axis=1)
differ = ~(differences <= 0.001)
print(f'{len(found)} rows, {differ.sum()} of them differ, by {np.nanmax(differences):.5f} at most')
