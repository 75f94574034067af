"""The form of sets of positions in golden files."""


def runs(positions):
    """Runs of consecutive positions as [first, length], in ascending order."""
    out = []
    for p in sorted(int(p) for p in positions):
        if out and out[-1][0] + out[-1][1] == p:
            out[-1][1] += 1
        else:
            out.append([p, 1])
    return out
