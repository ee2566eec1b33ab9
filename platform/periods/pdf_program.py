"""A program that reads a document of texts as JSON and writes it as PDF.

It bounds its own time and memory, reads no file, and reaches no network: Typst fetches packages
only where a template imports them. All texts are data of the template and never a part of it.
"""

from __future__ import annotations

import resource
import sys

import typst

#: Address space in bytes, and seconds of processor time.
MEMORY_BYTES = 2 << 30
CPU_S = 20

_TEMPLATE = b"""
#let data = json(bytes(sys.inputs.document))
#set document(title: data.title, author: data.provider, date: none)
#set page(paper: "a4", margin: 2cm, footer: context [
  #set text(8pt)
  #data.title #h(1fr) #counter(page).display("1 / 1", both: true)
])
#set text(font: "Libertinus Serif", size: 10pt, lang: "en")
#data.provider
#heading(data.title)
#v(1em)
#grid(
  columns: (auto, 1fr), column-gutter: 1.5em, row-gutter: 0.6em,
  ..data.facts.map(fact => (text(fill: luma(90), fact.at(0)), fact.at(1))).flatten(),
)
#v(1em)
#table(
  columns: (1fr,) + (auto,) * (data.columns.len() - 1),
  align: (left,) * (data.columns.len() - 2) + (right, right),
  stroke: (x: none, y: 0.4pt + luma(200)),
  table.header(..data.columns.map(name => strong(name))),
  ..data.rows.flatten(),
  table.footer(table.cell(colspan: data.columns.len() - 1, strong("Total")), strong(data.total)),
)
#if data.totals.len() > 0 [
  #v(1em)
  #table(
    columns: (1fr, 1fr, auto),
    align: (left, left, right),
    stroke: (x: none, y: 0.4pt + luma(200)),
    table.header(strong("Cost centre"), strong("Project code"), strong("Amount")),
    ..data.totals.flatten(),
  )
]
"""


def bound_resources() -> None:
    """Bound the memory and the processor time of this process."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))


def main() -> None:
    """Read the document from standard input, and write the PDF to standard output."""
    bound_resources()
    sys.stdout.buffer.write(
        typst.compile(
            _TEMPLATE,
            format="pdf",
            sys_inputs={"document": sys.stdin.read()},
            ignore_system_fonts=True,
            timestamp=0,
        )
    )


if __name__ == "__main__":
    main()
