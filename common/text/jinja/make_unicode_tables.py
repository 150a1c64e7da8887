#!/usr/bin/env python3
"""Writes unicode_tables.inc: what Python's str knows of each code point, as ranges.

    python3 make_unicode_tables.py > unicode_tables.inc

Each property is asked of Python itself, by calling the str method that uses it.
"""
import sys
import unicodedata

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]


def ranges(has):
    """[first, last] for each run of code points with the property."""
    found = []
    for c in CODE_POINTS:
        if has(chr(c)):
            if found and found[-1][1] == c - 1:
                found[-1][1] = c
            else:
                found.append([c, c])
    return found


def is_cased(c):
    return (c + "a").title().endswith("a")


def is_case_ignorable(c):
    # A capital sigma becomes the final form after a cased letter, and what is ignorable in between is skipped.
    return ("A" + c + "\u03a3").lower()[-1] == "\u03c2" and (c + "\u03a3").lower()[-1] == "\u03c3"


def mappings(convert, otherwise):
    """(ranges of [first, last, stride, delta], {code point: string of several}) where `convert` is not what
    `otherwise` says."""
    simple, special = [], {}
    for c in CODE_POINTS:
        mapped = convert(chr(c))
        if mapped == otherwise(chr(c)):
            continue
        if len(mapped) > 1:
            special[c] = mapped
            continue
        delta = ord(mapped) - c
        last = simple[-1] if simple else None
        if last and last[3] == delta and last[0] == last[1] and c - last[1] in (1, 2):
            last[1], last[2] = c, c - last[0]
        elif last and last[3] == delta and c - last[1] == last[2]:
            last[1] = c
        else:
            simple.append([c, c, 1, delta])
    return simple, special


def emit(name, kind, entries):
    print(f"constexpr {kind} {name}[] = {{")
    line = "   "
    for entry in entries:
        if len(line) + len(entry) + 2 > 108:
            print(line)
            line = "   "
        line += " " + entry + ","
    print(line)
    print("};")


def emit_ranges(name, has):
    emit(name, "Range", [f"{{{a:#x}, {b:#x}}}" for a, b in ranges(has)])


def emit_mapping(name, convert, otherwise=lambda c: c):
    simple, special = mappings(convert, otherwise)
    emit(name, "CaseRange", [f"{{{a:#x}, {b:#x}, {s}, {d}}}" for a, b, s, d in simple])
    emit(name + "Special", "SpecialCase",
         [f'{{{c:#x}, "{"".join(f"{chr(92)}x{b:02x}" for b in text.encode())}"}}' for c, text in special.items()])


def main():
    print("// Made by make_unicode_tables.py; Unicode " + unicodedata.unidata_version + ".")
    print("// clang-format off")
    emit_ranges("kSpace", str.isspace)
    emit_ranges("kUnprintable", lambda c: not c.isprintable())
    emit_ranges("kCased", is_cased)
    emit_ranges("kCaseIgnorable", is_case_ignorable)
    emit_mapping("kUpper", str.upper)
    emit_mapping("kLower", lambda c: c.lower() if c != "\u03a3" else "\u03c3")
    emit_mapping("kTitle", str.title, otherwise=str.upper)
    print("// clang-format on")


if __name__ == "__main__":
    sys.exit(main())
