# Dictionaries, strings, formatting, classes, sorting.
import json, re


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def norm(self):
        return self.x * self.x + self.y * self.y


words = {}
for i in range(250_000):
    key = f"key-{i % 5000:05d}"
    words[key] = words.get(key, 0) + len(key) * i
points = [Point(i % 97, i % 89) for i in range(200_000)]
points.sort(key=Point.norm)
text = json.dumps(words)
found = re.findall(r'"key-(\d+)": (\d+)', text)
print(len(text), len(found), points[1000].norm(), ",".join(sorted(words))[:20])
