"""Trains a pipeline over the table of customers.py and pickles it."""

import pickle

import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

table = pd.read_parquet('customers.parquet')
columns = make_column_transformer(
    (make_pipeline(SimpleImputer(strategy='median'), StandardScaler()), ['age', 'annual income', 'visits']),
    (OneHotEncoder(handle_unknown='ignore'), ['country', 'plan']),
    ('passthrough', ['is_member']),
)
model = make_pipeline(columns, GradientBoostingClassifier(random_state=0)).fit(table, table['churned'].astype(int))
with open('churn.pkl', 'wb') as file:
    pickle.dump(model, file)
