def title(name):
    if name.startswith("Dr "):
        return name
    if name.endswith("Esq"):
        return "Sir " + name


def address(names):
    for place in range(len(names)):
        names[place] = title(names[place])


def invitation(names):
    return "Dear " + ", ".join(names) + "!"


guests = ["Dr Watson", "Holmes Esq", "Irene Adler", "Dr Moriarty"]
address(guests)
print(invitation(guests))
