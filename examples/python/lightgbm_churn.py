"""Trains a pipeline with LightGBM over the table of customers.py and pickles it."""

import pickle

import pandas as pd
from lightgbm import LGBMClassifier
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

table = pd.read_parquet('customers.parquet')
words = OrdinalEncoder(handle_unknown='use_encoded_value', unknown_value=-1)
columns = make_column_transformer(
    (make_pipeline(SimpleImputer(strategy='constant', fill_value='none'), words), ['country', 'plan']),
    ('passthrough', ['age', 'annual income', 'visits', 'is_member']),
)
model = make_pipeline(columns, LGBMClassifier(verbose=-1)).fit(table, table['churned'].astype(int))
with open('churn-lightgbm.pkl', 'wb') as file:
    pickle.dump(model, file)
