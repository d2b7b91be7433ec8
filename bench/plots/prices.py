"""What a vendor's library takes for a collective on a machine file, as common/runtime/machine/library.cpp has it.
Standard library only."""

import json
import math
import pathlib

MACHINES = pathlib.Path(__file__).resolve().parents[1] / "machines"


def machine_named(name):
    """A machine file by name or path, with the node that it is made of."""
    path = pathlib.Path(name) if name.endswith(".json") else MACHINES / f"{name}.json"
    machine = json.loads(path.read_text(encoding="utf-8"))
    if "node" in machine:
        inside = machine_named(str(MACHINES / f"{machine['node']}.json"))
        machine = {**inside, **machine, "levels": inside["levels"] + machine["levels"]}
    return machine


def has_nodes(name):
    """Whether the machine file of this name is of several nodes; False where there is none."""
    path = MACHINES / f"{name}.json"
    return path.exists() and "node" in json.loads(path.read_text(encoding="utf-8"))


def level_between(machine, ranks):
    """The level of links that joins the first and the last of these ranks; None where the machine is too small."""
    return next((i for i, level in enumerate(machine["levels"]) if not level["ranks"] or ranks <= level["ranks"]), None)


def group_of(machine, ranks):
    """(in a node, α of a hop inside, α between nodes, β of rings over all ports) of a library's rings."""
    levels, at = machine["levels"], level_between(machine, ranks)
    alpha = [sum(level["latency_seconds"] for level in levels[: i + 1]) for i in range(len(levels))]
    beta = [max(1 / level["bytes_per_second"] for level in levels[: i + 1]) for i in range(len(levels))]
    if at == 0:
        return ranks, alpha[0], alpha[0], beta[0]
    node, link = levels[at - 1]["ranks"], levels[at]
    in_node = max(1, min(node, ranks))
    ports = 1 if link["shared"] else in_node
    return in_node, alpha[0], alpha[at], max(beta[at - 1], 1 / (ports * link["bytes_per_second"]))


def curve(points, size):
    """Seconds at this size, linear in the logarithms; below the first point constant, beyond the last proportional."""
    if size <= points[0]["bytes"]:
        return points[0]["seconds"]
    if size >= points[-1]["bytes"]:
        return points[-1]["seconds"] * size / points[-1]["bytes"]
    a, b = next((a, b) for a, b in zip(points, points[1:]) if a["bytes"] <= size < b["bytes"])
    share = math.log(size / a["bytes"]) / math.log(b["bytes"] / a["bytes"])
    return a["seconds"] * (b["seconds"] / a["seconds"]) ** share


def all_reduce_seconds(machine, p, size):
    in_node, inside, outside, beta = group_of(machine, p)
    nodes, known = p / in_node, machine.get("library", {})
    if nodes == 1 and known.get("all_reduce"):
        q = known["all_reduce_ranks"]
        return curve(known["all_reduce"], size) * (p - 1) / p * q / (q - 1)
    hop = ((p - nodes) * inside + nodes * outside) / p
    depth = math.ceil(math.log2(nodes)) * outside + (in_node - 1) * inside
    tree = 2 * depth + 2 * size * beta
    if nodes == 2:  # each node sends both halves once
        in_a_node = all_reduce_seconds(machine, in_node, size) if in_node > 1 else 0
        tree = max(tree - size * beta, in_a_node, 2 * size / known.get("tree_bytes_per_second", math.inf))
    return min(2 * (p - 1) * hop + 2 * (p - 1) / p * size * beta, tree)


def gather_seconds(machine, p, size):
    in_node, inside, outside, beta = group_of(machine, p)
    nodes, ring = p / in_node, (p - 1) / p * size * beta
    if nodes > 1:
        return (p - 1) * ((p - nodes) * inside + nodes * outside) / p + ring
    return max(all_reduce_seconds(machine, p, size) / 2, ring)


def of_collective(machine, collective, p):
    """(seconds of so many bytes, what that is) on p ranks; (None, why not) where there is no price."""
    price = {"all_reduce": all_reduce_seconds, "all_gather": gather_seconds, "reduce_scatter": gather_seconds}.get(
        collective
    )
    if price is None:
        return None, f"there is no price of {collective}"
    if p == 1:
        return None, "one rank sends nothing"
    if level_between(machine, p) is None:
        return None, f"it holds {machine['levels'][-1]['ranks']} ranks, and here are {p}"
    measured = machine.get("library", {}).get("all_reduce") and group_of(machine, p)[0] == p
    return lambda size: price(machine, p, size), (
        "what NCCL reaches on one of its nodes, as others measured it"
        if measured
        else "rings and trees over all ports, from the latencies and bandwidths of its links"
    )
