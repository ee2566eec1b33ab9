"""A kind of cluster that only tests register."""

from __future__ import annotations

from connectors.kinds import ClusterKind, OperatorSettings, Options
from connectors.options import schema_of
from toy_kind.connector import ToyOptions, check_toy_options, open_toy


def check_trusted(options: Options, given: OperatorSettings) -> None:
    """Accept everything: a toy cluster is in this process, and reaches nothing else."""


TOY = ClusterKind(
    name="toy",
    label="Toy cluster",
    open=open_toy,
    options_schema=schema_of(ToyOptions),
    check_options=check_toy_options,
    check_trusted=check_trusted,
    shows_options=True,
    address_option="address",
)
