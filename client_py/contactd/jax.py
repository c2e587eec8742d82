"""Volumes of intersections as JAX functions, with first and second derivatives by every vertex.

    from contactd.jax import intersection_volume
    V = intersection_volume(va, fa, vb, fb)                 # () m^3; (B,) for va (B, n, 3)
    g = jax.grad(intersection_volume)(va, fa, vb, fb)       # exact, by the engine

jit, grad, vmap, jvp, vjp, hessian, jacfwd and jacrev work, in any order. What vmap adds is a batch of one call. The engine is called back
on the processor (jax.pure_callback), in this process unless `client` names another: contactd.connect(...) or contactd.Engine(...). Arrays
on a GPU are copied there and back. Results have the dtype of the positions: float32, unless jax_enable_x64 is set, with which
second derivatives and differences mean more.

Faces are (m, 3) integers, numpy arrays, counter-clockwise seen from outside, of a closed surface: they are no arguments of JAX, so
that jit does not trace them. Derivatives: as of contactd.torch; third ones are an error.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Callable, Sequence

import numpy as np

from ._optional import check_version, need
from ._volumes import Quantity, faces_of, name_of, quantity_of
from .client import Client
from .errors import ErrorCode, error_for

jax: Any = need("jax", "contactd.jax")
jnp: Any = need("jax.numpy", "contactd.jax")
_extend: Any = need("jax.extend.core", "contactd.jax")
_ad: Any = need("jax.interpreters.ad", "contactd.jax")
_batching: Any = need("jax.interpreters.batching", "contactd.jax")
_mlir: Any = need("jax.interpreters.mlir", "contactd.jax")
check_version(jax, "contactd.jax", (0, 5), (0, 13))
Array = Any

__all__ = ["Pair", "Scene", "intersection_volume", "penetration_depth", "penetration_energy", "self_intersection_volume", "transform"]


# ---- what the callbacks do: positions (..., n, 3), of which leading sizes of 1 stand for all of a batch ----

def _lead(arrays: Sequence[Any]) -> tuple[int, ...]:
    return np.broadcast_shapes(*(a.shape[:-2] for a in arrays))


def _flat(array: np.ndarray, lead: tuple[int, ...]) -> np.ndarray:
    """(B or 1, n, 3)."""
    if all(size == 1 for size in array.shape[:-2]):
        return array.reshape(1, *array.shape[-2:])
    return np.broadcast_to(array, (*lead, *array.shape[-2:])).reshape(-1, *array.shape[-2:])


def _evaluate(quantity: Quantity, with_gradient: bool, *states: Any) -> tuple[np.ndarray, ...]:
    arrays = [np.asarray(x) for x in states]
    lead = _lead(arrays)
    values, gradients = quantity.evaluate([_flat(a, lead) for a in arrays], with_gradient)
    return (values.reshape(lead).astype(arrays[0].dtype), *(g.reshape(*lead, *g.shape[1:]).astype(arrays[0].dtype) for g in gradients))


def _multiply(quantity: Quantity, *both: Any) -> tuple[np.ndarray, ...]:
    arrays = [np.asarray(x) for x in both]
    lead, half = _lead(arrays), len(arrays) // 2
    products = quantity.product([_flat(a, lead) for a in arrays[:half]], [_flat(a, lead) for a in arrays[half:]])
    return tuple(p.reshape(*lead, *p.shape[1:]).astype(arrays[0].dtype) for p in products)


@dataclasses.dataclass(frozen=True)
class _Work:
    """A callback that is equal to that of an earlier call, so that JAX compiles it once: under vmap it does so outside of jit, too."""

    work: Callable[..., tuple[np.ndarray, ...]]
    arguments: tuple[Any, ...]

    def __call__(self, *arrays: Any) -> tuple[np.ndarray, ...]:
        return self.work(*self.arguments, *arrays)


def _called(work: _Work, shapes: Sequence[Any], arguments: Sequence[Array]) -> Any:
    if not any(isinstance(x, jax.core.Tracer) for x in arguments):  # JAX would compile the call, and keep that, surfaces and all
        place = arguments[0].sharding
        return tuple(jax.device_put(x, place if place.num_devices == 1 else None) for x in work(*arguments))
    return jax.pure_callback(work, tuple(shapes), *arguments, vmap_method="expand_dims")


# ---- the value, and the value with its gradients ----

@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _value(quantity: Quantity, *states: Array) -> Array:
    shape = jax.ShapeDtypeStruct(_lead(states), states[0].dtype)
    return _called(_Work(_evaluate, (quantity, False)), [shape], states)[0]


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _value_and_gradients(quantity: Quantity, *states: Array) -> tuple[Array, ...]:
    shapes = [jax.ShapeDtypeStruct(_lead(states), states[0].dtype), *(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in states)]
    out: tuple[Array, ...] = _called(_Work(_evaluate, (quantity, True)), shapes, states)
    return out


def _along(gradients: Sequence[Array], tangents: Sequence[Array]) -> Array:
    return sum((g * d).sum((-1, -2)) for g, d in zip(gradients, tangents))


def _value_jvp(quantity: Quantity, primals: Sequence[Array], tangents: Sequence[Array]) -> tuple[Array, Array]:
    value, *gradients = _value_and_gradients(quantity, *primals)
    return value, _along(gradients, tangents)


def _value_and_gradients_jvp(quantity: Quantity, primals: Sequence[Array], tangents: Sequence[Array]) -> tuple[Any, Any]:
    out = _value_and_gradients(quantity, *primals)
    return out, (_along(out[1:], tangents), *_product.bind(*primals, *tangents, quantity=quantity))


_value.defjvp(_value_jvp)
_value_and_gradients.defjvp(_value_and_gradients_jvp)


# ---- the product with the second derivative, which is symmetric: it is its own transpose ----

_product: Any = _extend.Primitive("contactd_product")
_product.multiple_results = True


def _product_called(*both: Array, quantity: Quantity) -> Any:
    shapes = [jax.ShapeDtypeStruct(d.shape, d.dtype) for d in both[len(both) // 2:]]
    return _called(_Work(_multiply, (quantity,)), shapes, both)


def _product_shapes(*both: Any, quantity: Quantity) -> Any:
    return list(both[len(both) // 2:])


def _product_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, quantity: Quantity) -> Any:
    half = len(primals) // 2
    if not all(type(t) is _ad.Zero for t in tangents[:half]):
        raise error_for(ErrorCode.UNSUPPORTED, "there are first and second derivatives, and no third ones", object="contactd.jax")
    moves = [_ad.instantiate_zeros(t) for t in tangents[half:]]
    return _product.bind(*primals, quantity=quantity), _product.bind(*primals[:half], *moves, quantity=quantity)


def _product_transpose(cotangents: Sequence[Any], *both: Any, quantity: Quantity) -> Any:
    half = len(both) // 2
    moves = [jnp.zeros(d.aval.shape, d.aval.dtype) if type(c) is _ad.Zero else c for c, d in zip(cotangents, both[half:])]
    return [None] * half + list(_product.bind(*both[:half], *moves, quantity=quantity))


def _product_batched(both: Sequence[Array], dims: Sequence[Any], *, quantity: Quantity) -> Any:
    half = len(both) // 2
    size = next(x.shape[d] for x, d in zip(both, dims) if d is not None)
    front = [x[None] if d is None else jnp.moveaxis(x, d, 0) for x, d in zip(both, dims)]
    moves = [jnp.broadcast_to(x, (size, *x.shape[1:])) for x in front[half:]]
    return _product.bind(*front[:half], *moves, quantity=quantity), [0] * half


_product.def_impl(_product_called)
_product.def_abstract_eval(_product_shapes)
_ad.primitive_jvps[_product] = _product_jvp
_ad.primitive_transposes[_product] = _product_transpose
_batching.primitive_batchers[_product] = _product_batched
_mlir.register_lowering(_product, _mlir.lower_fun(_product_called, multiple_results=True))


# ---- arguments ----

def _check(given: Any, field: str) -> Array:
    array = jnp.asarray(given)
    if array.dtype not in (jnp.float32, jnp.float64):
        raise error_for(ErrorCode.INVALID_ARGUMENT, f"expected float32 or float64, got {array.dtype}", field=field)
    if array.ndim not in (2, 3) or array.shape[-1] != 3:
        raise error_for(ErrorCode.WRONG_LENGTH, f"expected shape (n, 3) or (B, n, 3), got {tuple(array.shape)}", field=field)
    return array


def _faces(given: Any, field: str) -> np.ndarray:
    if isinstance(given, jax.core.Tracer):
        raise error_for(ErrorCode.INVALID_ARGUMENT, "faces are no arguments of JAX: leave them out of jit's and vmap's, as "
                        "jax.jit(lambda va, vb: intersection_volume(va, fa, vb, fb))", field=field)
    return faces_of(given, field)


def _apply(quantity: Quantity, states: Sequence[Array]) -> Array:
    dtype = jnp.result_type(*states)
    lead = np.broadcast_shapes(*(x.shape[:-2] for x in states)) if len({x.shape[:-2] for x in states} - {(), (1,)}) <= 1 else None
    if lead is None:
        raise error_for(ErrorCode.WRONG_LENGTH, "expected batches of one size, or of 1, got "
                        + ", ".join(f"v{name_of(k)} {x.shape}" for k, x in zip(quantity.moving, states)), field="B")
    return _value(quantity, *(jnp.broadcast_to(x.astype(dtype), (*lead, *x.shape[-2:])) for x in states))


def _function(kind: Any, surfaces: Sequence[tuple[Any, Any]], stiffness: float, client: Client | None) -> Array:
    vertices = [_check(v, f"v{name_of(k)}") for k, (v, _) in enumerate(surfaces)]
    faces = [_faces(f, f"f{name_of(k)}") for k, (_, f) in enumerate(surfaces)]
    return _apply(quantity_of(faces, [v.shape[-2] for v in vertices], kind, stiffness, client), vertices)


# ---- what users call ----

def intersection_volume(va: Array, fa: Any, vb: Array, fb: Any, *, client: Client | None = None) -> Array:
    """The volume that two closed surfaces share, m^3.

    Args:
        va, vb: (n, 3) or (B, n, 3) m, world positions, float64 or float32. One of them may have no batch: it meets all of the other's.
        fa, fb: (m, 3) integers, not traced.
        client: where it is computed; None: an engine in this process.
    Returns: (), or (B,); 0, with a gradient of 0, where they do not overlap. Twice differentiable: the first derivative is
        continuous, the second one jumps where vertices pass through faces.
    Raises: InvalidMeshError, WrongLengthError, NonFiniteError, InvalidArgumentError; within a callback JAX wraps them in its own.
    """
    return _function("volume", [(va, fa), (vb, fb)], 1.0, client)


def self_intersection_volume(v: Array, f: Any, *, client: Client | None = None) -> Array:
    """The volume in which a closed surface overlaps itself, m^3, where its winding number is 2 or more (Faure 2008). v: (n, 3) or
    (B, n, 3) m; f: (m, 3). Returns (), or (B,); twice differentiable. client, errors: as of intersection_volume."""
    return _function("volume", [(v, f)], 1.0, client)


def penetration_energy(va: Array, fa: Any, vb: Array, fb: Any, *, stiffness: float = 1.0, client: Client | None = None) -> Array:
    """stiffness V^2 / 2, J, with V the volume that both share: the energy of the contact law "volume" (Faure 2008), whose negative gradient
    are that law's forces. The law "pressure" gives forces alone, no energy. stiffness: N/m^5. Others: as of intersection_volume.
    Returns (), or (B,); twice differentiable."""
    return _function("energy", [(va, fa), (vb, fb)], stiffness, client)


def penetration_depth(va: Array, fa: Any, vb: Array, fb: Any, *, client: Client | None = None) -> Array:
    """Mean depth, m: the volume that both share, divided by the contact's area |dV/dt|, t a translation of one of them. 0 where they do
    not overlap, and where one is wholly inside the other. Arguments as of intersection_volume. Returns (), or (B,); twice
    differentiable: the gradient, made of the volume's second derivative, jumps where that does. A value with a gradient is two
    steps; a product with the second derivative three, of which two give the volume's third as a difference, to 1e-5 of the whole."""
    return _function("depth", [(va, fa), (vb, fb)], 1.0, client)


def transform(v: Array, pose: Array) -> Array:
    """R v + t: (n, 3) at a pose, (3, 4) or (4, 4), is (n, 3); at (B, 3, 4) or (B, 4, 4) it is (B, n, 3)."""
    turned = jnp.matmul(v, jnp.swapaxes(pose[..., :3, :3], -1, -2), precision="highest")  # on a GPU the default is TF32
    return turned + pose[..., None, :3, 3]


class Pair:
    """Two surfaces that meet again and again, one of them at rest if you like, which is faster: pair = Pair(hand, hand_faces, None,
    object_faces); jax.grad(lambda x: pair(None, x))(x).

    Args:
        va, vb: (n, 3) m, positions of a surface that rests; None: it moves, and is an argument of each call.
        fa, fb: (m, 3) integers.
        quantity: "volume", m^3; "energy", J; "depth", m.
        stiffness: N/m^5, of "energy".
        client: where it is computed; None: an engine in this process.
    """

    def __init__(self, va: Any, fa: Any, vb: Any, fb: Any, *, quantity: Any = "volume", stiffness: float = 1.0,
                 client: Client | None = None) -> None:
        self.quantity = Quantity.of_pair((va, vb), (_faces(fa, "fa"), _faces(fb, "fb")), quantity, stiffness, client)

    def __call__(self, va: Array | None = None, vb: Array | None = None) -> Array:
        """(), or (B,), of positions (n, 3) or (B, n, 3) m of each surface that moves."""
        self.quantity.check_moving((va, vb))
        return _apply(self.quantity, [_check((va, vb)[k], f"v{name_of(k)}") for k in self.quantity.moving])


class Scene:
    """Rigid surfaces at poses: what all pairs of them share. packing = Scene([(v, f)] * 10); jax.grad(packing)(poses).

    Args:
        surfaces: (v, f) of each: (n, 3) m, in its own frame, and (m, 3) integers.
        quantity: "volume": the sum over pairs, m^3; "energy": the sum over pairs of stiffness V^2 / 2, J.
        fixed: places of surfaces that rest where v has them, such as a container; `poses` has the others.
        stiffness, client: as of Pair.
    """

    def __init__(self, surfaces: Sequence[tuple[Any, Any]], *, quantity: Any = "volume", fixed: Sequence[int] = (),
                 stiffness: float = 1.0, client: Client | None = None) -> None:
        rest = [np.asarray(v, float) for v, _ in surfaces]
        faces = [_faces(f, f"f{name_of(k)}") for k, (_, f) in enumerate(surfaces)]
        self.quantity = Quantity.of_many(rest, faces, quantity, fixed, stiffness, client)
        self._rest = [rest[k] for k in self.quantity.moving]

    def __call__(self, poses: Array) -> Array:
        """(), or (B,), of poses (k, 3, 4) or (k, 4, 4), or (B, k, ...), of the k surfaces that move. Its derivatives are those
        by all 12 numbers of a pose; where R comes of other parameters, JAX goes on from there."""
        poses = jnp.asarray(poses)
        self.quantity.check_poses(poses.shape)
        return _apply(self.quantity, [_check(transform(jnp.asarray(v, poses.dtype), poses[..., at, :, :]), "poses")
                                      for at, v in enumerate(self._rest)])
