"""What all exporters share: awkward rows, and the comparison of the exported file with the original."""

import sys

import numpy as np
import onnxruntime

ROWS = 1000
# Sums round otherwise in float32, and a rounded number may be on the other side of a tree's threshold.
TOLERANCE = 1e-3
MAX_DIFFERING = ROWS // 100
MAY_BE_REFUSED = ['NaN', 'missing numbers', 'missing texts']


def keep_missing_branches(onnx_model, model):
    """Has trees of scikit-learn send NaN where they do: skl2onnx leaves that out."""
    steps = [model[-1]] if hasattr(model, 'named_steps') else [model]
    trees = [getattr(tree, 'tree_', None) for step in steps for tree in np.ravel(getattr(step, 'estimators_', [step]))]
    for node in onnx_model.graph.node:
        if not node.op_type.startswith('TreeEnsemble') or None in trees:
            continue
        attributes = {attribute.name: attribute for attribute in node.attribute}
        places = list(zip(attributes['nodes_treeids'].ints, attributes['nodes_nodeids'].ints))
        if len(places) == sum(tree.node_count for tree in trees):
            left = [int(trees[tree].missing_go_to_left[node]) for tree, node in places]
            attributes['nodes_missing_value_tracks_true'].ints[:] = left


def convert(model, **options):
    """Converts a model of scikit-learn, or says in a sentence why that fails."""
    import onnx
    import skl2onnx

    try:
        return skl2onnx.to_onnx(model, **options)
    except Exception as error:
        versions = f'skl2onnx {skl2onnx.__version__} and onnx {onnx.__version__}'
        names = names_of(model)
        is_histogram = 'HistGradientBoosting' in names
        cure = 'with GradientBoosting in place of HistGradientBoosting' if is_histogram else 'without the step that it names'
        sys.exit(f'{names}: expected steps that {versions} convert, got {first_line(error)}; fit again {cure}')


def steps_of(step):
    """A model and every step in it."""
    inner = [one for _, one, *_ in [*getattr(step, 'steps', []), *getattr(step, 'transformers_', [])]]
    return [step, *[deeper for one in inner if not isinstance(one, str) for deeper in steps_of(one)]]


def names_of(model):
    return ', '.join(dict.fromkeys(type(step).__name__ for step in steps_of(model)[1:] or [model]))


def first_line(error):
    while error.__cause__ is not None:
        error = error.__cause__
    return f'{type(error).__name__}: {error}'.splitlines()[0][:300].rstrip('.')


def cure_of(model):
    """What to do if the file of a model answers otherwise."""
    names = [type(step).__name__ for step in steps_of(model)]
    if any('Tree' in name or 'Forest' in name or 'Boost' in name or 'LGBM' in name for name in names):
        scalers = [name for name in names if 'Scal' in name]
        if scalers:
            return f'trees follow {scalers[0]}, whose numbers round to the other side of a threshold: fit again without it'
    if len(names) == 1:
        return f'fit another model than {names[0]}, whose converter differs'
    return f'fit again without the step whose converter differs, one of {names_of(model)}'


def remove_empty_folders(path):
    """Removes the folders of a version and of its model if they are empty: every host would look for a model there."""
    for folder in [path.parent, path.parent.parent]:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def awkward_numbers(columns):
    """Float32 rows of all scales, some of them zeros and extremes."""
    random = np.random.default_rng(0)
    numbers = random.normal(size=(ROWS, columns)) * 10.0 ** random.integers(-3, 4, size=(ROWS, columns))
    extreme = random.random(numbers.shape) < 0.1
    numbers[extreme] = random.choice([0.0, -0.0, 1e-9, -1e-9, 1e9, -1e9], extreme.sum())
    return numbers.astype('float32')


def with_holes(numbers):
    """The same with a fifth of them NaN, at least one in each row."""
    random = np.random.default_rng(1)
    holes = random.random(numbers.shape) < 0.2
    holes[np.arange(len(numbers)), random.integers(0, numbers.shape[1], len(numbers))] = True
    return np.where(holes, np.float32('nan'), numbers)


def compare(path, kinds, output=0, tolerance=TOLERANCE, cure='fit again without the step whose converter differs'):
    """Compares a file with the model it was made of, and leaves none that was not found to agree.

    kinds: for each kind of rows its name, the inputs in the order of the file, and what asks the original for the answers.
    cure: what to do if the answers differ.
    """
    exported = path.read_bytes()
    path.unlink()
    remove_empty_folders(path)
    try:
        session = onnxruntime.InferenceSession(exported)
    except Exception as error:
        sys.exit(f'{path}: expected a file that ONNX Runtime opens, got: {first_line(error)}; the file is deleted; {cure}')
    names = [value.name for value in session.get_inputs()]
    differing = {}
    for kind, inputs, original in kinds:
        try:
            expected = np.asarray(original())
        except ValueError as error:
            refused = f'{kind}: the original refuses them, and the file does not: {first_line(error)}'
            if kind not in MAY_BE_REFUSED:
                sys.exit(f"{refused}; fit again so that it takes them, as encoders do with handle_unknown='ignore'")
            print(refused)
            continue
        try:
            found = session.run(None, dict(zip(names, inputs)))[output]
        except Exception as error:
            reason = first_line(error)
            sys.exit(f'{path}: expected scores of {kind} rows, got: {reason}; the file is deleted; {cure}')
        # A map for each row, of probabilities by class.
        rows = [list(row.values()) for row in found] if isinstance(found, list) else found
        found = np.asarray(rows).reshape(expected.shape)
        if np.issubdtype(expected.dtype, np.number):
            scale = min(1, np.abs(np.nan_to_num(expected)).max())
            same = np.isclose(found, expected, rtol=tolerance, atol=tolerance * scale, equal_nan=True)
        else:
            same = found == expected
        # Of several outputs scikit-learn gives a list, and the rows are the second axis.
        by_row = np.moveaxis(same, same.shape.index(ROWS), 0).reshape(ROWS, -1)
        differing[kind] = int((~by_row.all(axis=1)).sum())
    counts = ', '.join(f'{kind} {count}' for kind, count in differing.items())
    print(f'{path}: of {ROWS} rows each these differ: {counts}')
    if max(differing.values(), default=0) > MAX_DIFFERING:
        sys.exit(f'{path}: expected the answers of the original, got others; the file is deleted; {cure}')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(exported)
