"""Exports a network of PyTorch."""

from pathlib import Path

import torch

from check import awkward_numbers, compare, with_holes

path = Path('models/iris-torch/1/model.onnx')
path.parent.mkdir(parents=True, exist_ok=True)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3)).eval()
torch.onnx.export(
    model,
    (torch.zeros(2, 4),),
    path,
    input_names=['features'],
    output_names=['scores'],
    dynamic_shapes=({0: 'batch'},),
    dynamo=True,
    external_data=False,
    verbose=False,
)


def answers(rows):
    with torch.no_grad():
        return model(torch.from_numpy(rows)).numpy()


numbers = awkward_numbers(4)
kinds = {'numbers': numbers, 'NaN': with_holes(numbers)}
compare(path, [(kind, [rows], lambda rows=rows: answers(rows)) for kind, rows in kinds.items()])
