"""Small robots as text, for tests of adoption."""

__all__ = ["HEADER", "joint", "link", "planar", "spatial"]

HEADER = '<robot name="anything">'


def link(name, mass=1.0, length=0.3):
    """A rod along x of this length [m], as a body can have it; without a mass: a frame."""
    if not mass:
        return f'<link name="{name}"/>'
    thin, across = 1e-3 * mass, mass * length**2 / 12
    return (
        f'<link name="{name}"><inertial><origin xyz="{length / 2} 0 0"/><mass value="{mass}"/>'
        f'<inertia ixx="{thin}" iyy="{across}" izz="{across}" ixy="0" ixz="0" iyz="0"/></inertial></link>'
    )


def joint(
    name, parent, child, x=0.0, axis="0 1 0", kind="revolute", effort=60.0, velocity=2.0, z=0.0, range=(-2.5, 2.5)
):
    """A joint at (x, 0, z) [m] of its parent."""
    limit = f'<limit lower="{range[0]}" upper="{range[1]}" effort="{effort}" velocity="{velocity}"/>'
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="{x} 0 {z}"/><axis xyz="{axis}"/>{"" if kind == "fixed" else limit}</joint>'
    )


def planar(**changes):
    """Two rods in the plane x-z, of 0.3 m and 1 kg each, 0.5 m above the ground."""
    return (
        HEADER
        + link("base", 0.0)
        + link("upper")
        + link("fore")
        + joint("shoulder", "base", "upper", z=0.5, **changes)
        + joint("elbow", "upper", "fore", x=0.3, **changes)
        + "</robot>"
    )


def spatial(end=""):
    """Six joints, a massless flange, and whatever is said at the end (links and joints behind `flange`)."""
    axes = ("0 0 1", "0 1 0", "0 1 0", "1 0 0", "0 1 0", "1 0 0")
    lengths = (0.0, 0.0, 0.4, 0.35, 0.05, 0.1)
    masses = (4.0, 4.0, 3.0, 1.5, 1.0, 0.5)
    text = HEADER + link("base", 0.0)
    before = "base"
    for k, (axis, x, mass) in enumerate(zip(axes, lengths, masses), 1):
        text += link(f"link{k}", mass, 0.35 if k in (2, 3) else 0.1)
        text += joint(f"joint{k}", before, f"link{k}", x=x, z=0.3 if k == 1 else 0.0, axis=axis)
        before = f"link{k}"
    return text + link("flange", 0.0) + joint("fixed", before, "flange", x=0.12, kind="fixed") + end + "</robot>"
