"""Volumes of intersections as PyTorch functions, with first and second derivatives by every vertex.

    from contactd.torch import intersection_volume
    V = intersection_volume(va, fa, vb, fb)     # () m^3; (B,) for va (B, n, 3)
    V.sum().backward()                          # dV/dx, exact, by the engine

All is computed in this process by an engine of its own, on the processor, unless `client` names another: contactd.connect(...) or
contactd.Engine(...). Tensors in the memory of the processor are read where they lie; those on a GPU are copied there and the results
back, which waits for the GPU. A tensor is float64 or float32, and so are its gradients; float32 positions are taken as they are.

First derivatives come with the value. Second ones (create_graph=True, gradgradcheck, torch.func.hessian) are products with the
exact second derivative, a step of the engine each, or one for 12 products of one state, as torch.vmap makes them. Third ones are an
error. torch.func.grad, jvp, vmap, jacrev, jacfwd and hessian work, in any order, and torch.autograd.functional.hvp. So do
torch.utils.checkpoint, threads and the processes of a DataLoader: after a fork the engine is opened anew. torch.compile leaves these
functions as they are, and compiles what is around them.

Faces are (m, 3) integers, counter-clockwise seen from outside, of a closed surface; where they are not, InvalidMeshError tells
what is wrong and what mends it. They are sent once; the next call with the same ones finds the scenes of those before.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable, Sequence, TypeVar, cast

import numpy as np

from ._optional import check_version, need
from ._volumes import Quantity, faces_of, name_of, quantity_of
from .client import Client
from .errors import ErrorCode, error_for

torch: Any = need("torch", "contactd.torch")
check_version(torch, "contactd.torch", (2, 1), (3, 0))
Tensor = Any
Function = TypeVar("Function", bound=Callable[..., Any])

__all__ = ["Pair", "Scene", "intersection_volume", "penetration_depth", "penetration_energy", "self_intersection_volume", "transform"]


def _untraced(function: Function) -> Function:
    """Which torch.compile does not look into: its graph ends before, and another begins behind. Also in transforms and
    backward passes that are compiled themselves."""
    made: list[Any] = []

    @functools.wraps(function)
    def call(*args: Any, **more: Any) -> Any:
        if "torch._dynamo" not in sys.modules:  # nothing is compiled, and to import it takes a second
            return function(*args, **more)
        if not made:
            made.append(torch.compiler.disable(function))
        return made[0](*args, **more)

    return cast(Function, call)


# ---- between tensors and arrays ----

def _array(tensor: Tensor) -> np.ndarray:
    array: np.ndarray = tensor.detach().cpu().resolve_neg().numpy()
    return array


def _tensor(array: np.ndarray, like: Tensor) -> Tensor:
    return torch.from_numpy(array).to(device=like.device, dtype=like.dtype)


def _faces(given: Any, field: str) -> np.ndarray:
    return faces_of(_array(given) if isinstance(given, torch.Tensor) else given, field)


def _check_dtype(tensor: Any, field: str) -> None:
    if not isinstance(tensor, torch.Tensor):
        found = f"{type(tensor).__name__}: use torch.as_tensor(..., dtype=torch.float64)"
    elif tensor.dtype not in (torch.float32, torch.float64):
        found = f"{tensor.dtype}: use .to(torch.float64)"
    else:
        return
    raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected a tensor of float32 or float64, got {found}", field=field)


def _check(tensor: Any, field: str) -> Tensor:
    _check_dtype(tensor, field)
    if tensor.ndim not in (2, 3) or tensor.shape[-1] != 3:
        raise error_for(ErrorCode.WRONG_LENGTH, f"expected shape (n, 3) or (B, n, 3), got {tuple(tensor.shape)}", field=field)
    return tensor


# ---- functions of torch: of states (B or 1, n, 3), one of them B ----

class _Value(torch.autograd.Function):  # type: ignore[misc,name-defined,unused-ignore]
    """(B,), and the gradients by each state, (B, n, 3), which come with it."""

    @staticmethod
    @_untraced
    def forward(quantity: Quantity, with_gradient: bool, *states: Tensor) -> tuple[Tensor, ...]:
        values, gradients = quantity.evaluate([_array(x) for x in states], with_gradient)
        like = max(states, key=lambda x: x.dtype.itemsize)
        return (_tensor(values, like), *(_tensor(g, x) for g, x in zip(gradients, states)))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.quantity, _, *states = inputs
        value, *gradients = output
        ctx.count = len(states)
        ctx.mark_non_differentiable(*gradients)
        ctx.save_for_backward(*states, *gradients)
        ctx.save_for_forward(*states, *gradients)

    @staticmethod
    def _gradients(quantity: Quantity, states: Sequence[Tensor], known: Sequence[Tensor]) -> tuple[Tensor, ...]:
        if not known:  # a tangent does not show that gradients are wanted
            known = _Value.apply(quantity, True, *states)[1:]
        gradients: tuple[Tensor, ...] = _Gradient.apply(quantity, *states, *known)
        return gradients

    @staticmethod
    def backward(ctx: Any, by_value: Tensor, *_: Tensor) -> tuple[Any, ...]:
        saved = ctx.saved_tensors  # once: a checkpoint gives them no second time
        states = saved[:ctx.count]
        gradients = _Value._gradients(ctx.quantity, states, saved[ctx.count:])
        return (None, None, *(_summed(by_value.to(g.dtype)[:, None, None] * g, x) for g, x in zip(gradients, states)))

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> tuple[Any, ...]:
        with _outer_tangents():
            saved = _primals(ctx.saved_tensors)
            gradients = _Value._gradients(ctx.quantity, saved[:ctx.count], saved[ctx.count:])
            parts = [(g * d).sum((-1, -2)) for g, d in zip(gradients, tangents[2:]) if d is not None]
            return (sum(parts), *(None for _ in saved[ctx.count:]))

    @staticmethod
    def vmap(info: Any, in_dims: Any, quantity: Quantity, with_gradient: bool, *states: Tensor) -> Any:
        n, merged = info.batch_size, _merged(info.batch_size, states, in_dims[2:])
        return _parted(n, _Value.apply(quantity, with_gradient, *merged), states, in_dims[2:])


class _Gradient(torch.autograd.Function):  # type: ignore[misc,name-defined,unused-ignore]
    """The gradients, which are known, as functions of the states."""

    @staticmethod
    def forward(quantity: Quantity, *states_and_known: Tensor) -> tuple[Tensor, ...]:
        return tuple(g.clone() for g in states_and_known[len(states_and_known) // 2:])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.quantity, *both = inputs
        ctx.count = len(both) // 2
        ctx.save_for_backward(*both[:ctx.count])
        ctx.save_for_forward(*both[:ctx.count])

    @staticmethod
    def _product(quantity: Quantity, states: Sequence[Tensor], displacements: Sequence[Tensor | None]) -> tuple[Tensor, ...]:
        moves = [torch.zeros_like(x) if d is None else d for d, x in zip(displacements, states)]
        products: tuple[Tensor, ...] = _Product.apply(quantity, *map(_Last.apply, states), *moves)
        return products

    @staticmethod
    def backward(ctx: Any, *by_gradients: Tensor | None) -> tuple[Any, ...]:
        states = ctx.saved_tensors
        products = _Gradient._product(ctx.quantity, states, by_gradients)
        return (None, *(_summed(p, x) for p, x in zip(products, states)), *(None for _ in products))

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> tuple[Any, ...]:
        with _outer_tangents():
            return _Gradient._product(ctx.quantity, _primals(ctx.saved_tensors), tangents[1:1 + ctx.count])

    @staticmethod
    def vmap(info: Any, in_dims: Any, quantity: Quantity, *both: Tensor) -> Any:
        n = info.batch_size
        half, dims = len(both) // 2, in_dims[1:]
        states, known = _merged(n, both[:half], dims[:half]), _merged(n, both[half:], dims[half:], every=True)
        return _parted(n, _Gradient.apply(quantity, *states, *known), both, dims)


class _Product(torch.autograd.Function):  # type: ignore[misc,name-defined,unused-ignore]
    """The second derivative at states (B or 1, n, 3) times displacements (D or 1, n, 3): (D, n, 3) each. It is symmetric: as a function
    of displacements it is its own transpose. Of states it has no derivative: they come through _Last."""

    @staticmethod
    @_untraced
    def forward(quantity: Quantity, *both: Tensor) -> tuple[Tensor, ...]:
        states, moves = both[:len(both) // 2], both[len(both) // 2:]
        products = quantity.product([_array(x) for x in states], [_array(d) for d in moves])
        return tuple(_tensor(p, x) for p, x in zip(products, states))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.quantity, *both = inputs
        ctx.sizes = [move.shape[0] for move in both[len(both) // 2:]]
        ctx.save_for_backward(*both[:len(both) // 2])
        ctx.save_for_forward(*both[:len(both) // 2])

    @staticmethod
    def backward(ctx: Any, *by_products: Tensor) -> Any:
        states = ctx.saved_tensors
        products = _Product.apply(ctx.quantity, *states, *by_products)
        return (None, *(None for _ in states), *(p.sum(0, keepdim=True) if size == 1 else p for p, size in zip(products, ctx.sizes)))

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        with _outer_tangents():
            states = _primals(ctx.saved_tensors)
            moves = [torch.zeros_like(x) if d is None else d for d, x in zip(tangents[1 + len(states):], states)]
            return _Product.apply(ctx.quantity, *states, *moves)

    @staticmethod
    def vmap(info: Any, in_dims: Any, quantity: Quantity, *both: Tensor) -> Any:
        n, half, dims = info.batch_size, len(both) // 2, in_dims[1:]
        if all(d is None for d in dims[:half]) and all(x.shape[0] == 1 for x in both[:half]):
            states = list(both[:half])  # one state, of which 12 products are a step
        else:
            states = _merged(n, both[:half], dims[:half], every=True, sizes=both)
        moves = _merged(n, both[half:], dims[half:], every=True, sizes=both)
        return _parted(n, _Product.apply(quantity, *states, *moves), both, dims)


class _Last(torch.autograd.Function):  # type: ignore[misc,name-defined,unused-ignore]
    """A state as it is, which nothing is derived by any more."""

    generate_vmap_rule = True

    @staticmethod
    def forward(state: Tensor) -> Tensor:
        return state.view_as(state)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise error_for(ErrorCode.UNSUPPORTED, "there are first and second derivatives, and no third ones", object="contactd.torch")

    jvp = backward


def _outer_tangents() -> Any:
    """Within a jvp, that tangents of transforms around it are followed: torch switches that off, and a jvp of a jvp would be 0."""
    return torch.autograd.forward_ad._set_fwd_grad_enabled(True)


def _primals(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Without the tangents of this jvp."""
    return [torch.autograd.forward_ad.unpack_dual(tensor).primal for tensor in tensors]


def _summed(by_state: Tensor, state: Tensor) -> Tensor:
    """Of a state that stands for all of a batch, the sum over it."""
    return by_state.sum(0, keepdim=True) if state.shape[0] == 1 and by_state.shape[0] > 1 else by_state


def _merged(n: int, tensors: Sequence[Tensor], dims: Sequence[int | None], every: bool = False,
            sizes: Sequence[Tensor] | None = None) -> list[Tensor]:
    """A dimension of n that vmap added, merged with the batch's own. every: also of those that do not have it."""
    moved = [t[None] if dim is None else t.movedim(dim, 0) for t, dim in zip(tensors, dims)]
    inner = max(t.shape[1] for t in moved)
    if sizes is not None:
        inner = max(inner, *(t.shape[-3] for t in sizes))
    out = []
    for t, dim in zip(moved, dims):
        if dim is None and t.shape[1] == 1 and not every:
            out.append(t[0])
        else:
            out.append(t.expand(n, inner, *t.shape[2:]).reshape(n * inner, *t.shape[2:]))
    return out


def _parted(n: int, out: Sequence[Tensor], tensors: Sequence[Tensor], dims: Sequence[int | None]) -> Any:
    """The other way round, of results: what a vmap rule returns. n may be 0."""
    inner = max(t.shape[0] if dim is None else t.movedim(dim, 0).shape[1] for t, dim in zip(tensors, dims))
    return tuple(o.reshape(n, inner, *o.shape[1:]) for o in out), (0,) * len(out)


def _apply(quantity: Quantity, tensors: Sequence[Tensor]) -> Tensor:
    states = [t if t.ndim == 3 else t[None] for t in tensors]
    with_gradient = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    value = _Value.apply(quantity, with_gradient, *states)[0]
    return value if any(t.ndim == 3 for t in tensors) else value[0]


@_untraced
def _function(kind: Any, surfaces: Sequence[tuple[Any, Any]], stiffness: float, client: Client | None) -> Tensor:
    vertices = [_check(v, f"v{name_of(k)}") for k, (v, _) in enumerate(surfaces)]
    faces = [_faces(f, f"f{name_of(k)}") for k, (_, f) in enumerate(surfaces)]
    return _apply(quantity_of(faces, [v.shape[-2] for v in vertices], kind, stiffness, client), vertices)


# ---- what users call ----

def intersection_volume(va: Tensor, fa: Any, vb: Tensor, fb: Any, *, client: Client | None = None) -> Tensor:
    """The volume that two closed surfaces share, m^3.

    Args:
        va, vb: (n, 3) or (B, n, 3) m, world positions, float64 or float32. One of them may have no batch: it meets all of the other's.
        fa, fb: (m, 3) integers, tensors or arrays.
        client: where it is computed; None: an engine in this process.
    Returns: (), or (B,); 0, with a gradient of 0, where they do not overlap. Twice differentiable: the first derivative is
        continuous, the second one jumps where vertices pass through faces.
    Raises: InvalidMeshError, WrongLengthError, NonFiniteError, InvalidArgumentError: see contactd.errors.
    """
    return _function("volume", [(va, fa), (vb, fb)], 1.0, client)


def self_intersection_volume(v: Tensor, f: Any, *, client: Client | None = None) -> Tensor:
    """The volume in which a closed surface overlaps itself, m^3, where its winding number is 2 or more (Faure 2008). v: (n, 3) or
    (B, n, 3) m; f: (m, 3). Returns (), or (B,); twice differentiable. client, errors: as of intersection_volume."""
    return _function("volume", [(v, f)], 1.0, client)


def penetration_energy(va: Tensor, fa: Any, vb: Tensor, fb: Any, *, stiffness: float = 1.0, client: Client | None = None) -> Tensor:
    """stiffness V^2 / 2, J, with V the volume that both share: the energy of the contact law "volume" (Faure 2008), whose negative gradient
    are that law's forces. The law "pressure" gives forces alone, no energy; what of it can be differentiated is the volume.

    stiffness: N/m^5. Others: as of intersection_volume. Returns (), or (B,); twice differentiable.
    """
    return _function("energy", [(va, fa), (vb, fb)], stiffness, client)


def penetration_depth(va: Tensor, fa: Any, vb: Tensor, fb: Any, *, client: Client | None = None) -> Tensor:
    """Mean depth, m: the volume that both share, divided by the contact's area |dV/dt|, t a translation of one of them. 0 where they do
    not overlap, and where one is wholly inside the other. Arguments as of intersection_volume. Returns (), or (B,); twice
    differentiable: the gradient, made of the volume's second derivative, jumps where that does. A value with a gradient is two
    steps; a product with the second derivative three, of which two give the volume's third as a difference, to 1e-5 of the whole."""
    return _function("depth", [(va, fa), (vb, fb)], 1.0, client)


def transform(v: Tensor, pose: Tensor) -> Tensor:
    """R v + t: (n, 3) at a pose, (3, 4) or (4, 4), is (n, 3); at (B, 3, 4) or (B, 4, 4) it is (B, n, 3)."""
    columns = (v[..., k, None] * pose[..., None, :3, k] for k in range(3))  # no product of matrices: autocast and TF32 would round those
    return sum(columns, start=pose[..., None, :3, 3])


class Pair(torch.nn.Module):  # type: ignore[misc,name-defined,unused-ignore]
    """Two surfaces that meet again and again, one of them at rest if you like, which is faster.

        pair = Pair(hand_v, hand_f, None, object_f)     # the hand rests
        pair(None, x).backward()                        # as pair(vb=x)

    Args:
        va, vb: (n, 3) m, positions of a surface that rests; None: it moves, and is an argument of each call.
        fa, fb: (m, 3) integers.
        quantity: "volume", m^3; "energy", J; "depth", m: see intersection_volume, penetration_energy, penetration_depth.
        stiffness: N/m^5, of "energy".
        client: where it is computed; None: an engine in this process. With a client of its own a Pair cannot go to another process.
    """

    def __init__(self, va: Tensor | None, fa: Any, vb: Tensor | None, fb: Any, *, quantity: Any = "volume", stiffness: float = 1.0,
                 client: Client | None = None) -> None:
        super().__init__()
        rest = [None if v is None else _array(torch.as_tensor(v)) for v in (va, vb)]
        self.quantity = Quantity.of_pair(rest, (_faces(fa, "fa"), _faces(fb, "fb")), quantity, stiffness, client)

    @_untraced
    def forward(self, va: Tensor | None = None, vb: Tensor | None = None) -> Tensor:
        """(), or (B,), of positions (n, 3) or (B, n, 3) m of each surface that moves."""
        self.quantity.check_moving((va, vb))
        return _apply(self.quantity, [_check((va, vb)[k], f"v{name_of(k)}") for k in self.quantity.moving])


class Scene(torch.nn.Module):  # type: ignore[misc,name-defined,unused-ignore]
    """Rigid surfaces at poses: what all pairs of them share.

        packing = Scene([(v, f)] * 10)
        packing(poses).backward()                       # poses (10, 4, 4), or (B, 10, 4, 4)

    Args:
        surfaces: (v, f) of each: (n, 3) m, in its own frame, and (m, 3) integers.
        quantity: "volume": the sum over pairs, m^3; "energy": the sum over pairs of stiffness V^2 / 2, J.
        fixed: places of surfaces that rest where v has them, such as a container; `poses` has the others.
        stiffness, client: as of Pair.
    """

    def __init__(self, surfaces: Sequence[tuple[Any, Any]], *, quantity: Any = "volume", fixed: Sequence[int] = (),
                 stiffness: float = 1.0, client: Client | None = None) -> None:
        super().__init__()
        rest = [torch.as_tensor(v) for v, _ in surfaces]
        faces = [_faces(f, f"f{name_of(k)}") for k, (_, f) in enumerate(surfaces)]
        self.quantity = Quantity.of_many([_array(v) for v in rest], faces, quantity, fixed, stiffness, client)
        for k in self.quantity.moving:
            self.register_buffer(f"v{k}", rest[k].detach(), persistent=False)

    @_untraced
    def forward(self, poses: Tensor) -> Tensor:
        """(), or (B,), of poses (k, 3, 4) or (k, 4, 4), or (B, k, ...), of the k surfaces that move. Its derivatives are those
        by all 12 numbers of a pose; where R comes of other parameters, torch goes on from there."""
        _check_dtype(poses, "poses")
        self.quantity.check_poses(poses.shape)
        placed = [transform(getattr(self, f"v{k}").to(poses.dtype), poses[..., at, :, :]) for at, k in enumerate(self.quantity.moving)]
        return _apply(self.quantity, [_check(v, "poses") for v in placed])
