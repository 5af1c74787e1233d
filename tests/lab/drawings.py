"""Figures of a lab's bench as SVG: what was measured over lab time, with its checkpoints as dashed lines."""
import os
import struct

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 900, 340, 80, 50, 20, 50


def ticks(low, high):
    """Round numbers between two, about five."""
    span = max(high - low, 1e-9)
    power = 10.0 ** len(str(int(span))) / 100 if span >= 1 else 1e-4
    step = next(power * factor for factor in (.1, .2, .5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
                if span / (power * factor) <= 6)
    first = int(low / step) * step
    return [first + step * number for number in range(8) if low <= first + step * number <= high]


def draw(path, title, unit, lines, marks, note):
    """`lines`: points (seconds, value) by name; `marks`: times of checkpoints; `note`: what the paper has."""
    points = [point for line in lines.values() for point in line]
    if not points:
        raise RuntimeError(f'nothing to draw in {path}')
    end = max(x for x, _ in points) or 1
    low, high = min(0, min(y for _, y in points)), max(y for _, y in points) * 1.05 or 1
    across = lambda x: LEFT + (WIDTH - LEFT - RIGHT) * x / end
    up = lambda y: HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (y - low) / (high - low)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/><text x="{LEFT}" y="20" font-size="15">{title}</text>',
             f'<text x="{LEFT}" y="38" fill="#555">{note}</text>']
    for y in ticks(low, high):
        parts.append(f'<path d="M{LEFT} {up(y):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
                     f'<text x="{LEFT - 6}" y="{up(y) + 4:.1f}" text-anchor="end">{y:g}</text>')
    for x in ticks(0, end):
        parts.append(f'<text x="{across(x):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{x:g}</text>')
    parts.append(f'<text x="{WIDTH // 2}" y="{HEIGHT - 12}" text-anchor="middle">seconds of the lab</text>'
                 f'<text x="16" y="{HEIGHT // 2}" transform="rotate(-90 16 {HEIGHT // 2})" text-anchor="middle">{unit}</text>')
    parts += [f'<path d="M{across(mark):.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#b33" stroke-dasharray="4 3"/>' for mark in marks]
    for number, (name, line) in enumerate(lines.items()):
        colour = ('#1f5fa8', '#2a8a3e', '#a86a1f')[number % 3]
        path_of = ' '.join(f'{across(x):.1f},{up(y):.1f}' for x, y in line)
        parts.append(f'<polyline points="{path_of}" fill="none" stroke="{colour}"/>')
        parts.append(f'<text x="{WIDTH - RIGHT}" y="{TOP + 14 * number - 4}" text-anchor="end" fill="{colour}">{name}</text>')
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w') as file:
        file.write('\n'.join(parts) + '\n</svg>\n')


def sent_bytes(path, of_host, every):
    """Bytes that a host sent in each so many seconds, by its capture: points in Mbit/s."""
    with open(path, 'rb') as file:
        data = file.read()
    at, slots = 0, {}
    while at + 12 <= len(data):
        kind, length = struct.unpack_from('<II', data, at)
        if kind == 6:
            high, low, bytes_ = struct.unpack_from('<III', data, at + 12)
            if int.from_bytes(data[at + 38:at + 40], 'big') == of_host:
                slot = int(((high << 32) + low) / 1e9 / every)
                slots[slot] = slots.get(slot, 0) + bytes_
        at += length
    return [(slot * every, slots.get(slot, 0) * 8 / every / 1e6) for slot in range(max(slots, default=-1) + 1)]
