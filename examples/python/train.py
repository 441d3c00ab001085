"""Trains a forest and pickles it."""

import pickle

from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier

features, labels = load_iris(return_X_y=True)
forest = RandomForestClassifier(50, random_state=0).fit(features, labels)
with open('iris.pkl', 'wb') as file:
    pickle.dump(forest, file)
