"""The call that opens scenes. Generated from proto/catalogue by `make catalogue`."""

from __future__ import annotations

from typing import Any, Sequence

from ._scene_settings import Allocation, Law, Method
from .scene import Scene


class SceneOpener:
    """Opens scenes: for Client."""

    def _open_scene(self, given: dict[str, Any], name: str, timeout: float | None) -> Scene:
        raise NotImplementedError

    def open_scene(self, method: Method | None = None, resolution: int | Sequence[int] | None = None,
                   pixel_size: float | None = None, stiffness: float | None = None, law: Law | None = None, *,
                   stiction_speed: float | None = None, patches: bool | None = None, tolerance: float | None = None,
                   tolerance_rel: float | None = None, strict: bool | None = None, optimize_directions: bool | None = None,
                   allocation: Allocation | None = None, ray_budget: int | None = None, cell_size: float | None = None,
                   margin: float | None = None, skip_unplaced: bool | None = None, max_step_time: float | None = None,
                   voxel_level: int | None = None, level: int | None = None, pair_budget: int | None = None,
                   max_points: int | None = None, center_normals: bool | None = None, plain_average: bool | None = None,
                   refine: bool | None = None, name: str = "", timeout: float | None = None) -> Scene:
        """Opens a scene; see Scene.configure for the settings. What is left out has its default: method "auto", stiffness 1,
        and none of the others.

        Args:
            name: what the server calls it, in lists and logs.
            timeout: s, of the request; None: the client's.
        """
        return self._open_scene(dict(method=method, resolution=resolution, pixel_size=pixel_size, stiffness=stiffness, law=law,
                                     stiction_speed=stiction_speed, patches=patches, tolerance=tolerance,
                                     tolerance_rel=tolerance_rel, strict=strict, optimize_directions=optimize_directions,
                                     allocation=allocation, ray_budget=ray_budget, cell_size=cell_size, margin=margin,
                                     skip_unplaced=skip_unplaced, max_step_time=max_step_time, voxel_level=voxel_level,
                                     level=level, pair_budget=pair_budget, max_points=max_points, center_normals=center_normals,
                                     plain_average=plain_average, refine=refine), name, timeout)
