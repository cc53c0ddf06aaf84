"""Is what was built complete? Run by the python that the wheel was installed into.

python .ci/smoke.py FOLDER_OF_DIST
"""

import importlib
import importlib.metadata
import pkgutil
import random
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from pathlib import Path

import fairpriv_sklearn

installed = Path(fairpriv_sklearn.__file__).parent
assert installed.is_relative_to(sysconfig.get_path("purelib")), installed
assert importlib.metadata.version("fairpriv_sklearn") == fairpriv_sklearn.__version__
assert (installed / "py.typed").is_file()

modules = [
    module.name
    for module in pkgutil.walk_packages(fairpriv_sklearn.__path__, "fairpriv_sklearn.")
    if not module.name.endswith("__main__")
]
for name in modules:
    importlib.import_module(name)
for name in fairpriv_sklearn.__all__:
    public = getattr(fairpriv_sklearn, name)
    assert all(hasattr(public, each) for each in getattr(public, "__all__", ())), name

with tempfile.TemporaryDirectory() as folder:
    rng = random.Random(0)
    rows = [
        f"{'fm'[i % 2]},{rng.randint(18, 80)},{rng.gauss(3, 1):.2f}" for i in range(900)
    ]
    Path(folder, "people.csv").write_text("\n".join(["sex,age,pay", *rows]) + "\n")
    words = "people.csv --target pay --sensitive sex --task regression --save m.skops"
    command = [sys.executable, "-m", "fairpriv_sklearn"]
    for line in (words, "predict m.skops people.csv"):
        subprocess.run(
            [*command, *line.split()], cwd=folder, check=True, capture_output=True
        )
    assert Path(folder, "fairpriv-report", "report.md").is_file()
    assert Path(folder, "predictions.csv").read_text().count("\n") == 901

(sdist,) = Path(sys.argv[1]).glob("*.tar.gz")
with tarfile.open(sdist) as archive:
    names = {name.split("/", 1)[-1] for name in archive.getnames()}
wanted = "README.md CHANGELOG.md LICENSE CITATION.cff CONTRIBUTING.md SECURITY.md"
wanted += " pyproject.toml setup.cfg .ci/run fairpriv_sklearn/py.typed"
wanted += " tests/common.py tests/test_common.py tests/proof_stamps.json"
wanted += " docs/conf.py docs/index.rst docs/_static/site.css examples/README.txt"
wanted += " examples/generative/plot_ring.py examples/benchmarks/private_tables.txt"
missing = [name for name in wanted.split() if name not in names]
assert not missing, missing
print(f"{len(modules)} modules, {sdist.name} of {len(names)} files: complete")
