"""SplitMix64 and FNV-1a, as in common/random.h, so that tests in C++ can draw the same values."""

MASK = (1 << 64) - 1


def fnv1a(data, state=0xCBF29CE484222325):
    for byte in data:
        state = ((state ^ byte) * 0x100000001B3) & MASK
    return state


class Random:
    def __init__(self, *seeds):
        self.state = 0x9E3779B97F4A7C15
        for seed in seeds:
            self.state = self.next() ^ seed
        self.state = self.next()

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    def below(self, n):
        limit = (1 << 64) % n
        while True:
            x = self.next()
            if x >= limit:
                return x % n

    def between(self, low, high):
        return low + self.below(high - low + 1)

    def uniform(self):
        return (self.next() >> 11) * 2.0**-53
