# Arithmetic in a loop.
total = 0
for i in range(6_000_000):
    total += i * i
print(total, sum(i * i for i in range(4_000_000)))
