"""What is installed: `harness`, with the folders that the repository keeps beside it inside.

Nothing else takes a name in site-packages: `adapters`, `configs` and `examples` are those of other
people's packages too. In a checkout `harness/datasets/adapters` is a symbolic link, for type
checkers and for runs without an installation. A build leaves it aside: not every archive or system
has links.
"""

from setuptools import find_namespace_packages, setup

INSIDE = {
    "adapters": "harness.datasets.adapters",
    "configs": "harness.cli.data.configs",
    "examples": "harness.cli.data.examples",
}
NOT = ["*__pycache__*", "harness.datasets.adapters*"]

packages = find_namespace_packages(include=["harness", "harness.*"], exclude=NOT)
for folder, name in INSIDE.items():
    below = find_namespace_packages(folder, exclude=NOT)
    packages += [name, *(f"{name}.{part}" for part in below)]

setup(packages=packages, package_dir={name: folder for folder, name in INSIDE.items()})
